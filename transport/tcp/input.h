// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Input: bytes of a connection that were received and not used yet. A byte lies at an offset of
/// the buffer that equals its place in the stream modulo kFrameAlignment, so that messages are
/// aligned and can be lent to the caller where they lie.

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "transport/tcp/frame.h"

namespace weir::transport::tcp {

class Input {
public:
    explicit Input(size_t capacity_bytes)
        : capacity_(capacity_bytes),
          // no zeros: only what a connection uses becomes resident
          memory_(new (std::align_val_t{kFrameAlignment}) std::byte[capacity_bytes]) {}

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return {memory_.get() + begin_, end_ - begin_};
    }

    [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }

    /// Where the next bytes go, if `direct_bytes` bytes that come before them go elsewhere. The
    /// buffer must be empty if that is not 0.
    [[nodiscard]] std::span<std::byte> room(uint64_t direct_bytes = 0) noexcept {
        const size_t at = end_ + direct_bytes % kFrameAlignment;
        if (at >= capacity_) return {};
        return {memory_.get() + at, capacity_ - at};
    }

    /// So many bytes went elsewhere, and then so many to room().
    void received(uint64_t direct_bytes, size_t bytes) noexcept {
        begin_ += direct_bytes % kFrameAlignment;
        end_ += direct_bytes % kFrameAlignment + bytes;
    }

    void use(size_t bytes) noexcept { begin_ += bytes; }

    /// Moves what is unused to the front. Nothing in the buffer may be lent.
    void compact() noexcept {
        const size_t to = begin_ % kFrameAlignment;
        if (to == begin_) return;
        std::memmove(memory_.get() + to, memory_.get() + begin_, end_ - begin_);
        end_ -= begin_ - to;
        begin_ = to;
    }

private:
    struct Free {
        void operator()(std::byte* memory) const noexcept {
            ::operator delete[](memory, std::align_val_t{kFrameAlignment});
        }
    };

    size_t capacity_;
    size_t begin_ = 0;
    size_t end_ = 0;
    std::unique_ptr<std::byte[], Free> memory_;
};

}  // namespace weir::transport::tcp
