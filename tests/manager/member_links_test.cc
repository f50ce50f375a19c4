// SPDX-License-Identifier: Apache-2.0
/// \file
/// The manager's end of links and life lines, with members that are played by the test.

#include "lib/manager/member_links.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/node/manager_link.h"
#include "lib/wire/messages.h"
#include "tests/node/fake_endpoint.h"

namespace weir::testing {
namespace {

using transport::ConnectionId;
using transport::Event;
using wire::Kind;

wire::FrameHeader numbered(Kind kind, uint64_t request, uint64_t first = 0) {
    wire::FrameHeader header = wire::header_of(kind);
    header.request = request;
    header.first = first;
    return header;
}

/// What the manager sees.
struct Seen {
    Event event;
    ConnectionId connection;
    uint64_t request;  ///< of a frame
};

struct Links {
    static constexpr uint64_t kProcess = 7;

    Links() {
        auto made = std::make_unique<FakeEndpoint>();
        below = made.get();
        links = std::make_unique<MemberLinks>(std::move(made), clock, kSecond);
    }

    std::vector<Seen> poll() {
        std::vector<Seen> seen;
        std::array<transport::Completion, 3> completions;
        for (int idle = 0; idle < 2; ++idle) {  // what it finds may be of the next poll
            const size_t count = links->poll(completions);
            if (count != 0) idle = -1;
            for (size_t i = 0; i < count; ++i) {
                const bool is_frame = completions[i].event == Event::kReceived;
                seen.push_back({completions[i].event, completions[i].connection,
                                is_frame ? header_in(completions[i].message).request : 0});
            }
        }
        return seen;
    }

    /// The numbers of the frames that come over the link.
    std::vector<uint64_t> frames(ConnectionId link) {
        std::vector<uint64_t> numbers;
        for (const Seen& seen : poll()) {
            if (seen.event == Event::kReceived && seen.connection == link)
                numbers.push_back(seen.request);
        }
        return numbers;
    }

    /// Whether the manager is told now that this is closed.
    bool sees_close(ConnectionId which) {
        bool sees = false;
        for (const Seen& seen : poll())
            sees = sees || (seen.event == Event::kClosed && seen.connection == which);
        return sees;
    }

    /// A connection of a process's life line.
    ConnectionId life_line(uint64_t number = 1, uint64_t process = kProcess) {
        const ConnectionId line = below->accept();
        below->arrive(line, numbered(Kind::kLifeLine, number, process));
        (void)poll();
        return line;
    }

    /// A connection of a link. Nothing has been polled yet.
    ConnectionId hello(uint64_t number, uint64_t taken, uint64_t identity = 11,
                       uint64_t process = kProcess) {
        const ConnectionId made = below->accept();
        below->arrive(made, numbered(Kind::kLink, number, taken),
                      LinkMessage{identity, process, number > 1}.encode());
        return made;
    }

    /// What the manager knows the link by. 0: none has begun.
    ConnectionId begin() {
        connection = hello(1, 0);
        ConnectionId id = 0;
        for (const Seen& seen : poll()) {
            if (seen.event == Event::kAccepted && seen.connection != connection)
                id = seen.connection;
        }
        return id;
    }

    /// The member goes on over another connection.
    void go_on(uint64_t number, uint64_t taken) {
        connection = hello(number, taken);
        (void)poll();
    }

    void send(ConnectionId to, uint64_t request) {
        const wire::FrameHeader header = numbered(Kind::kView, request);
        const std::array parts{wire::bytes_of(header)};
        CHECK(links->send(to, parts) == transport::Post::kPosted);
    }

    static constexpr size_t kBodyBytes = 4096;

    transport::Post send_body(ConnectionId to, uint64_t request) {
        const Bytes body(kBodyBytes);
        wire::FrameHeader header = numbered(Kind::kView, request);
        header.body_bytes = kBodyBytes;
        const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), body};
        return links->send(to, parts);
    }

    /// Bodies of views. Returns how many bytes of them, or a little more than ever should be.
    size_t send_until_closed(ConnectionId to) {
        size_t sent = 0;
        while (sent <= Link::kKeptBytesMax && send_body(to, 1) == transport::Post::kPosted)
            sent += kBodyBytes;
        return sent;
    }

    void arrive(uint64_t request) { below->arrive(connection, numbered(Kind::kBarrier, request)); }

    /// Of the frames on a connection behind the manager's answer.
    std::vector<uint64_t> sent(ConnectionId on) {
        std::vector<uint64_t> numbers;
        const std::vector<Bytes>& all = below->sent(on);
        for (size_t i = 1; i < all.size(); ++i)
            numbers.push_back(header_in(all[i]).request);
        return numbers;
    }

