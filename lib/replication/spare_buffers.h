// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SpareBuffers: the memory of records that were sent or applied, or of chunks that were written, for
/// the next ones. To take a megabyte from the system and give it back costs more than to fill it.

#include <cstddef>
#include <utility>
#include <vector>

namespace weir {

/// `Buffer`: a vector of bytes.
///
/// Thread: the shard's
template <class Buffer = std::vector<std::byte>>
class SpareBuffers {
public:
    static constexpr size_t kBuffersMax = 64;

    /// `bytes_max`: of all that it keeps.
    explicit SpareBuffers(size_t bytes_max = size_t{4} << 20) noexcept : bytes_max_(bytes_max) {}

    /// The one that was given last, or an empty one. What is in it means nothing.
    [[nodiscard]] Buffer take() noexcept {
        if (buffers_.empty()) return {};
        Buffer buffer = std::move(buffers_.back());
        buffers_.pop_back();
        bytes_ -= buffer.capacity();
        return buffer;
    }

    void give(Buffer&& buffer) {
        const size_t bytes = buffer.capacity();
        if (bytes == 0 || bytes_ + bytes > bytes_max_ || buffers_.size() >= kBuffersMax) return;
        bytes_ += bytes;
        buffers_.push_back(std::move(buffer));
    }

private:
    size_t bytes_max_;
    std::vector<Buffer> buffers_;
    size_t bytes_ = 0;
};

}  // namespace weir
