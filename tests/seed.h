// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The seed of a random test: WEIR_SEED if it is set, else the test's own; always shown on failure.
/// And how many seeds, one after the other, a test of many histories goes through.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include <doctest/doctest.h>

namespace weir::testing {

inline uint64_t seed_or(uint64_t own) {
    const char* text = std::getenv("WEIR_SEED");  // NOLINT(concurrency-mt-unsafe)
    return text == nullptr ? own : std::strtoull(text, nullptr, 0);
}

/// WEIR_HISTORIES if it is set, else WEIR_HISTORIES_SHARE of the test's own number; one at least.
inline uint64_t histories_or(uint64_t own) {
    const char* text = std::getenv("WEIR_HISTORIES");  // NOLINT(concurrency-mt-unsafe)
    if (text != nullptr) return std::strtoull(text, nullptr, 10);
    const char* share = std::getenv("WEIR_HISTORIES_SHARE");  // NOLINT(concurrency-mt-unsafe)
    const double wanted =
        static_cast<double>(own) * (share == nullptr ? 1 : std::strtod(share, nullptr));
    return std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(wanted)));
}

/// The fewest times that something must happen in `histories` histories if it usually happens `usual` times
/// in one of them: half as often, less what luck takes away from a small number.
inline uint64_t fewest_of(uint64_t histories, double usual) {
    const double expected = static_cast<double>(histories) * usual;
    return static_cast<uint64_t>(std::max(0.0, expected / 2 - 2 * std::sqrt(expected)));
}

}  // namespace weir::testing

/// Declares `name` and prints it with whatever fails in this scope.
#define WEIR_TEST_SEED(name, own)                        \
    const uint64_t name = ::weir::testing::seed_or(own); \
    INFO("run again with WEIR_SEED=" << name)
