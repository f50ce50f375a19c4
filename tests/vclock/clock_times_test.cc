// SPDX-License-Identifier: Apache-2.0
#include "lib/vclock/clock_times.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("clock_times") {
    using namespace weir;
    using Bytes = std::vector<std::byte>;

    static Bytes encoded(const ClockTimes& times) {
        ByteWriter writer;
        times.encode(writer);
        return std::move(writer).take();
    }

    /// Nothing if some byte is left over.
    static std::optional<ClockTimes> decoded(std::span<const std::byte> bytes) {
        ByteReader reader(bytes);
        std::optional<ClockTimes> times = ClockTimes::decode(reader);
        return reader.done() ? times : std::nullopt;
    }

    static const ClockTimes kSome{
        {10, 99}, {{0, {{10, 5}}}, {3, {{10, 0}, {20, 7}, {99, 6}}}, {9, {{10, ~uint64_t{0}}}}}};

    TEST_CASE("times are the same after encode and decode") {
        CHECK(decoded(encoded(kSome)) == kSome);
        const ClockTimes none{{}, {}};
        CHECK(decoded(encoded(none)) == none);
        const ClockTimes last{{~uint64_t{0}, ~uint64_t{0}}, {{~uint32_t{0}, {{~uint64_t{0}, 1}}}}};
        CHECK(decoded(encoded(last)) == last);
    }

    TEST_CASE("what follows the times is left to the reader") {
        Bytes bytes = encoded(kSome);
        bytes.push_back(std::byte{42});
        ByteReader reader(bytes);
        CHECK(ClockTimes::decode(reader) == kSome);
        CHECK(reader.number<uint8_t>() == 42);
    }

    TEST_CASE("bytes that end too early are refused, wherever they end") {
        const Bytes bytes = encoded(kSome);
        for (size_t length = 0; length < bytes.size(); ++length)
            CHECK_FALSE(decoded(std::span(bytes).first(length)));
    }

    TEST_CASE("malformed times are refused") {
        const std::vector<std::function<void(ClockTimes&)>> mistakes = {
            [](ClockTimes& t) {
                t.range = {99, 10};
            },
            [](ClockTimes& t) { t.range.last = 98; },
            [](ClockTimes& t) { t.workers[1].worker = 0; },
            [](ClockTimes& t) { t.workers[2].worker = 2; },
            [](ClockTimes& t) { t.workers[0].steps[0].time = 0; },
            [](ClockTimes& t) { t.workers[1].steps[1].time = 0; },
            [](ClockTimes& t) { t.workers[1].steps[1].from = 10; },
            [](ClockTimes& t) { t.workers[1].steps[2].from = 20; },
            [](ClockTimes& t) { t.workers[1].steps[2].from = 19; },
            [](ClockTimes& t) { t.workers[1].steps[2].from = 100; },
        };
        for (const auto& mistake : mistakes) {
            ClockTimes times = kSome;
            mistake(times);
            CHECK_FALSE(decoded(encoded(times)));
        }
    }

    TEST_CASE("counts beyond what is there are refused") {
        for (const uint32_t workers : {4U, 2U, ~0U}) {
            Bytes bytes = encoded(kSome);
            std::memcpy(bytes.data() + 16, &workers, sizeof workers);
            CHECK_FALSE(decoded(bytes));
        }
        for (const uint32_t steps : {0U, 2U, static_cast<uint32_t>(kClockStepsMax) + 1, ~0U}) {
            Bytes bytes = encoded(kSome);
            std::memcpy(bytes.data() + 24, &steps, sizeof steps);
            CHECK_FALSE(decoded(bytes));
        }
    }

    TEST_CASE("changed bytes are refused, or are what their times encode to") {
        WEIR_TEST_SEED(seed, 85);
        Random random(seed);
        const Bytes good = encoded(kSome);
        for (int round = 0; round < 20'000; ++round) {
            Bytes bytes = good;
            for (uint64_t i = 0; i <= random.below(3); ++i)
                bytes[random.below(bytes.size())] = static_cast<std::byte>(random());
            if (const auto times = decoded(bytes)) CHECK(encoded(*times) == bytes);
        }
    }
}
