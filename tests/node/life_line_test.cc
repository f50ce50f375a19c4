// SPDX-License-Identifier: Apache-2.0
/// \file
/// What proves to a process that the manager's has ended, and what does not.

#include "lib/node/life_line.h"

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "lib/wire/messages.h"
#include "tests/node/fake_endpoint.h"

namespace weir::testing {
namespace {

using wire::Kind;

struct LineOfProcess {
    explicit LineOfProcess(size_t managers = 1) {
        for (size_t i = 0; managers > 1 && i < managers; ++i)
            manager->places.push_back({static_cast<uint32_t>(i), "fake:" + std::to_string(i)});
        auto made = std::make_unique<FakeEndpoint>();
        endpoint = made.get();
        line = std::make_unique<LifeLine>(std::move(made), clock, "fake:1", 7, manager);
    }

    void poll() {
        while (line->poll() != 0) {
        }
    }

    /// The connection that is being made opens.
    transport::ConnectionId open() {
        const transport::ConnectionId connection = endpoint->last();
        endpoint->answer(connection);
        poll();
        return connection;
    }

    /// The manager answers on it, too.
    transport::ConnectionId open_and_answer() {
        const transport::ConnectionId connection = open();
        endpoint->arrive(connection, wire::header_of(Kind::kLifeLine));
        poll();
        return connection;
    }

    /// One of several managers says that number `number`, from 1, leads in a term.
    void says_leads(transport::ConnectionId watch, uint64_t number, uint64_t term) {
        wire::FrameHeader header = wire::header_of(Kind::kLeader);
        header.first = number;
        header.request = term;
        endpoint->arrive(watch, header);
        poll();
    }

    /// One of several managers says that it takes no part any more.
    void says_it_is_out(transport::ConnectionId watch) {
        wire::FrameHeader header = wire::header_of(Kind::kLeader);
        header.status = Errc::kUnavailable;
        endpoint->arrive(watch, header);
        poll();
    }

