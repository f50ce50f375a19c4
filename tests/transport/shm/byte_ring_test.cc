// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/byte_ring.h"

#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/transport/shm/helpers.h"

namespace weir::transport::shm {

namespace {

constexpr uint32_t kPayloadMax = 200;

/// A ring with both ends.
struct Both {
    explicit Both(size_t words)
        : memory(words, 0),
          data(std::as_writable_bytes(std::span(memory))),
          out(&control, data, kPayloadMax),
          in(&control, data, kPayloadMax) {}

    std::vector<uint64_t> memory;
    std::span<std::byte> data;
    RingControl control;
    RingWriter out;
    RingReader in;
};

bool put(RingWriter& out, std::string_view text) {
    std::byte* const room = out.begin(static_cast<uint32_t>(text.size()));
    if (room == nullptr) return false;
    if (!text.empty()) std::memcpy(room, text.data(), text.size());
    out.end(RecordKind::kMessage, static_cast<uint32_t>(text.size()));
    return true;
}

std::string text_of(const Record& record) {
    return {reinterpret_cast<const char*>(record.payload.data()), record.payload.size()};
}

std::string text_for(uint64_t number, size_t length) {
    return std::string(length, static_cast<char>('a' + number % 26));
}

}  // namespace

TEST_SUITE("byte_ring") {
    TEST_CASE("nothing is seen before it is published, then all of it in order") {
        Both ring(128);
        Record record;
        REQUIRE(put(ring.out, "one"));
        REQUIRE(put(ring.out, ""));
        REQUIRE(ring.out.put(RecordKind::kImmediate, 0xffffffff));
        CHECK(ring.in.take(record) == Take::kNothing);
        CHECK(ring.out.withheld_bytes() == 3 * 64);
        CHECK(ring.out.publish());
        CHECK_FALSE(ring.out.publish());
        REQUIRE(ring.in.take(record) == Take::kRecord);
        CHECK(text_of(record) == "one");
        REQUIRE(ring.in.take(record) == Take::kRecord);
        CHECK(record.kind == RecordKind::kMessage);
        CHECK(record.payload.empty());
        REQUIRE(ring.in.take(record) == Take::kRecord);
        CHECK(record.kind == RecordKind::kImmediate);
        CHECK(record.value == 0xffffffff);
        CHECK(ring.in.take(record) == Take::kNothing);
    }

    TEST_CASE("records of every length wrap around for a long time") {
        Random random(testing::seed_for("byte_ring wrap"));
        for (size_t words = 96; words < 160; ++words) {
            Both ring(words);
            std::deque<std::string> under_way;
            uint64_t number = 0;
            for (int turn = 0; turn < 3000; ++turn) {
                for (uint64_t i = random.below(6); i > 0; --i) {
                    const std::string text = text_for(number, random.below(kPayloadMax + 1));
                    if (!put(ring.out, text)) break;
                    under_way.push_back(text);
                    ++number;
                }
                if (random.below(2) == 0) ring.out.publish();
                Record record;
                for (uint64_t i = random.below(6); i > 0; --i) {
                    const Take take = ring.in.take(record);
                    REQUIRE(take != Take::kBroken);
                    if (take == Take::kNothing) break;
                    REQUIRE(reinterpret_cast<uintptr_t>(record.payload.data()) % 8 == 0);
                    REQUIRE(text_of(record) == under_way.front());
                    under_way.pop_front();
                }
                if (random.below(2) == 0) ring.in.give_back();
            }
            REQUIRE(number > 500);
            CHECK_FALSE(ring.out.broken());
        }
    }

    TEST_CASE("a full ring takes nothing, not even short records, and its close record") {
        Both ring(80);
        uint64_t sent = 0;
        while (put(ring.out, text_for(sent, 50)))
            ++sent;
        CHECK(sent > 1);
        CHECK_FALSE(put(ring.out, ""));
        CHECK_FALSE(ring.out.put(RecordKind::kImmediate, 1));
        CHECK_FALSE(ring.out.broken());
        ring.out.put_close(7);
        ring.out.publish();
        Record record;
        for (uint64_t i = 0; i < sent; ++i) {
            REQUIRE(ring.in.take(record) == Take::kRecord);
            CHECK(text_of(record) == text_for(i, 50));
        }
        REQUIRE(ring.in.take(record) == Take::kRecord);
        CHECK(record.kind == RecordKind::kClose);
        CHECK(record.value == 7);
        CHECK(ring.in.take(record) == Take::kNothing);
    }

    TEST_CASE("lent payloads stay until they are given back") {
        Both ring(200);
        for (uint64_t i = 0; i < 6; ++i)
            REQUIRE(put(ring.out, text_for(i, 100)));
        ring.out.publish();
        std::vector<Record> records(6);
        for (Record& record : records)
            REQUIRE(ring.in.take(record) == Take::kRecord);
        while (put(ring.out, text_for(9, 60)))
            ring.out.publish();
        for (uint64_t i = 0; i < 6; ++i)
            CHECK(text_of(records[i]) == text_for(i, 100));
        ring.in.give_back();
        CHECK(put(ring.out, text_for(9, 60)));
    }

    TEST_CASE("two threads pass records of all lengths") {
        Both ring(2048);
        constexpr uint64_t kRecords = 100'000;
        const uint64_t seed = testing::seed_for("byte_ring threads");
        std::thread writer([&] {
            Random random(seed);
            for (uint64_t i = 0; i < kRecords; ++i) {
                const std::string text = text_for(i, random.below(kPayloadMax + 1));
                while (!put(ring.out, text)) {
                    ring.out.publish();
                    std::this_thread::yield();
                }
                if (random.below(4) == 0) ring.out.publish();
            }
            ring.out.publish();
        });
        Random random(seed);
        uint64_t wrong = 0;
        for (uint64_t i = 0; i < kRecords;) {
            Record record;
            const Take take = ring.in.take(record);
            if (take == Take::kNothing) {
                std::this_thread::yield();
                continue;
            }
            const std::string expected = text_for(i, random.below(kPayloadMax + 1));
            static_cast<void>(random.below(4));
            if (take == Take::kBroken || text_of(record) != expected) ++wrong;
            if (++i % 8 == 0) ring.in.give_back();
            if (i == kRecords) ring.in.give_back();
        }
        writer.join();
        CHECK(wrong == 0);
        CHECK_FALSE(ring.out.broken());
    }

    TEST_CASE("a batch says how many records it has, so that none needs to be looked for") {
        Both ring(1024);
        Record record;
        for (const uint64_t batch : {1, 3, 2}) {
            for (uint64_t i = 0; i < batch; ++i)
                REQUIRE(put(ring.out, text_for(i, 10 * i)));
            ring.out.publish();
        }
        for (const uint64_t batch : {1, 3, 2}) {
            for (uint64_t i = 0; i < batch; ++i) {
                REQUIRE(ring.in.take(record) == Take::kRecord);
                CHECK(text_of(record) == text_for(i, 10 * i));
                CHECK(ring.in.has_more() == (i + 1 < batch));
            }
        }
        CHECK(ring.in.take(record) == Take::kNothing);
    }

    TEST_CASE("a message of up to 56 bytes is one cache line") {
        CHECK(record_bytes(0) == 64);
        CHECK(record_bytes(56) == 64);
        CHECK(record_bytes(57) == 128);
    }

    TEST_CASE("every malformed header is refused") {
        const uint64_t message = encode_header(RecordKind::kMessage, 0, 1);
        for (const uint64_t header :
             {message + kPayloadMax + 1, message + 0xffffffff,
              encode_header(RecordKind::kMessage, 0), encode_header(RecordKind::kWrap, 0, 1),
              encode_header(RecordKind::kWrap, 1, 1), encode_header(RecordKind::kNone, 1, 1),
              uint64_t{6} << 32 | uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
            Both ring(80);
            CAPTURE(header);
            ring.memory[0] = header;
            Record record;
            CHECK(ring.in.take(record) == Take::kBroken);
        }
        Both ring(80);  // a batch inside of a batch
        ring.memory[0] = encode_header(RecordKind::kMessage, 0, 2);
        ring.memory[8] = encode_header(RecordKind::kMessage, 0, 1);
        Record record;
        CHECK(ring.in.take(record) == Take::kRecord);
        CHECK(ring.in.take(record) == Take::kBroken);
    }

    TEST_CASE("a record that would reach beyond the end is refused") {
        Both ring(120);
        for (int i = 0; i < 3; ++i)
            REQUIRE(put(ring.out, text_for(0, 192)));  // 768 of 960 bytes
        ring.out.publish();
        Record record;
        while (ring.in.take(record) == Take::kRecord)
            continue;
        const auto at = static_cast<size_t>(ring.in.watched() - ring.memory.data());
        const size_t left = (ring.memory.size() - at) * 8;
        REQUIRE(left < kPayloadMax);
        ring.memory[at] = encode_header(RecordKind::kMessage, static_cast<uint32_t>(left - 7), 1);
        CHECK(ring.in.take(record) == Take::kBroken);
    }

    TEST_CASE("a wrap to a wrap is refused") {
        Both ring(80);
        REQUIRE(put(ring.out, "x"));
        ring.out.publish();
        Record record;
        REQUIRE(ring.in.take(record) == Take::kRecord);
        ring.memory[8] = encode_header(RecordKind::kWrap, 0, 1);
        ring.memory[0] = encode_header(RecordKind::kWrap, 0);
        CHECK(ring.in.take(record) == Take::kBroken);
    }

    TEST_CASE("a reader that claims too much, or goes backwards, is noticed") {
        for (const uint64_t claim : {uint64_t{1000}, ~uint64_t{0}, uint64_t{1} << 63}) {
            Both ring(80);
            while (put(ring.out, text_for(0, 100)))
                continue;
            ring.control.consumed_bytes = claim;
            CHECK_FALSE(put(ring.out, "x"));
            CHECK(ring.out.broken());
        }
        Both ring(200);
        while (put(ring.out, text_for(0, 100)))
            continue;
        ring.control.consumed_bytes = 4 * record_bytes(100);
        REQUIRE(put(ring.out, text_for(0, 100)));
        ring.control.consumed_bytes = record_bytes(100);
        while (put(ring.out, text_for(0, 100)))
            continue;
        CHECK(ring.out.broken());
    }

    TEST_CASE("random memory never leads outside of the ring") {
        Random random(testing::seed_for("byte_ring random memory"));
        for (int round = 0; round < 20'000; ++round) {
            Both ring(60 + random.below(40));
            for (uint64_t& word : ring.memory) {
                // Mostly plausible headers, so that the reader does not stop at the first one.
                word = random.below(4) == 0
                           ? random()
                           : encode_header(static_cast<RecordKind>(random.below(7)),
                                           static_cast<uint32_t>(random.below(kPayloadMax + 9)),
                                           static_cast<uint32_t>(random.below(3)));
            }
            for (int i = 0; i < 200; ++i) {
                Record record;
                if (ring.in.take(record) != Take::kRecord) break;
                const auto* const begin = record.payload.data();
                REQUIRE(begin >= ring.data.data());
                REQUIRE(begin + record.payload.size() <= ring.data.data() + ring.data.size());
            }
        }
    }
}

}  // namespace weir::transport::shm
