// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SpareBuffers: the memory of records that were sent or applied, for the next ones. To take a
/// megabyte from the system and give it back costs more than to fill it.

#include <cstddef>
#include <utility>
#include <vector>

namespace weir {

/// Thread: the shard's
class SpareBuffers {
public:
    static constexpr size_t kBytesMax = size_t{4} << 20;  ///< of all that it keeps
    static constexpr size_t kBuffersMax = 64;

    /// The one that was given last, or an empty one. What is in it means nothing.
    [[nodiscard]] std::vector<std::byte> take() noexcept {
        if (buffers_.empty()) return {};
        std::vector<std::byte> buffer = std::move(buffers_.back());
        buffers_.pop_back();
        bytes_ -= buffer.capacity();
        return buffer;
    }

    void give(std::vector<std::byte>&& buffer) {
        const size_t bytes = buffer.capacity();
        if (bytes == 0 || bytes_ + bytes > kBytesMax || buffers_.size() >= kBuffersMax) return;
        bytes_ += bytes;
        buffers_.push_back(std::move(buffer));
    }

private:
    std::vector<std::vector<std::byte>> buffers_;
    size_t bytes_ = 0;
};

}  // namespace weir
