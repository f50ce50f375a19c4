// SPDX-License-Identifier: Apache-2.0
/// \file
/// Answers of shards to the manager that asks them for values: whole ones, late ones, and what no shard sends.

#include "lib/manager/key_reads.h"

#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/node/fake_endpoint.h"
#include "tests/seed.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::Bytes;
using wire::Kind;

constexpr size_t kMessageBytes = 1024;

/// Shard 0 has the lower half of the ring, shard 1 the upper one. A command reads keys 0 to 7 of a table of 8
/// whole numbers of 4 bytes.
struct Reads {
    Reads() {
        for (auto& shard : shards)
            shard = endpoint.accept();
        REQUIRE(reads.begin(asker, testing::dense_table("numbers", 8, ValueType::kUInt32),
                            {0, 1, 2, 3, 4, 5, 6, 7}, 0));
        go_on();
    }

    void go_on(bool is_lost = false) {
        const auto primary_of = [&](uint64_t position) -> std::optional<ShardPeer> {
            const uint32_t half = position >> 63 == 0 ? 0 : 1;
            if (shards[half] == 0) return std::nullopt;
            return ShardPeer{half, shards[half]};
        };
        reads.go_on(now_ns, primary_of, is_lost, kMessageBytes);
    }

    /// Of the last question that the shard got.
    [[nodiscard]] uint64_t question(uint32_t shard) {
        return testing::header_in(endpoint.sent(shards[shard]).back()).request;
    }

    [[nodiscard]] Status take(uint32_t shard, uint64_t request, const Bytes& body,
                              std::optional<uint64_t> bytes = {}, Errc status = Errc::kOk) {
        wire::FrameHeader header = wire::header_of(Kind::kGet);
        header.request = request;
        header.status = status;
        header.first = bytes.value_or(body.size());
        const Bytes message = testing::bytes_of_frame(header, body);
        wire::Frame frame;
        REQUIRE(wire::decode(message, frame) == Errc::kOk);
        return reads.take(shard, frame);
    }

    /// Four keys that are there, and their values.
    [[nodiscard]] static Bytes four_values() { return Bytes(4 * (1 + sizeof(uint32_t))); }

    [[nodiscard]] std::optional<GetReply> told() {
        if (endpoint.sent(asker.connection).empty()) return std::nullopt;
        wire::Frame frame;
        REQUIRE(wire::decode(endpoint.sent(asker.connection).back(), frame) == Errc::kOk);
        return GetReply::decode(frame.values);
    }

    testing::FakeEndpoint endpoint;
    Outbox outbox{endpoint};
    KeyReads reads{outbox};
    Asker asker{endpoint.accept(), 7, 0};
    std::array<transport::ConnectionId, 2> shards{};
    uint64_t now_ns = 0;
};

}  // namespace

