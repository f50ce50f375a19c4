// SPDX-License-Identifier: Apache-2.0
/// \file
/// A member's end of its link, with a manager that is played by the test.

#include "lib/node/manager_link.h"

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "lib/node/life_line.h"
#include "lib/wire/messages.h"
#include "tests/node/fake_endpoint.h"

namespace weir::testing {
namespace {

using wire::Kind;
using Taken = ManagerLink::Taken;

struct Member {
    explicit Member(uint64_t identity = 11)
        : link(endpoint, clock, "fake:1", LinkIdentity{identity, 7, manager}) {}

    /// The connection that is being made opens. True: it is the first one.
    bool open() {
        connection = endpoint.last();
        return link.connected();
    }

    bool cut() {
        endpoint.cut(connection);
        return link.closed();
    }

    /// The next connection, up to where the manager has to answer.
    void open_anew() {
        REQUIRE(cut());
        clock.advance(kSecond);
        (void)link.poll("test");
        REQUIRE_FALSE(open());
    }

    [[nodiscard]] Taken take(wire::FrameHeader header, std::span<const std::byte> body = {}) {
        const Bytes bytes = bytes_of_frame(header, body);
        wire::Frame frame;
        REQUIRE(wire::decode(bytes, frame) == Errc::kOk);
        return link.take(frame);
    }

    [[nodiscard]] Taken take(Kind kind, uint64_t first = 0) {
        wire::FrameHeader header = wire::header_of(kind);
        header.first = first;
        return take(header);
    }

    /// Sends a barrier of this number.
    void send(uint64_t request) {
        wire::FrameHeader header = wire::header_of(Kind::kBarrier);
        header.request = request;
        link.send(header);
    }

    /// The numbers of what was sent on the connection behind the greeting.
    [[nodiscard]] std::vector<uint64_t> requests() {
        const std::vector<Bytes>& sent = endpoint.sent(connection);
        std::vector<uint64_t> numbers;
        for (size_t i = 1; i < sent.size(); ++i)
            numbers.push_back(header_in(sent[i]).request);
        return numbers;
    }

    [[nodiscard]] wire::FrameHeader greeting() {
        REQUIRE_FALSE(endpoint.sent(connection).empty());
        return header_in(endpoint.sent(connection)[0]);
    }

