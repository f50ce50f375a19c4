// SPDX-License-Identifier: Apache-2.0
/// \file
/// Two ends of a link, and a connection between them that breaks at any point.

#include "lib/node/link.h"

#include <array>
#include <deque>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/node/fake_endpoint.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

using wire::Kind;

/// One end: what it adds are replies with the numbers 0, 1, 2 and so on.
struct End {
    Link link;
    FakeEndpoint endpoint;
    transport::ConnectionId connection = endpoint.accept();
    size_t delivered = 0;           ///< of what was sent on this connection
    uint64_t added = 0;             ///< by this end
    std::vector<uint64_t> arrived;  ///< here

    void add(size_t body_bytes = 0) {
        wire::FrameHeader header = wire::header_of(Kind::kReply);
        header.request = added++;
        const Bytes frame = bytes_of_frame(header, Bytes(body_bytes));
        const std::span<const std::byte> part = frame;
        link.add(std::span(&part, 1));
    }

    void post() { (void)link.post(endpoint, connection); }

    [[nodiscard]] const std::vector<Bytes>& sent() { return endpoint.sent(connection); }
};

/// The next frame of one end reaches the other one. False: there is none.
bool deliver(End& from, End& to) {
    if (from.delivered == from.sent().size()) return false;
    const Bytes& bytes = from.sent()[from.delivered++];
    const wire::FrameHeader header = header_in(bytes);
    if (header.kind == Kind::kTaken) {
        REQUIRE(to.link.note_taken(header.first));
    } else {
        to.link.take(bytes.size());
        to.arrived.push_back(header.request);
    }
    return true;
}

/// What is under way is lost, and both go on over a new connection.
void break_between(End& a, End& b) {
    for (End* const end : {&a, &b}) {
        end->endpoint.cut(end->connection);
        end->connection = end->endpoint.accept();
        end->delivered = 0;
    }
    const uint64_t a_has = a.link.taken();
    REQUIRE(a.link.resume(b.link.taken()));
    REQUIRE(b.link.resume(a_has));
}

void deliver_all(End& a, End& b) {
    a.post();
    b.post();
    while (deliver(a, b) || deliver(b, a)) {
    }
}

/// 0, 1, 2 and so on.
void check_whole(const std::vector<uint64_t>& arrived, uint64_t count) {
    REQUIRE(arrived.size() == count);
    for (uint64_t i = 0; i < count; ++i)
        REQUIRE(arrived[i] == i);
}

}  // namespace