    ManualClock clock;
    std::shared_ptr<ManagerLife> manager = std::make_shared<ManagerLife>();
    FakeEndpoint* endpoint = nullptr;
    std::unique_ptr<LifeLine> line;
};

}  // namespace

TEST_SUITE("life_line") {
    TEST_CASE("an orderly end after the manager's answer proves its end") {
        LineOfProcess process;
        const auto connection = process.open_and_answer();
        REQUIRE(process.endpoint->sent(connection).size() == 1);
        const wire::FrameHeader hello = header_in(process.endpoint->sent(connection)[0]);
        CHECK(hello.kind == Kind::kLifeLine);
        CHECK(hello.request == 1);
        CHECK(hello.first == 7);
        CHECK(process.manager->is_reached);
        CHECK_FALSE(process.line->finished());
        process.endpoint->end_in_order(connection);
        process.poll();
        CHECK(process.manager->has_ended);
        CHECK(process.line->finished());
    }

    TEST_CASE("a reset proves nothing: the line is made anew, with the next number") {
        LineOfProcess process;
        const auto first = process.open_and_answer();
        process.endpoint->cut(first);
        process.poll();
        CHECK_FALSE(process.manager->has_ended);
        CHECK(process.endpoint->connects == 1);
        process.clock.advance(kSecond);
        process.poll();
        REQUIRE(process.endpoint->connects == 2);
        const auto second = process.open();
        CHECK(header_in(process.endpoint->sent(second)[0]).request == 2);
        process.endpoint->end_in_order(second);  // before the manager has answered on it
        process.poll();
        CHECK_FALSE(process.manager->has_ended);
        CHECK(process.manager->is_reached);
    }

    TEST_CASE("no other frame counts as the manager's answer") {
        const Bytes refusal = encode_text("too many life lines");
        for (const Kind kind : {Kind::kShutdown, Kind::kLink, Kind::kReply}) {
            CAPTURE(static_cast<int>(kind));
            LineOfProcess process;
            const auto connection = process.open();
            process.endpoint->arrive(connection, wire::header_of(kind), refusal);
            process.endpoint->arrive(connection, Bytes(5));
            process.endpoint->end_in_order(connection);
            process.poll();
            CHECK_FALSE(process.manager->is_reached);
            CHECK_FALSE(process.manager->has_ended);
            CHECK(process.manager->is_tried);
        }
    }

    TEST_CASE("a manager that cannot be reached is tried again, ever more slowly") {
        LineOfProcess process;
        process.endpoint->cut(process.endpoint->last());
        process.poll();
        CHECK(process.manager->is_tried);
        process.endpoint->is_unreachable = true;
        for (int i = 0; i < 10'000; ++i) {
            process.clock.advance(kMillisecond);
            process.poll();
        }
        CHECK(process.endpoint->connects > 20);
        CHECK(process.endpoint->connects < 40);
        process.endpoint->is_unreachable = false;
        process.clock.advance(kSecond);
        process.poll();
        (void)process.open_and_answer();
        CHECK(process.manager->is_reached);
    }

    TEST_CASE(
        "of several managers, the line is made to the one that leads, and moves with the lead") {
        LineOfProcess process(3);
        CHECK(process.endpoint->connects == 3);
        const transport::ConnectionId first = process.endpoint->last() - 2;
        for (transport::ConnectionId watch = first; watch < first + 3; ++watch)
            process.endpoint->answer(watch);
        process.poll();
        CHECK(header_in(process.endpoint->sent(first)[0]).kind == Kind::kLeader);
        CHECK(process.endpoint->connects == 3);  // nobody leads yet
        process.says_leads(first, 2, 5);
        CHECK(process.manager->leading == (5 << ManagerLife::kLeaderBits | 2));
        CHECK_FALSE(process.manager->is_reached);
        const auto line = process.open_and_answer();
        CHECK(header_in(process.endpoint->sent(line)[0]).kind == Kind::kLifeLine);
        CHECK(process.manager->is_reached);
        process.says_leads(first + 2, 1, 4);  // of an earlier term
        CHECK(process.endpoint->is_open(line));
        process.says_leads(first + 2, 0, 6);  // nobody, as far as it knows
        process.says_leads(first + 2, 9, 7);  // there is no such one
        CHECK(process.endpoint->is_open(line));
        process.says_leads(first + 2, 3, 6);
        CHECK(process.endpoint->is_open(line));  // no living process ends one
        const auto next = process.open_and_answer();
        CHECK(next != line);
        CHECK(header_in(process.endpoint->sent(next)[0]).request == 2);
        process.endpoint->end_in_order(next);
        process.poll();
        CHECK_FALSE(process.manager->has_ended);  // others may lead
    }

    TEST_CASE("managers that take no part any more count as those that have ended, but are alive") {
        LineOfProcess process(3);
        const transport::ConnectionId first = process.endpoint->last() - 2;
        for (transport::ConnectionId watch = first; watch < first + 3; ++watch)
            process.endpoint->answer(watch);
        process.poll();
        process.says_leads(first, 1, 5);
        process.says_it_is_out(first);
        CHECK_FALSE(process.manager->has_ended);
        process.says_it_is_out(first);  // once more
        CHECK_FALSE(process.manager->has_ended);
        process.says_leads(first + 1, 2, 6);
        process.says_it_is_out(first + 2);
        CHECK(process.manager->has_ended);
        CHECK(process.manager->ended == 0);
    }

    TEST_CASE("several managers have ended when so many have that nobody can lead") {
        LineOfProcess process(3);
        const transport::ConnectionId first = process.endpoint->last() - 2;
        for (transport::ConnectionId watch = first; watch < first + 3; ++watch)
            process.endpoint->answer(watch);
        process.says_leads(first, 1, 1);
        process.says_leads(first + 1, 1, 1);
        process.endpoint->cut(first);               // proves nothing
        process.endpoint->end_in_order(first + 2);  // has not answered
        process.endpoint->end_in_order(first + 1);
        process.poll();
        CHECK_FALSE(process.manager->has_ended);
        process.clock.advance(kSecond);
        const size_t before = process.endpoint->connects;
        process.poll();
        CHECK(process.endpoint->connects >= before + 2);  // those that may live
        for (transport::ConnectionId one = first + 3; one <= process.endpoint->last(); ++one) {
            process.endpoint->answer(one);
            process.endpoint->arrive(one, wire::header_of(Kind::kLeader));
        }
        process.poll();
        process.endpoint->end_in_order(process.endpoint->last());
        process.poll();
        CHECK(process.manager->has_ended);
        CHECK(process.line->finished());
    }
}

}  // namespace weir::testing