    ManualClock clock;
    FakeEndpoint endpoint;
    std::shared_ptr<ManagerLife> manager = std::make_shared<ManagerLife>();
    ManagerLink link;
    transport::ConnectionId connection = 0;
};

using Requests = std::vector<uint64_t>;

}  // namespace

TEST_SUITE("manager_link unit") {
    TEST_CASE("the first connection is greeted and used at once") {
        Member member;
        REQUIRE(member.link.connect().has_value());
        member.send(1);
        CHECK(member.open());
        (void)member.link.poll("test");
        const wire::FrameHeader greeting = member.greeting();
        CHECK(greeting.kind == Kind::kLink);
        CHECK(greeting.request == 1);
        CHECK(greeting.first == 0);
        CHECK(greeting.status == Errc::kOk);
        CHECK(member.requests() == Requests{1});
        member.send(2);
        CHECK(member.requests() == Requests{1, 2});
        CHECK(member.take(Kind::kLink) == Taken::kOwn);
        CHECK(member.take(Kind::kView) == Taken::kFrame);
    }

    TEST_CASE("a later connection waits for the manager's answer, then sends what is missing") {
        for (uint64_t arrived = 0; arrived <= 3; ++arrived) {
            CAPTURE(arrived);
            Member member;
            REQUIRE(member.link.connect().has_value());
            (void)member.open();
            for (uint64_t i = 1; i <= 3; ++i)
                member.send(i);
            CHECK(member.take(Kind::kLink) == Taken::kOwn);
            CHECK(member.take(Kind::kView) == Taken::kFrame);
            CHECK(member.take(Kind::kReply) == Taken::kFrame);
            member.open_anew();
            CHECK(member.link.is_broken());
            CHECK(member.greeting().request == 2);
            CHECK(member.greeting().first == 2);  // the view and the reply
            member.send(4);
            (void)member.link.poll("test");
            CHECK(member.requests().empty());
            CHECK(member.take(Kind::kLink, arrived) == Taken::kOwn);
            CHECK_FALSE(member.link.is_broken());
            (void)member.link.poll("test");
            Requests missing;
            for (uint64_t i = arrived + 1; i <= 4; ++i)
                missing.push_back(i);
            CHECK(member.requests() == missing);
        }
    }

    TEST_CASE("counts that lie, and frames before the answer, are wrong") {
        Member member;
        REQUIRE(member.link.connect().has_value());
        (void)member.open();
        member.send(1);
        CHECK(member.take(Kind::kTaken, 2) == Taken::kWrong);
        CHECK(member.take(Kind::kTaken, 1) == Taken::kOwn);
        CHECK(member.take(Kind::kTaken, 0) == Taken::kWrong);
        member.open_anew();
        CHECK(member.take(Kind::kLink, 0) == Taken::kWrong);
        CHECK(member.take(Kind::kLink, 2) == Taken::kWrong);
        CHECK(member.take(Kind::kTaken, 1) == Taken::kWrong);
        CHECK(member.take(Kind::kView) == Taken::kWrong);
        CHECK(member.take(Kind::kShutdown) == Taken::kFrame);  // it goes on without this member
        CHECK(member.take(Kind::kLink, 1) == Taken::kOwn);
    }

    TEST_CASE("what it takes is counted for the manager, also over a break") {
        Member member;
        REQUIRE(member.link.connect().has_value());
        (void)member.open();
        CHECK(member.take(Kind::kLink) == Taken::kOwn);
        const Bytes body(8000);
        uint64_t views = 0;
        const auto take_view = [&] {
            CHECK(member.take(wire::header_of(Kind::kView), body) == Taken::kFrame);
            ++views;
            (void)member.link.poll("test");
        };
        while (member.endpoint.sent(member.connection).size() == 1 && views < 1000)
            take_view();
        REQUIRE(member.endpoint.sent(member.connection).size() == 2);
        const wire::FrameHeader count = header_in(member.endpoint.sent(member.connection)[1]);
        CHECK(count.kind == Kind::kTaken);
        CHECK(count.first == views);
        take_view();
        member.open_anew();
        CHECK(member.greeting().first == views);
    }

    TEST_CASE("the proof of the manager's end ends the link, once; a break alone does not") {
        Member member;
        REQUIRE(member.link.connect().has_value());
        (void)member.open();
        REQUIRE(member.cut());
        (void)member.link.poll("test");
        CHECK_FALSE(member.link.take_end());
        member.manager->has_ended = true;
        CHECK(member.link.poll("test") == 1);
        const std::optional<Error> end = member.link.take_end();
        REQUIRE(end);
        CHECK(end->text().find("its process has ended") != std::string::npos);
        CHECK_FALSE(member.link.take_end());
        CHECK(member.link.poll("test") == 0);
        CHECK(member.link.due_ns() == ~uint64_t{0});
    }

    TEST_CASE("a manager out of reach is tried for two minutes, at most once a second in the end") {
        Member member;
        REQUIRE(member.link.connect().has_value());
        (void)member.open();
        const uint64_t cut_ns = member.clock.now_ns();
        REQUIRE(member.cut());
        std::optional<Error> end;
        while (!end && member.clock.now_ns() - cut_ns < 200 * kSecond) {
            member.clock.advance(5 * kMillisecond);
            if (member.link.poll("test") != 0 && member.link.connection() != 0) {
                member.endpoint.cut(member.endpoint.last());
                REQUIRE(member.link.closed());
            }
            end = member.link.take_end();
        }
        REQUIRE(end);
        CHECK(end->text().find("cannot be reached for 120 s") != std::string::npos);
        CHECK(member.clock.now_ns() - cut_ns > ManagerLink::kGiveUpNs);
        CHECK(member.clock.now_ns() - cut_ns < ManagerLink::kGiveUpNs + 2 * kSecond);
        CHECK(member.endpoint.connects > 120);
        CHECK(member.endpoint.connects < 140);
    }

    TEST_CASE(
        "a first connection that does not open ends the link, unless the manager was reached") {
        for (const bool is_reached : {false, true}) {
            CAPTURE(is_reached);
            Member member;
            member.manager->is_reached = is_reached;
            REQUIRE(member.link.connect().has_value());
            member.endpoint.cut(member.endpoint.last());
            CHECK(member.link.closed() == is_reached);
        }
    }

    TEST_CASE("the owner learns once of each other manager that leads, but not of the first one") {
        Member member;
        member.manager->places = {{10, "fake:1"}, {11, "fake:2"}, {12, "fake:3"}};
        member.manager->is_reached = true;
        const auto lead = [&](uint64_t term, uint64_t number) {
            member.manager->leading = term << ManagerLife::kLeaderBits | number;
            (void)member.link.poll("test");
            return member.link.take_new_leader();
        };
        REQUIRE(member.link.connect().has_value());  // to one that may lead
        (void)member.open();
        CHECK(lead(1, 2) == std::nullopt);
        CHECK(lead(2, 3) == 12U);
        CHECK(member.link.take_new_leader() == std::nullopt);
        CHECK(lead(4, 3) == std::nullopt);  // the same one
        CHECK(lead(5, 1) == 10U);
    }

    TEST_CASE("one that begins to lead while the connection is made anew is noticed, too") {
        Member member;
        member.manager->places = {{10, "fake:1"}, {11, "fake:2"}};
        member.manager->is_reached = true;
        member.manager->leading = uint64_t{1} << ManagerLife::kLeaderBits | 1;
        REQUIRE(member.link.connect().has_value());
        (void)member.open();
        REQUIRE(member.cut());
        member.manager->leading = uint64_t{2} << ManagerLife::kLeaderBits | 2;
        for (int i = 0; i < 2; ++i) {
            member.clock.advance(kSecond);
            (void)member.link.poll("test");
        }
        CHECK(member.link.connection() != 0);
        CHECK(member.link.take_new_leader() == 11U);
    }

    TEST_CASE("a member that ends says so, on the first connection and on later ones") {
        for (const bool is_anew : {false, true}) {
            CAPTURE(is_anew);
            Member member;
            REQUIRE(member.link.connect().has_value());
            (void)member.open();
            if (is_anew) member.open_anew();
            member.link.end();
            const wire::FrameHeader last =
                header_in(member.endpoint.sent(member.connection).back());
            CHECK(last.kind == Kind::kLink);
            CHECK(last.status == Errc::kUnavailable);
            member.send(1);  // nothing more
            CHECK(header_in(member.endpoint.sent(member.connection).back()).kind == Kind::kLink);
            CHECK_FALSE(member.cut());
        }
    }

    TEST_CASE("a link without an identity is one connection, without frames of its own") {
        Member member(0);
        REQUIRE(member.link.connect().has_value());
        CHECK(member.open());
        member.send(1);
        REQUIRE(member.endpoint.sent(member.connection).size() == 1);
        CHECK(header_in(member.endpoint.sent(member.connection)[0]).kind == Kind::kBarrier);
        CHECK(member.take(Kind::kView) == Taken::kFrame);
        CHECK_FALSE(member.cut());
    }
}

}  // namespace weir::testing