TEST_SUITE("link") {
    TEST_CASE("frames arrive once and in order, wherever the connection breaks") {
        constexpr size_t kFrames = 5;
        for (size_t posted = 0; posted <= kFrames; ++posted) {
            for (size_t delivered = 0; delivered <= posted; ++delivered) {
                for (size_t counted = 0; counted <= delivered; ++counted) {
                    CAPTURE(posted);
                    CAPTURE(delivered);
                    CAPTURE(counted);
                    End a;
                    End b;
                    for (size_t i = 0; i < kFrames; ++i)
                        a.add();
                    a.endpoint.room = posted;
                    a.post();
                    REQUIRE(a.sent().size() == posted);
                    for (size_t i = 0; i < delivered; ++i) {
                        REQUIRE(deliver(a, b));
                        if (i + 1 == counted) b.link.post_count(b.endpoint, b.connection);
                    }
                    while (deliver(b, a)) {
                    }
                    a.endpoint.room = ~size_t{0};
                    break_between(a, b);
                    a.add();
                    deliver_all(a, b);
                    check_whole(b.arrived, kFrames + 1);
                    CHECK_FALSE(a.link.has_unposted());
                }
            }
        }
    }

    TEST_CASE("frames of both ends arrive once and in order over many breaks") {
        WEIR_TEST_SEED(first, 1);
        uint64_t breaks = 0;
        for (uint64_t seed = first; seed < first + 200; ++seed) {
            INFO("WEIR_SEED=" << seed);
            Random random(seed);
            std::array<End, 2> ends;
            for (int step = 0; step < 200; ++step) {
                const uint64_t which = random.below(2);
                End& end = ends[which];
                End& other = ends[1 - which];
                switch (random.below(6)) {
                    case 0: end.add(random.below(3) * 3000); break;
                    case 1:
                        end.endpoint.room = random.below(4);
                        end.post();
                        end.endpoint.room = ~size_t{0};
                        break;
                    case 2:
                    case 3: (void)deliver(end, other); break;
                    case 4: end.link.post_count(end.endpoint, end.connection); break;
                    default:
                        if (random.below(4) != 0) break;
                        break_between(ends[0], ends[1]);
                        ++breaks;
                }
            }
            deliver_all(ends[0], ends[1]);
            check_whole(ends[0].arrived, ends[1].added);
            check_whole(ends[1].arrived, ends[0].added);
            for (End& end : ends)
                end.link.post_count(end.endpoint, end.connection);
            deliver_all(ends[0], ends[1]);
            CHECK(ends[0].link.kept_bytes() == 0);
            CHECK(ends[1].link.kept_bytes() == 0);
        }
        CHECK(breaks > 200);
    }

    TEST_CASE("a count that cannot be is refused and changes nothing") {
        End a;
        for (int i = 0; i < 4; ++i)
            a.add();
        a.endpoint.room = 3;
        a.post();
        a.endpoint.room = ~size_t{0};
        REQUIRE(a.link.note_taken(2));
        const size_t kept = a.link.kept_bytes();
        // Fewer than it had; one that was not posted; one that was not even added; endless.
        for (const uint64_t lie : {uint64_t{1}, uint64_t{4}, uint64_t{5}, ~uint64_t{0}}) {
            CAPTURE(lie);
            CHECK_FALSE(a.link.note_taken(lie));
            CHECK_FALSE(a.link.resume(lie));
            CHECK(a.link.kept_bytes() == kept);
        }
        End b;
        b.arrived = {0, 1};
        a.delivered = 2;
        a.post();
        while (deliver(a, b)) {
        }
        check_whole(b.arrived, 4);
    }

    TEST_CASE("what was posted on an earlier connection may have arrived") {
        End a;
        for (int i = 0; i < 3; ++i)
            a.add();
        a.post();
        REQUIRE(a.link.resume(0));
        CHECK(a.link.note_taken(3));  // the news that it had them comes late
        CHECK(a.link.kept_bytes() == 0);
        CHECK_FALSE(a.link.has_unposted());
    }

    TEST_CASE("an end that takes much says so, again until there is room for it, and once") {
        End a;
        size_t bytes = 0;
        while (!a.link.owes_count()) {
            a.link.take(4096);
            bytes += 4096;
            REQUIRE(bytes < size_t{1} << 20);
        }
        a.endpoint.room = 0;
        a.link.post_count(a.endpoint, a.connection);
        CHECK(a.link.owes_count());
        a.endpoint.room = 1;
        a.link.post_count(a.endpoint, a.connection);
        CHECK_FALSE(a.link.owes_count());
        REQUIRE(a.sent().size() == 1);
        CHECK(header_in(a.sent()[0]).kind == Kind::kTaken);
        CHECK(header_in(a.sent()[0]).first == a.link.taken());
        for (int i = 0; i < 1000; ++i)
            a.link.take(0);  // frames without a body count, too
        CHECK(a.link.owes_count());
    }

    TEST_CASE("a frame that no connection takes is sent without its body") {
        End a;
        a.endpoint.message_bytes_max = 100;
        a.add();
        a.add(200);
        a.add();
        a.post();
        REQUIRE(a.sent().size() == 3);
        for (uint64_t i = 0; i < 3; ++i) {
            CHECK(header_in(a.sent()[i]).request == i);
            CHECK(header_in(a.sent()[i]).body_bytes == 0);
        }
        CHECK(a.link.note_taken(3));
        CHECK(a.link.kept_bytes() == 0);
    }

    TEST_CASE("a link that is not made anew keeps nothing of what is posted") {
        End a;
        a.add();
        a.add();
        a.endpoint.room = 1;
        a.post();
        a.link.drop_posted();
        CHECK(a.link.has_unposted());
        a.endpoint.room = 1;
        a.post();
        a.link.drop_posted();
        CHECK(a.link.kept_bytes() == 0);
        CHECK(a.sent().size() == 2);
    }
}

}  // namespace weir::testing
