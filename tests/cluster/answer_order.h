// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// AnswerOrderEndpoint: whether what is of no hurry leaves a shard behind the answers of the same poll.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/wire/frame.h"
#include "tests/passing_endpoint.h"

namespace weir::test {

/// Messages of one kind, by what else the poll has sent.
struct AnswerOrder {
    uint64_t alone = 0;
    uint64_t after_answer = 0;  ///< that has left
    uint64_t before_answer = 0;
    bool has_answered = false;  ///< in this poll
    bool has_waiting = false;   ///< answers, until flush()
};

/// Thread: one
class AnswerOrderEndpoint : public testing::PassingEndpoint {
public:
    /// Whether a message is one of those.
    using IsOne = bool (*)(const wire::Frame& frame, size_t bytes);

    AnswerOrderEndpoint(std::unique_ptr<Endpoint> inner, AnswerOrder& order, IsOne is_one)
        : PassingEndpoint(std::move(inner)), order_(order), is_one_(is_one) {}

    [[nodiscard]] Post send(ConnectionId c, Parts parts) override {
        std::vector<std::byte> message;
        for (const std::span<const std::byte> part : parts)
            message.insert(message.end(), part.begin(), part.end());
        wire::Frame frame;
        REQUIRE(wire::decode(message, frame) == Errc::kOk);
        if (frame.header.kind == wire::Kind::kReply)
            order_.has_answered = order_.has_waiting = true;
        if (is_one_(frame, message.size())) {
            ++(order_.has_waiting    ? order_.before_answer
               : order_.has_answered ? order_.after_answer
                                     : order_.alone);
        }
        return inner().send(c, parts);
    }

    void flush() override {
        order_.has_waiting = false;
        inner().flush();
    }

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        order_.has_answered = order_.has_waiting = false;
        return inner().poll(completions);
    }

private:
    AnswerOrder& order_;
    IsOne is_one_;
};

}  // namespace weir::test
