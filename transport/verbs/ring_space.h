// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RingSpace: the free and used space of a ring in which messages wait until the device has sent
/// them. Space is taken and given back in the same order.

#include <cstdint>

#include "lib/base/check.h"

namespace weir::transport::verbs {

/// It has only positions; the owner of the ring has the bytes.
class RingSpace {
public:
    static constexpr uint32_t kLineBytes = 64;

    /// `size_bytes` is a multiple of kLineBytes.
    explicit RingSpace(uint32_t size_bytes) noexcept : size_bytes_(size_bytes) {
        WEIR_CHECK(size_bytes % kLineBytes == 0);
    }

    /// A contiguous piece of the ring.
    struct Piece {
        uint32_t offset = 0;
        uint32_t taken_bytes = 0;  ///< to be given back: includes rounding and skipped bytes
        bool fits = false;
    };

    /// Takes `length_bytes`, or nothing if they do not fit now.
    [[nodiscard]] Piece take(uint32_t length_bytes) noexcept {
        const uint32_t rounded = (length_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
        const uint32_t to_end = size_bytes_ - head_;
        const bool wraps = rounded > to_end;
        const uint32_t taken = wraps ? to_end + rounded : rounded;
        if (taken > size_bytes_ - used_) return {};
        const uint32_t offset = wraps ? 0 : head_;
        head_ = offset + rounded;
        if (head_ == size_bytes_) head_ = 0;
        used_ += taken;
        return {offset, taken, true};
    }

    /// Gives back the oldest bytes.
    void give_back(uint32_t taken_bytes) noexcept {
        WEIR_CHECK(taken_bytes <= used_);
        used_ -= taken_bytes;
    }

    [[nodiscard]] uint32_t used_bytes() const noexcept { return used_; }

    [[nodiscard]] uint32_t size_bytes() const noexcept { return size_bytes_; }

private:
    uint32_t size_bytes_;
    uint32_t head_ = 0;
    uint32_t used_ = 0;
};

}  // namespace weir::transport::verbs
