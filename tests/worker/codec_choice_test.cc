// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which codecs the filter `auto` uses, by made-up costs.
#include "lib/worker/filters/codec_choice.h"

#include <array>

#include <doctest/doctest.h>

namespace weir {
namespace {

constexpr Codecs kLight = CodecChoice::kLevels[1];
constexpr Codecs kHeavy = CodecChoice::kLevels[2];

/// What a byte costs, and what is left of it.
struct Cost {
    double ns = 0;
    double share = 1;
};

/// How often each level is chosen, on a link of so many nanoseconds a byte.
std::array<int, 3> chosen(CodecChoice& choice, double link, Cost light, Cost heavy, int bodies) {
    constexpr uint64_t kRaw = 10'000;
    std::array<int, 3> counts{};
    for (int i = 0; i < bodies; ++i) {
        const Codecs codecs = choice.choose(link);
        const size_t level = codecs == 0 ? 0 : codecs == kLight ? 1 : 2;
        ++counts[level];
        if (level == 0) continue;
        const Cost& cost = level == 1 ? light : heavy;
        choice.note(codecs, kRaw, static_cast<uint64_t>(cost.share * kRaw), cost.ns * kRaw);
    }
    return counts;
}

}  // namespace

TEST_SUITE("codec_choice") {
    TEST_CASE("codecs are used only where they save more time than they cost") {
        constexpr Cost kLightCost{0.2, 0.5}, kHeavyCost{1, 0.1};
        CodecChoice slow;  // 10 ns a byte: 5.2 against 2
        CHECK(chosen(slow, 10, kLightCost, kHeavyCost, 1000)[2] > 900);
        CodecChoice middle;  // 1 ns: 0.7 against 1.1
        CHECK(chosen(middle, 1, kLightCost, kHeavyCost, 1000)[1] > 900);
        CodecChoice fast;  // 0.1 ns: both cost more
        CHECK(chosen(fast, 0.1, kLightCost, kHeavyCost, 1000)[0] > 900);
    }

    TEST_CASE("what did not pay is tried again, and used once it does") {
        CodecChoice choice;
        constexpr Cost kUseless{0.5, 1}, kGood{0.5, 0.1};
        const auto at_first = chosen(choice, 2, kUseless, kUseless, 1000);
        CHECK(at_first[0] > 900);
        CHECK(at_first[1] + at_first[2] >= 10);  // now and then
        CHECK(chosen(choice, 2, kGood, kUseless, 2000)[1] > 1000);
    }

    TEST_CASE("the speed of a link is that of the fastest of the last replies to large requests") {
        LinkSpeed link;
        CHECK(link.ns_per_byte() == 0);
        link.replied(100, 0, link.sent(100), 1'000'000);  // too little to say anything
        CHECK(link.ns_per_byte() == 0);
        constexpr uint64_t kBytes = 1 << 20;
        for (int i = 0; i < 100; ++i)
            link.replied(kBytes, 0, link.sent(kBytes), kBytes * static_cast<uint64_t>(2 + i % 7));
        CHECK(link.ns_per_byte() == 2);
        // Two that are under way together take the time of both.
        const uint64_t first = link.sent(kBytes);
        const uint64_t second = link.sent(kBytes);
        CHECK(first == kBytes);
        CHECK(second == 2 * kBytes);
    }
}

}  // namespace weir
