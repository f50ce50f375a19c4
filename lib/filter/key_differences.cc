// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/key_differences.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/base/kernel.h"
#include "lib/filter/simd.h"

namespace weir {
namespace {

constexpr uint64_t kMore = 0x8080'8080'8080'8080U;  ///< the top bits of groups
constexpr uint64_t kLow = ~kMore;
constexpr size_t kWordGroups = 8;
constexpr size_t kBatch = 16;                     ///< so many numbers are made at once
constexpr uint64_t kWordEnd = uint64_t{1} << 56;  ///< less than this fits into eight groups

uint64_t load(const std::byte* from) noexcept {
    uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

/// Spreads 56 bits over the low seven of each byte.
WEIR_INLINE uint64_t spread(uint64_t x) noexcept {
    x = (x & 0x0000'0000'0fff'ffffU) | (x & 0x00ff'ffff'f000'0000U) << 4;
    x = (x & 0x0000'3fff'0000'3fffU) | (x & 0x0fff'c000'0fff'c000U) << 2;
    return (x & 0x007f'007f'007f'007fU) | (x & 0x3f80'3f80'3f80'3f80U) << 1;
}

/// The reverse.
WEIR_INLINE uint64_t gather(uint64_t x) noexcept {
    x = (x & 0x007f'007f'007f'007fU) | (x & 0x7f00'7f00'7f00'7f00U) >> 1;
    x = (x & 0x0000'3fff'0000'3fffU) | (x & 0x3fff'0000'3fff'0000U) >> 2;
    return (x & 0x0000'0000'0fff'ffffU) | (x & 0x0fff'ffff'0000'0000U) >> 4;
}

/// The top bit of each byte that is not 0. Shape: the top bits of `x` are 0
WEIR_INLINE uint64_t nonzero_groups(uint64_t x) noexcept {
    return (x + kLow) & kMore;
}

/// The groups of a number of at most 56 bits, with the bits that say that more come.
WEIR_INLINE uint64_t groups_of(uint64_t number) noexcept {
    const uint64_t groups = spread(number);
    uint64_t behind = groups >> 8;  // then, in each byte, a bit if there is one in a later group
    behind |= behind >> 8;
    behind |= behind >> 16;
    behind |= behind >> 32;
    return groups | nonzero_groups(behind);
}

/// How many bytes there are up to the first group that is the last of its number.
WEIR_INLINE size_t first_bytes(uint64_t groups) noexcept {
    return static_cast<size_t>(std::countr_zero(~groups & kMore)) / 8 + 1;
}

/// A number of more than 56 bits, or near the end of the room.
std::byte* write_slowly(uint64_t number, std::byte* to) noexcept {
    for (; number >= 0x80; number >>= 7)
        *to++ = static_cast<std::byte>(number | 0x80);
    *to++ = static_cast<std::byte>(number);
    return to;
}

/// A number at `from`, or nullptr if there is none before `end`. One of 65 bits is none.
const std::byte* read_slowly(const std::byte* from, const std::byte* end,
                             uint64_t& number) noexcept {
    number = 0;
    for (uint32_t shift = 0; from != end && shift < 64; shift += 7) {
        const auto group = static_cast<uint64_t>(*from++);
        if (shift == 63 && group > 1) return nullptr;
        number |= (group & 0x7f) << shift;
        if (group < 0x80) return group == 0 && shift != 0 ? nullptr : from;
    }
    return nullptr;
}

/// Where to go on, and whether all was right so far: that is looked at once, at the end.
struct Reader {
    const std::byte* from;
    const std::byte* end;
    uint64_t* to;
    uint64_t* keys_end;
    uint64_t last = 0;
    uint64_t wrong =
        0;  ///< not 0 if a number had groups of zeros at its end, or keys were too great

    /// The first key, or one near the end. False if there is none.
    WEIR_INLINE bool slow(uint64_t plus) noexcept {
        uint64_t number = 0;
        from = read_slowly(from, end, number);
        if (from == nullptr) return false;
        const uint64_t key = last + number + plus;
        wrong |= static_cast<uint64_t>(plus != 0 && key <= last);  // <=: plus may make 2^64 of it
        *to++ = last = key;
        return true;
    }

    template <size_t kKeys>
    WEIR_INLINE void add(const uint64_t* numbers) noexcept {
        const uint64_t before = last;  // less than 2^63 is added: it shows if that is too much
        for (size_t i = 0; i < kKeys; ++i)
            to[i] = last += numbers[i] + 1;
        to += kKeys;
        wrong |= static_cast<uint64_t>(last <= before);
    }

    /// The first kKeys of the numbers that end in these eight bytes. `kShort`: of two bytes at most.
    template <size_t kKeys, bool kShort>
    WEIR_INLINE void first(uint64_t bits) noexcept {
        uint64_t ends = ~bits & kMore;
        uint64_t numbers[kKeys];
        uint64_t done = 0;  // the bytes of the numbers so far
        for (size_t i = 0; i < kKeys; ++i) {
            const uint64_t upto = ends ^ (ends - 1);
            numbers[i] = (bits & upto & ~done & kLow) >> (std::popcount(done) & 63);
            done = upto;
            ends &= ends - 1;
        }
        for (size_t i = 0; i < kKeys; ++i)
            numbers[i] = kShort ? (numbers[i] & 0x7f) | numbers[i] >> 8 << 7 : gather(numbers[i]);
        from += static_cast<size_t>(std::popcount(done)) / 8;
        add<kKeys>(numbers);
    }

    /// What can be had of the next eight bytes. The shorter the numbers, the more of them there are;
    /// branches by their number are taken alike for long, those by each one's length would not be.
    WEIR_INLINE bool word() noexcept {
        const uint64_t bits = load(from);
        const uint64_t more = bits & kMore;
        // A group of zeros behind one that says that more come; the first byte begins a number.
        const uint64_t zeros = kMore & ~(nonzero_groups(bits & kLow) | bits);
        wrong |= zeros & more << 8;
        const auto room = static_cast<size_t>(keys_end - to);
        const auto ends = static_cast<size_t>(kWordGroups - std::popcount(more));
        if (ends == 8 && room >= 8) {
            uint64_t numbers[8];
            for (size_t i = 0; i < 8; ++i)
                numbers[i] = bits >> (8 * i) & 0xff;
            from += 8;
            add<8>(numbers);
        } else if ((more & more << 8) == 0 && room >= 4) {
            first<4, true>(bits);
        } else if (ends >= 4 && room >= 4) {
            first<4, false>(bits);
        } else if (ends >= 2 && room >= 2) {
            first<2, false>(bits);
        } else if (ends >= 1) {
            first<1, false>(bits);
        } else {
            return slow(1);
        }
        return true;
    }
};

/// Whether there are so many keys in the body, and nothing else.
WEIR_KERNEL bool read_keys(std::span<const std::byte> body, std::span<uint64_t> keys) noexcept {
    Reader r{body.data(), body.data() + body.size(), keys.data(), keys.data() + keys.size()};
    if (keys.empty()) return body.empty();
    if (!r.slow(0)) return false;
    while (r.to != r.keys_end && r.end - r.from >= static_cast<ptrdiff_t>(kWordGroups)) {
        if (!r.word()) return false;
    }
    while (r.to != r.keys_end) {
        if (!r.slow(1)) return false;
    }
    return r.from == r.end && r.wrong == 0;
}

/// Writes kBatch numbers. There is room for 10 bytes for each, so they are stored 8 bytes at a time.
WEIR_INLINE std::byte* write_batch(const uint64_t* numbers, std::byte* to) noexcept {
    uint64_t groups[kBatch];
    uint64_t any = 0;
    for (size_t i = 0; i < kBatch; ++i) {
        any |= numbers[i];
        groups[i] = groups_of(numbers[i]);
    }
    if (any >= kWordEnd) [[unlikely]] {
        for (size_t i = 0; i < kBatch; ++i)
            to = write_slowly(numbers[i], to);
        return to;
    }
    for (size_t i = 0; i < kBatch; ++i) {
        std::memcpy(to, &groups[i], sizeof groups[i]);
        to += first_bytes(groups[i]);
    }
    return to;
}

/// Returns the end of what it wrote.
WEIR_KERNEL std::byte* write_keys(std::span<const uint64_t> keys, std::byte* to) noexcept {
    if (keys.empty()) return to;
    to = write_slowly(keys[0], to);
    size_t i = 1;
    for (; keys.size() - i >= kBatch; i += kBatch) {
        uint64_t numbers[kBatch];
        for (size_t k = 0; k < kBatch; ++k)
            numbers[k] = keys[i + k] - keys[i + k - 1] - 1;
        to = write_batch(numbers, to);
    }
    for (; i < keys.size(); ++i)
        to = write_slowly(keys[i] - keys[i - 1] - 1, to);
    return to;
}

}  // namespace

size_t encode_key_differences(std::span<const uint64_t> keys, std::span<std::byte> body) noexcept {
    WEIR_CHECK(body.size() / kKeyDifferenceBytesMax >= keys.size());
    return static_cast<size_t>(write_keys(keys, body.data()) - body.data());
}

Status decode_key_differences(std::span<const std::byte> body, std::span<uint64_t> keys) {
    if (!may_be_key_differences(body.size(), keys.size()) || !read_keys(body, keys)) {
        return Error(Errc::kProtocol,
                     fmt::format("key differences: {} bytes are not those of {} ascending keys",
                                 body.size(), keys.size()));
    }
    return {};
}

}  // namespace weir
