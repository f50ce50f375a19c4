// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Random: a small seeded generator (splitmix64 steps), the same on every machine.

#include <cstdint>

namespace weir {

/// Mixes 64 bits so that every input bit reaches every output bit; a bijection.
[[nodiscard]] constexpr uint64_t mix64(uint64_t x) noexcept {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    x ^= x >> 31;
    return x;
}

__extension__ using uint128 = unsigned __int128;

/// Satisfies std::uniform_random_bit_generator. Thread: one.
class Random {
public:
    using result_type = uint64_t;

    explicit Random(uint64_t seed) noexcept : state_(seed) {}

    static constexpr uint64_t min() noexcept { return 0; }

    static constexpr uint64_t max() noexcept { return ~uint64_t{0}; }

    uint64_t operator()() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }

    /// Uniform in [0, bound); bound > 0. The bias of the multiplication is below 2^-32.
    uint64_t below(uint64_t bound) noexcept {
        return static_cast<uint64_t>((static_cast<uint128>((*this)()) * bound) >> 64);
    }

    /// Uniform in [0, 1).
    double uniform() noexcept { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }

private:
    uint64_t state_;
};

}  // namespace weir