TEST_SUITE("key_reads") {
    TEST_CASE("the answer goes out when both shards have answered, one of them in two parts") {
        Reads job;
        const Bytes whole = Reads::four_values();
        REQUIRE(job.take(0, job.question(0), whole));
        job.go_on();
        CHECK_FALSE(job.told());
        REQUIRE(job.take(1, job.question(1), Bytes(whole.begin(), whole.begin() + 7), 20));
        job.go_on();
        CHECK_FALSE(job.told());
        REQUIRE(job.take(1, job.question(1), Bytes(whole.begin() + 7, whole.end()), 20));
        job.go_on();
        REQUIRE(job.told());
        CHECK(job.told()->states == std::vector(8, KeyState::kThere));
        CHECK_FALSE(job.reads.is_reading());
    }

    TEST_CASE("keys that a shard does not have are asked for again, and nothing else") {
        Reads job;
        Bytes answer = Reads::four_values();
        answer[2] = static_cast<std::byte>(KeyState::kUnknown);
        REQUIRE(job.take(0, job.question(0), answer));
        REQUIRE(job.take(1, job.question(1), Reads::four_values()));
        job.now_ns += kSecond;
        job.go_on();
        wire::Frame again;
        REQUIRE(wire::decode(job.endpoint.sent(job.shards[0]).back(), again) == Errc::kOk);
        CHECK(ShardGetMessage::decode(again.values)->keys == std::vector<uint64_t>{2});
        REQUIRE(job.take(0, again.header.request, Bytes(5)));
        job.go_on();
        REQUIRE(job.told());
        CHECK(job.told()->states == std::vector(8, KeyState::kThere));
    }

    TEST_CASE("a table that a shard does not have yet is asked for again until there is no time") {
        Reads job;
        REQUIRE(job.take(1, job.question(1), Reads::four_values()));
        while (!job.told()) {
            REQUIRE(job.now_ns <= KeyReads::kAnswerNs + kSecond);
            REQUIRE(job.take(0, job.question(0), {}, {}, Errc::kNotFound));
            job.now_ns += 100 * kMillisecond;
            job.go_on();
        }
        CHECK(job.told()->why == "shard 0 does not answer");
        CHECK(job.endpoint.sent(job.shards[0]).size() > 20);
    }

    TEST_CASE("who was silent is not waited for as long again, until it is heard") {
        Reads job;
        const auto answer_of_other = [&] {
            REQUIRE(job.take(1, job.question(1), Reads::four_values()));
        };
        const auto wait = [&] {
            const size_t told = job.endpoint.sent(job.asker.connection).size();
            const uint64_t begin_ns = job.now_ns;
            while (job.endpoint.sent(job.asker.connection).size() == told) {
                job.now_ns += kMillisecond;
                job.go_on();
            }
            return job.now_ns - begin_ns;
        };
        answer_of_other();
        CHECK(wait() > KeyReads::kAnswerNs);
        const auto read_again = [&] {
            REQUIRE(job.reads.begin(job.asker,
                                    testing::dense_table("numbers", 8, ValueType::kUInt32),
                                    {0, 1, 2, 3, 4, 5, 6, 7}, job.now_ns));
            job.go_on();
            answer_of_other();
        };
        read_again();
        CHECK(wait() <= KeyReads::kSilentNs + kMillisecond);
        CHECK(job.told()->why == "shard 0 does not answer");
        REQUIRE(job.take(0, job.question(0), Reads::four_values()));  // it is late
        read_again();
        CHECK(wait() > KeyReads::kAnswerNs);
    }

    TEST_CASE("late answers, and those of another shard, change nothing") {
        Reads job;
        const uint64_t first = job.question(0);
        CHECK(job.take(1, first, Reads::four_values()));
        job.reads.forget_shard(0);
        job.go_on();
        CHECK(job.take(0, first, Bytes(3)));  // nobody waits for it any more
        CHECK(job.take(0, 12'345, Bytes(3)));
        CHECK_FALSE(job.told());
    }

    TEST_CASE("answers that no shard sends are refused") {
        const Bytes good = Reads::four_values();
        Bytes bad_state = good;
        bad_state[1] = std::byte{3};
        Bytes longer = good;
        longer.push_back({});
        CHECK_FALSE(Reads().take(0, 1, {}, 20));
        CHECK_FALSE(Reads().take(0, 1, Bytes(19)));
        CHECK_FALSE(Reads().take(0, 1, longer));
        CHECK_FALSE(Reads().take(0, 1, longer, 20));
        CHECK_FALSE(Reads().take(0, 1, good, ~uint64_t{0}));
        CHECK_FALSE(Reads().take(0, 1, bad_state));
        CHECK(Reads().take(0, 1, good));
        Reads in_parts;
        CHECK(in_parts.take(0, 1, Bytes(12), 20));
        CHECK_FALSE(in_parts.take(0, 1, Bytes(9), 20));
    }

    TEST_CASE("whatever shards send, the command gets one answer that it can read") {
        WEIR_TEST_SEED(seed, 1);
        for (uint64_t i = 0; i < 300; ++i) {
            Random random(seed + i);
            Reads job;
            while (!job.told()) {
                const auto shard = static_cast<uint32_t>(random.below(2));
                Bytes body(random.below(25));
                for (std::byte& byte : body)
                    byte = static_cast<std::byte>(random.below(4));
                const bool is_good = random.below(4) == 0;
                if (is_good) body = Reads::four_values();
                const uint64_t request =
                    random.below(2) == 0 ? job.question(shard) : random.below(9);
                const uint64_t bytes = random.below(3) == 0 ? random.below(30) : 20;
                if (!job.take(shard, request, body, bytes)) job.reads.forget_shard(shard);
                job.now_ns += random.below(kSecond);
                job.go_on();
            }
            CHECK(job.told()->states.size() == 8);
            CHECK(job.endpoint.sent(job.asker.connection).size() == 1);
        }
    }
}

}  // namespace weir::test
