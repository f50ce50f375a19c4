// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/output.h"

#include <algorithm>

namespace weir::transport::tcp {

namespace {

/// Erases what was sent once it is no less than what waits. So a queue that is never empty takes
/// at most twice the memory of what waits, and each element is moved once on average.
template <class T>
void erase_sent(std::vector<T>& all, size_t& sent) {
    if (sent < all.size() - sent) return;
    all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(sent));
    sent = 0;
}

}  // namespace

void Output::add(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    copies_.insert(copies_.end(), bytes.begin(), bytes.end());
    if (!empty() && parts_.back().memory == Memory::kCopied) {
        parts_.back().bytes += bytes.size();
    } else {
        parts_.push_back({Memory::kCopied, nullptr, bytes.size()});
    }
}

void Output::add_data(const Part& part) {
    if (part.memory == Memory::kExposed) ++exposed_parts_;
    if (part.bytes > 0 || part.memory == Memory::kExposed) parts_.push_back(part);
    add_padding(part.bytes);
}

size_t Output::next(std::span<iovec> vectors) const noexcept {
    size_t copied = copies_sent_;
    const size_t count = std::min(vectors.size(), parts_.size() - next_);
    for (size_t i = 0; i < count; ++i) {
        const Part& part = parts_[next_ + i];
        const std::byte* from = part.at;
        if (part.memory == Memory::kCopied) {
            from = copies_.data() + copied;
            copied += part.bytes;
        }
        vectors[i] = {const_cast<std::byte*>(from), part.bytes};
    }
    return count;
}

void Output::sent(uint64_t bytes) {
    while (!empty() && (bytes > 0 || parts_[next_].bytes == 0)) {
        Part& part = parts_[next_];
        const uint64_t now = std::min(bytes, part.bytes);
        if (part.memory == Memory::kCopied) {
            copies_sent_ += now;
        } else {
            part.at += now;
        }
        part.bytes -= now;
        bytes -= now;
        if (part.bytes > 0) break;
        if (part.memory == Memory::kExposed) --exposed_parts_;
        ++next_;
    }
    erase_sent(parts_, next_);
    erase_sent(copies_, copies_sent_);
}

}  // namespace weir::transport::tcp
