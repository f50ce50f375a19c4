// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/key_differences.h"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "lib/base/check.h"

namespace weir {
namespace {

constexpr uint64_t kMore = 0x8080'8080'8080'8080U;  ///< the top bits of groups
constexpr size_t kWordGroups = 8;
constexpr uint64_t kWordEnd = uint64_t{1} << 56;  ///< less than this fits into eight groups

uint64_t load(const std::byte* from) noexcept {
    uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

/// Spreads 56 bits over the low seven of each byte.
uint64_t spread(uint64_t x) noexcept {
    x = (x & 0x0000'0000'0fff'ffffU) | (x & 0x00ff'ffff'f000'0000U) << 4;
    x = (x & 0x0000'3fff'0000'3fffU) | (x & 0x0fff'c000'0fff'c000U) << 2;
    return (x & 0x007f'007f'007f'007fU) | (x & 0x3f80'3f80'3f80'3f80U) << 1;
}

/// The reverse.
uint64_t gather(uint64_t x) noexcept {
    x = (x & 0x007f'007f'007f'007fU) | (x & 0x7f00'7f00'7f00'7f00U) >> 1;
    x = (x & 0x0000'3fff'0000'3fffU) | (x & 0x3fff'0000'3fff'0000U) >> 2;
    return (x & 0x0000'0000'0fff'ffffU) | (x & 0x0fff'ffff'0000'0000U) >> 4;
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

class Reader {
public:
    Reader(std::span<const std::byte> body, std::span<uint64_t> keys) noexcept
        : from_(body.data()),
          end_(body.data() + body.size()),
          to_(keys.data()),
          keys_end_(keys.data() + keys.size()) {}

    /// Whether there were so many keys, and nothing else.
    bool run() noexcept {
        if (to_ == keys_end_) return from_ == end_;
        if (!first()) return false;
        while (to_ != keys_end_) {
            const bool more = end_ - from_ >= static_cast<ptrdiff_t>(kWordGroups) ? word() : slow();
            if (!more) return false;
        }
        return from_ == end_;
    }

private:
    bool first() noexcept {
        from_ = read_slowly(from_, end_, last_);
        if (from_ == nullptr) return false;
        *to_++ = last_;
        return true;
    }

    bool add(uint64_t between) noexcept {
        const uint64_t key = last_ + between + 1;
        *to_++ = key;
        // Also if between + 1 is 2^64: the key is the one before then.
        const bool greater = key > last_;
        last_ = key;
        return greater;
    }

    bool slow() noexcept {
        uint64_t between = 0;
        from_ = read_slowly(from_, end_, between);
        return from_ != nullptr && add(between);
    }

    /// What can be had of the next eight bytes: eight keys, four, or one.
    bool word() noexcept {
        const uint64_t bits = load(from_);
        const uint64_t more = bits & kMore;
        const auto room = static_cast<size_t>(keys_end_ - to_);
        if (more == 0 && room >= 8) return eight(bits);
        if (more == 0x0080'0080'0080'0080U && room >= 4) return four(bits);
        const uint64_t ends = ~bits & kMore;
        if (ends == 0) return slow();
        const auto bytes = static_cast<size_t>(std::countr_zero(ends)) / 8 + 1;
        const uint64_t number = bits & (~uint64_t{0} >> (64 - 8 * bytes));
        if (bytes > 1 && number >> (8 * (bytes - 1)) == 0) return false;
        from_ += bytes;
        return add(gather(number & ~kMore));
    }

    /// Eight numbers of a byte each.
    bool eight(uint64_t bits) noexcept {
        const uint64_t before = last_;
        for (size_t i = 0; i < 8; ++i) {
            last_ += (bits >> (8 * i) & 0xff) + 1;
            to_[i] = last_;
        }
        to_ += 8;
        from_ += 8;
        return last_ > before;
    }

    /// Four numbers of two bytes each.
    bool four(uint64_t bits) noexcept {
        constexpr uint64_t kHigh = 0x7f00'7f00'7f00'7f00U;
        constexpr uint64_t kTop = 0x8000'8000'8000'8000U;
        const uint64_t before = last_;
        for (size_t i = 0; i < 4; ++i) {
            const uint64_t number = bits >> (16 * i);
            last_ += ((number & 0x7f) | (number & 0x7f00) >> 1) + 1;
            to_[i] = last_;
        }
        to_ += 4;
        from_ += 8;
        // Of each number the second group must not be 0: adding all ones carries into the top bit.
        const bool shortest = (((bits & kHigh) + kHigh) & kTop) == kTop;
        return last_ > before && shortest;
    }

    const std::byte* from_;
    const std::byte* end_;
    uint64_t* to_;
    uint64_t* keys_end_;
    uint64_t last_ = 0;
};

}  // namespace

size_t encode_key_differences(std::span<const uint64_t> keys, std::span<std::byte> body) noexcept {
    WEIR_CHECK(body.size() / kKeyDifferenceBytesMax >= keys.size());
    std::byte* to = body.data();
    uint64_t before = ~uint64_t{0};  // so that the first number is the first key
    for (const uint64_t key : keys) {
        const uint64_t number = key - before - 1;
        before = key;
        if (number >= kWordEnd) [[unlikely]] {
            to = write_slowly(number, to);
            continue;
        }
        // Stored whole: there is room for 10 bytes for each number.
        const auto bytes = static_cast<size_t>(std::bit_width(number | 1) + 6) / 7;
        const uint64_t groups = spread(number) | (kMore & ((uint64_t{1} << (8 * bytes - 8)) - 1));
        std::memcpy(to, &groups, sizeof groups);
        to += bytes;
    }
    return static_cast<size_t>(to - body.data());
}

Status decode_key_differences(std::span<const std::byte> body, std::span<uint64_t> keys) {
    if (!may_be_key_differences(body.size(), keys.size()) || !Reader(body, keys).run()) {
        return Error(Errc::kProtocol,
                     fmt::format("key differences: {} bytes are not those of {} ascending keys",
                                 body.size(), keys.size()));
    }
    return {};
}

}  // namespace weir