    /// It was answered with a shutdown, and closed.
    bool is_refused(ConnectionId on) {
        return below->sent(on).size() == 1 &&
               header_in(below->sent(on)[0]).kind == Kind::kShutdown && !below->is_open(on);
    }

    ManualClock clock;
    FakeEndpoint* below = nullptr;
    std::unique_ptr<MemberLinks> links;
    ConnectionId connection = 0;  ///< the last one of the link
};

using Requests = std::vector<uint64_t>;

}  // namespace

TEST_SUITE("member_links") {
    TEST_CASE("a link is one connection, whatever becomes of those below it") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        REQUIRE(id != 0);
        const ConnectionId first = job.connection;
        CHECK(header_in(job.below->sent(first)[0]).kind == Kind::kLink);
        job.arrive(1);
        job.arrive(2);
        CHECK(job.frames(id) == Requests{1, 2});
        for (uint64_t i = 1; i <= 3; ++i)
            job.send(id, i);
        CHECK(job.sent(first) == Requests{1, 2, 3});
        job.below->cut(first);
        CHECK(job.poll().empty());
        job.send(id, 4);
        job.go_on(2, 1);
        CHECK(header_in(job.below->sent(job.connection)[0]).first == 2);
        CHECK(job.sent(job.connection) == Requests{2, 3, 4});
        job.arrive(3);
        CHECK(job.frames(id) == Requests{3});
        // Without a break that the manager has seen.
        const ConnectionId second = job.connection;
        job.arrive(4);
        job.connection = job.hello(3, 4);
        CHECK(job.frames(id) == Requests{4});
        CHECK_FALSE(job.below->is_open(second));
        CHECK(job.sent(job.connection).empty());
        CHECK(header_in(job.below->sent(job.connection)[0]).first == 4);
        CHECK(job.poll().empty());
    }

    TEST_CASE("an older connection that comes late is closed, and so is what it brings") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        job.below->cut(job.connection);
        job.go_on(3, 0);
        const ConnectionId newest = job.connection;
        for (const uint64_t number : {uint64_t{2}, uint64_t{3}, uint64_t{1}}) {
            const ConnectionId late = job.hello(number, 0);
            job.below->arrive(late, numbered(Kind::kBarrier, 99));
            CHECK(job.frames(id).empty());
            CHECK_FALSE(job.below->is_open(late));
            CHECK(job.below->sent(late).empty());
            CHECK(job.below->is_open(newest));
        }
        job.arrive(1);
        CHECK(job.frames(id) == Requests{1});
    }

    TEST_CASE("frames of a connection that another one has replaced do not count") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        const ConnectionId first = job.connection;
        job.connection = job.hello(2, 0);
        job.below->arrive(first, numbered(Kind::kBarrier, 1));  // the member sends it again
        CHECK(job.frames(id).empty());
        job.arrive(1);
        CHECK(job.frames(id) == Requests{1});
    }

    TEST_CASE("counts that lie end the link") {
        for (const uint64_t count : {uint64_t{0}, uint64_t{3}, ~uint64_t{0}}) {
            CAPTURE(count);
            Links job;
            (void)job.life_line();
            const ConnectionId id = job.begin();
            job.send(id, 1);
            job.send(id, 2);
            job.below->arrive(job.connection, numbered(Kind::kTaken, 0, 1));
            CHECK(job.poll().empty());
            const ConnectionId lies = job.hello(2, count);
            CHECK(job.sees_close(id));
            CHECK(job.is_refused(lies));
            // Within a connection its reader sees the frame, as none that a member may send.
            const ConnectionId other = job.begin();
            REQUIRE(other != 0);
            job.below->arrive(job.connection, numbered(Kind::kTaken, 5, count == 0 ? 1 : count));
            CHECK(job.frames(other) == Requests{5});
        }
    }

    TEST_CASE("a link that is not known, or claims to be new with frames taken, is refused") {
        Links job;
        (void)job.life_line();
        const ConnectionId known = job.hello(2, 0);
        const ConnectionId taken = job.hello(1, 1);
        const ConnectionId ended = job.below->accept();
        wire::FrameHeader last = numbered(Kind::kLink, 1);
        last.status = Errc::kUnavailable;
        job.below->arrive(ended, last, LinkMessage{11, 7, false}.encode());
        (void)job.poll();
        for (const ConnectionId connection : {known, taken, ended})
            CHECK(job.is_refused(connection));
    }

    TEST_CASE("a member that ends closes its link, on its connection or on the next one") {
        for (const bool is_anew : {false, true}) {
            CAPTURE(is_anew);
            Links job;
            (void)job.life_line();
            const ConnectionId id = job.begin();
            if (is_anew) {
                job.below->cut(job.connection);
                job.connection = job.below->accept();
            }
            job.arrive(1);
            wire::FrameHeader last = numbered(Kind::kLink, 2);
            last.status = Errc::kUnavailable;
            job.below->arrive(job.connection, last, LinkMessage{11, 7, true}.encode());
            CHECK(job.sees_close(id));
            CHECK_FALSE(job.below->is_open(job.connection));
            CHECK(job.links->send(id, {}) == transport::Post::kClosed);
            CHECK(job.begin() != 0);  // the name is free again
        }
    }

    TEST_CASE("the end of a process closes its links; what it had sent is read first") {
        Links job;
        const ConnectionId line = job.life_line();
        const ConnectionId id = job.begin();
        job.arrive(1);
        (void)job.poll();
        job.below->end_in_order(line);
        job.arrive(2);
        job.below->end_in_order(job.connection);
        const std::vector<Seen> seen = job.poll();
        REQUIRE(seen.size() == 3);
        CHECK(seen[0].connection == line);
        CHECK(seen[1].request == 2);
        CHECK(seen[2].event == Event::kClosed);
        CHECK(seen[2].connection == id);
    }

    TEST_CASE("a link whose process has ended is closed after a while, though nothing closes it") {
        Links job;
        const ConnectionId line = job.life_line();
        const ConnectionId id = job.begin();
        job.below->end_in_order(line);
        CHECK_FALSE(job.sees_close(id));
        job.arrive(1);
        CHECK(job.frames(id) == Requests{1});
        job.clock.advance(kSecond);
        CHECK(job.sees_close(id));
        CHECK_FALSE(job.below->is_open(job.connection));
    }

    TEST_CASE("a broken link of a process that ends is closed at once") {
        Links job;
        const ConnectionId line = job.life_line();
        const ConnectionId id = job.begin();
        job.below->cut(job.connection);
        CHECK_FALSE(job.sees_close(id));
        job.below->end_in_order(line);
        CHECK(job.sees_close(id));
    }

    TEST_CASE("a reset of a life line proves nothing: its process is silent until it is back") {
        Links job;
        const ConnectionId line = job.life_line();
        const ConnectionId id = job.begin();
        CHECK(job.links->silent_since_ns(id) == 0);
        job.clock.advance(kSecond);
        const uint64_t cut_ns = job.clock.now_ns();
        job.below->cut(line);
        CHECK_FALSE(job.sees_close(id));
        job.clock.advance(kSecond);
        CHECK_FALSE(job.sees_close(id));
        CHECK(job.links->silent_since_ns(id) == cut_ns);
        const ConnectionId late = job.life_line(1);  // an older one
        CHECK_FALSE(job.below->is_open(late));
        CHECK(job.links->silent_since_ns(id) == cut_ns);
        const ConnectionId back = job.life_line(2);
        CHECK(job.below->is_open(back));
        CHECK(job.links->silent_since_ns(id) == 0);
        job.below->end_in_order(back);
        CHECK_FALSE(job.sees_close(id));
        job.clock.advance(kSecond);
        CHECK(job.sees_close(id));
    }

    TEST_CASE("a link of a process without a life line ends with its connection") {
        Links job;
        const ConnectionId id = job.begin();
        job.below->cut(job.connection);
        CHECK(job.sees_close(id));
        CHECK(job.is_refused([&] {
            job.go_on(2, 0);
            return job.connection;
        }()));
    }

    TEST_CASE("a link frame on a life line begins no link, nor does a life line frame on a link") {
        Links job;
        const ConnectionId line = job.life_line();
        job.below->arrive(line, numbered(Kind::kLink, 1), LinkMessage{11, 7, false}.encode());
        const std::vector<Seen> seen = job.poll();
        REQUIRE(seen.size() == 1);  // its reader refuses it
        CHECK(seen[0].event == Event::kReceived);
        CHECK(seen[0].connection == line);
        CHECK(job.below->sent(line).size() == 1);
        const ConnectionId id = job.begin();
        REQUIRE(id != 0);
        job.below->arrive(job.connection, numbered(Kind::kLifeLine, 2, 7));
        CHECK(job.frames(id) == Requests{2});
        CHECK(job.below->is_open(line));
        CHECK(job.links->silent_since_ns(id) == 0);
    }

    TEST_CASE("of links and of life lines there is a number at most") {
        Links job;
        for (uint64_t i = 1; i <= MemberLinks::kLinksMax; ++i) {
            (void)job.hello(1, 0, i, i);
            job.below->arrive(job.below->accept(), numbered(Kind::kLifeLine, 1, i));
            if (i % 1024 == 0) (void)job.poll();
        }
        const ConnectionId link = job.hello(1, 0, 1 << 20, 1);
        (void)job.poll();
        CHECK(job.is_refused(link));
        const ConnectionId line = job.below->accept();
        job.below->arrive(line, numbered(Kind::kLifeLine, 1, 1 << 20));
        bool is_shown = false;
        for (const Seen& seen : job.poll())
            is_shown = is_shown || (seen.event == Event::kReceived && seen.connection == line);
        CHECK(is_shown);  // its reader refuses it
        CHECK(job.below->sent(line).empty());
        // Those that there are go on.
        const ConnectionId anew = job.hello(2, 0, 5, 5);
        (void)job.poll();
        CHECK(header_in(job.below->sent(anew)[0]).kind == Kind::kLink);
    }

    TEST_CASE("a member that takes nothing is closed when too much waits for it") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        const size_t sent = job.send_until_closed(id);
        CHECK(sent > Link::kKeptBytesMax / 2);
        CHECK(sent <= Link::kKeptBytesMax);
        CHECK(job.sees_close(id));
        CHECK_FALSE(job.below->is_open(job.connection));
    }

    TEST_CASE("what piles up for a member out of reach does not end it, and it gets all of that") {
        Links job;
        const ConnectionId line = job.life_line();
        const ConnectionId id = job.begin();
        job.below->cut(line);
        job.below->cut(job.connection);
        (void)job.poll();
        const uint64_t count = 2 * Link::kKeptBytesMax / Links::kBodyBytes;
        for (uint64_t i = 1; i <= count; ++i)
            REQUIRE(job.send_body(id, i) == transport::Post::kPosted);
        CHECK_FALSE(job.sees_close(id));
        (void)job.life_line(2);
        job.go_on(2, 0);
        REQUIRE(job.sent(job.connection).size() == count);
        CHECK(job.sent(job.connection).back() == count);
        job.send(id, 1);
        CHECK_FALSE(job.sees_close(id));
        // As much again may wait for it, and no more; also if it breaks the connection again.
        job.below->cut(job.connection);
        (void)job.poll();
        job.go_on(3, 0);
        CHECK(job.send_until_closed(id) <= Link::kKeptBytesMax);
        CHECK(job.sees_close(id));
    }

    TEST_CASE("once it has taken what had piled up, the usual limit counts for it again") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        job.below->cut(job.connection);
        (void)job.poll();
        const uint64_t count = 2 * Link::kKeptBytesMax / Links::kBodyBytes;
        for (uint64_t i = 1; i <= count; ++i)
            REQUIRE(job.send_body(id, i) == transport::Post::kPosted);
        job.go_on(2, 0);
        job.below->arrive(job.connection, numbered(Kind::kTaken, 0, count));
        (void)job.poll();
        CHECK(job.send_until_closed(id) <= Link::kKeptBytesMax);
    }

    TEST_CASE("a link that its member has given up is silent, though its process lives") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        job.clock.advance(kSecond);
        job.below->cut(job.connection);
        (void)job.poll();
        const uint64_t given_up_ns = job.clock.now_ns() + ManagerLink::kGiveUpNs;
        job.clock.advance(ManagerLink::kGiveUpNs);  // it may still come back
        CHECK(job.links->silent_since_ns(id) == 0);
        job.clock.advance(1);
        CHECK(job.links->silent_since_ns(id) == given_up_ns);
        job.go_on(2, 0);
        CHECK(job.links->silent_since_ns(id) == 0);
    }

    TEST_CASE("frames wait for room, and what is not taken is told") {
        Links job;
        (void)job.life_line();
        const ConnectionId id = job.begin();
        job.below->room = 1;
        for (uint64_t i = 1; i <= 3; ++i)
            job.send(id, i);
        CHECK(job.sent(job.connection) == Requests{1});
        CHECK(job.links->arm() == -1);
        job.below->room = 100;
        (void)job.poll();
        CHECK(job.sent(job.connection) == Requests{1, 2, 3});
        for (uint64_t i = 1; i <= 100; ++i)
            job.arrive(i);
        CHECK(job.frames(id).size() == 100);
        const wire::FrameHeader count = header_in(job.below->sent(job.connection).back());
        CHECK(count.kind == Kind::kTaken);
        CHECK(count.first > 50);
    }
}

}  // namespace weir::testing
