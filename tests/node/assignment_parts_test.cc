// SPDX-License-Identifier: Apache-2.0

#include "lib/node/assignment_parts.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/wire/frame.h"

namespace weir {
namespace {

AssignmentMessage job_of(uint32_t servers, uint32_t shards_per_server) {
    AssignmentMessage whole;
    whole.epoch = 7;
    whole.shape = {servers, shards_per_server, 4, 99};
    whole.worker_count = 3;
    for (uint32_t i = 0; i < servers * shards_per_server; ++i)
        whole.shards.push_back({i / shards_per_server, fmt::format("host{}:{}", i, 5000 + i)});
    return whole;
}

bool same(const AssignmentMessage& a, const AssignmentMessage& b) {
    return a.epoch == b.epoch && a.shape == b.shape && a.worker_count == b.worker_count &&
           a.shards == b.shards;
}

}  // namespace

TEST_SUITE("assignment_parts") {
    TEST_CASE("as many parts as it takes, none too long, come to the whole again") {
        for (const uint32_t servers : {1U, 2U, 30U, 1000U}) {
            const AssignmentMessage whole = job_of(servers, 2);
            for (const size_t bytes_max : {size_t{256}, size_t{1024}, size_t{8192}}) {
                const auto bodies = encode_parts(whole, bytes_max);
                AssignmentParts parts;
                for (const std::vector<std::byte>& body : bodies) {
                    CHECK_FALSE(parts.complete());
                    CHECK(sizeof(wire::FrameHeader) + body.size() <= bytes_max);
                    REQUIRE(parts.add(body));
                }
                REQUIRE(parts.complete());
                CHECK(same(parts.whole(), whole));
            }
        }
        CHECK(encode_parts(job_of(2, 2), 8192).size() == 1);
        CHECK(encode_parts(job_of(500, 2), 8192).size() > 1);
    }

    TEST_CASE("an address that is as long as can be fits into 1 KiB") {
        AssignmentMessage whole = job_of(2, 1);
        whole.shards[0].address.assign(512, 'a');
        whole.shards[1].address.assign(512, 'b');
        const auto bodies = encode_parts(whole, 1024);
        REQUIRE(bodies.size() == 2);
        AssignmentParts parts;
        for (const std::vector<std::byte>& body : bodies) {
            CHECK(sizeof(wire::FrameHeader) + body.size() <= 1024);
            CHECK(parts.add(body));
        }
        CHECK(parts.complete());
    }

    TEST_CASE("a part that is missing, twice there, or of another assignment is refused") {
        const auto bodies = encode_parts(job_of(30, 2), 256);
        REQUIRE(bodies.size() > 3);
        AssignmentMessage other = job_of(30, 2);
        other.epoch = 8;
        const auto others = encode_parts(other, 256);
        AssignmentParts parts;
        CHECK_FALSE(parts.add(bodies[1]));
        REQUIRE(parts.add(bodies[0]));
        CHECK_FALSE(parts.add(bodies[0]));
        CHECK_FALSE(parts.add(bodies[2]));
        CHECK_FALSE(parts.add(others[1]));
        for (size_t i = 1; i < bodies.size(); ++i)
            REQUIRE(parts.add(bodies[i]));
        REQUIRE(parts.complete());
        CHECK_FALSE(parts.add(bodies.back()));  // nothing comes after the last
    }

    TEST_CASE("a part without shards, or with more than there are, is malformed") {
        AssignmentMessage message = job_of(2, 2);
        CHECK(AssignmentMessage::decode(message.encode()).has_value());
        message.first = 1;
        CHECK_FALSE(AssignmentMessage::decode(message.encode()).has_value());
        message.shards.resize(3);
        CHECK(AssignmentMessage::decode(message.encode()).has_value());
        message.shards.clear();
        CHECK_FALSE(AssignmentMessage::decode(message.encode()).has_value());
        message = job_of(1, 1);
        message.first = ~uint32_t{0};
        CHECK_FALSE(AssignmentMessage::decode(message.encode()).has_value());
        message = job_of(1, 1);
        message.shape.server_count = ~uint32_t{0};  // more than a receiver accepts
        message.shape.shards_per_server = ~uint32_t{0};
        CHECK_FALSE(AssignmentMessage::decode(message.encode()).has_value());
    }
}

}  // namespace weir
