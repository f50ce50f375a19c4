// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/held_answers.h"

#include <array>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/frames.h"

namespace weir::test {
namespace {

/// Connections and requests of the answers that leave.
using Left = std::vector<std::pair<transport::ConnectionId, uint64_t>>;

class Answers {
public:
    void add(uint64_t state, transport::ConnectionId connection, uint64_t request) {
        held.add(state, connection, testing::frame_header(wire::Kind::kReply, request), {});
    }

    [[nodiscard]] Left release(uint64_t confirmed) {
        Left left;
        const size_t count = held.release(
            confirmed,
            [&](transport::ConnectionId connection, wire::FrameHeader& header,
                std::span<const std::byte>) { left.emplace_back(connection, header.request); });
        CHECK(count == left.size());
        return left;
    }

    HeldAnswers held;
};

}  // namespace

TEST_SUITE("held_answers") {
    TEST_CASE("answers leave in their order, each when its state is confirmed") {
        Answers answers;
        answers.add(3, 1, 10);
        answers.add(4, 2, 20);
        answers.add(4, 1, 11);
        answers.add(6, 1, 12);
        CHECK(answers.release(2) == Left{});
        CHECK(answers.release(4) == Left{{1, 10}, {2, 20}, {1, 11}});
        CHECK(answers.release(5) == Left{});
        CHECK_FALSE(answers.held.empty());
        CHECK(answers.release(~uint64_t{0}) == Left{{1, 12}});
        CHECK(answers.held.empty());
    }

    TEST_CASE("a repeated push is answered behind the one that it repeats") {
        Answers answers;
        answers.add(7, 1, 1);
        answers.add(7, 2, 1);  // executed nothing: the state is the same
        CHECK(answers.release(6) == Left{});
        CHECK(answers.release(7) == Left{{1, 1}, {2, 1}});
    }

    TEST_CASE("a closed connection gets no answer, others keep their order") {
        Answers answers;
        answers.add(1, 1, 1);
        answers.add(1, 2, 2);
        answers.add(2, 1, 3);
        answers.held.forget(1);
        CHECK(answers.release(2) == Left{{2, 2}});
    }

    TEST_CASE("an answer keeps its body") {
        HeldAnswers held;
        std::array<std::byte, 3> body{std::byte{1}, std::byte{2}, std::byte{3}};
        held.add(1, 1, testing::frame_header(wire::Kind::kReply, 1), body);
        body.fill({});
        size_t left = 0;
        held.release(
            1, [&](transport::ConnectionId, wire::FrameHeader&, std::span<const std::byte> bytes) {
                CHECK(bytes.size() == 3);
                CHECK(bytes[2] == std::byte{3});
                ++left;
            });
        CHECK(left == 1);
    }
}

}  // namespace weir::test
