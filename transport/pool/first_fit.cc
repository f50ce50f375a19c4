// SPDX-License-Identifier: Apache-2.0
#include "transport/pool/first_fit.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "lib/base/bytes.h"
#include "lib/base/check.h"

namespace weir::transport {
namespace {

std::byte* align(std::byte* at, size_t alignment) {
    const auto address = reinterpret_cast<uintptr_t>(at);
    return at + (round_up(address, alignment) - address);
}

}  // namespace

void FirstFit::add(std::span<std::byte> stretch) {
    WEIR_CHECK(!stretch.empty() && stretch.size() % kUnitBytes == 0);
    WEIR_CHECK(align(stretch.data(), kUnitBytes) == stretch.data());
    stretches_[stretch.data()] = stretch.data();
    free_[stretch.data()] = stretch.size();
    free_bytes_ += stretch.size();
}

void FirstFit::extend(std::span<std::byte> more) {
    WEIR_CHECK(!more.empty() && more.size() % kUnitBytes == 0);
    WEIR_CHECK(!stretches_.contains(more.data()));
    deallocate(more.data(), more.size());  // it counts as used until now
}

std::byte* FirstFit::free_before(std::byte* end) const {
    const auto after = free_.lower_bound(end);
    if (after == free_.begin()) return end;
    const auto& [start, size_bytes] = *std::prev(after);
    return start + size_bytes == end ? start : end;
}

bool FirstFit::remove(std::span<std::byte> stretch) {
    const auto found = free_.find(stretch.data());
    if (found == free_.end() || found->second != stretch.size()) return false;
    free_.erase(found);
    free_bytes_ -= stretch.size();
    stretches_.erase(stretch.data());
    return true;
}

/// The first free memory that has room for such a piece.
FirstFit::Pieces::const_iterator FirstFit::find(size_t size_bytes, size_t alignment) const {
    WEIR_CHECK(std::has_single_bit(alignment));
    if (size_bytes == 0 || size_bytes > free_bytes_) return free_.end();
    return std::ranges::find_if(free_, [&](const auto& free) {
        const auto skipped = static_cast<size_t>(align(free.first, alignment) - free.first);
        return skipped <= free.second && size_bytes <= free.second - skipped;
    });
}

bool FirstFit::has_free(size_t size_bytes, size_t alignment) const {
    return find(round_up(size_bytes, kUnitBytes), std::max(alignment, kUnitBytes)) != free_.end();
}

FirstFit::Piece FirstFit::allocate(size_t size_bytes, size_t alignment) {
    size_bytes = round_up(size_bytes, kUnitBytes);
    alignment = std::max(alignment, kUnitBytes);
    const auto free = find(size_bytes, alignment);
    if (free == free_.end()) return {};
    std::byte* const piece = align(free->first, alignment);
    take(free, piece, size_bytes);
    return {piece, mark_used(piece, size_bytes)};
}

void FirstFit::take(Pieces::const_iterator from, std::byte* piece, size_t size_bytes) {
    const auto free = free_.erase(from, from);  // no more const
    std::byte* const end = free->first + free->second;
    const auto before = static_cast<size_t>(piece - free->first);
    const auto after = static_cast<size_t>(end - (piece + size_bytes));
    const auto next = std::next(free);
    if (before > 0) {
        free->second = before;
    } else {
        free_.erase(free);
    }
    if (after > 0) free_.emplace_hint(next, piece + size_bytes, after);
    free_bytes_ -= size_bytes;
}

void FirstFit::deallocate(std::byte* piece, size_t size_bytes) {
    size_bytes = round_up(size_bytes, kUnitBytes);
    free_bytes_ += size_bytes;
    auto next = free_.lower_bound(piece);
    WEIR_CHECK(next == free_.end() || piece + size_bytes <= next->first);
    // stretches may lie side by side but belong to different files, so a piece never spans two
    std::byte* const end = piece + size_bytes;
    if (next != free_.end() && next->first == end && !stretches_.contains(end)) {
        size_bytes += next->second;
        next = free_.erase(next);
    }
    if (next != free_.begin() && !stretches_.contains(piece)) {
        const auto previous = std::prev(next);
        std::byte* const previous_end = previous->first + previous->second;
        WEIR_CHECK(previous_end <= piece);
        if (previous_end == piece) {
            previous->second += size_bytes;
            return;
        }
    }
    free_.emplace_hint(next, piece, size_bytes);
}

size_t FirstFit::mark_used(const std::byte* piece, size_t size_bytes) {
    std::byte*& used_end = stretches_.find(stretch_of(piece)->first)->second;
    const auto used = static_cast<size_t>(std::max<std::ptrdiff_t>(0, used_end - piece));
    if (used >= size_bytes) return 0;
    const size_t fresh_bytes = size_bytes - used;
    used_end += piece + size_bytes - used_end;
    return fresh_bytes;
}

FirstFit::Stretches::const_iterator FirstFit::stretch_of(const std::byte* address) const {
    const auto after = stretches_.upper_bound(address);
    WEIR_CHECK(after != stretches_.begin());
    return std::prev(after);
}

bool FirstFit::same_stretch(const std::byte* a, const std::byte* b) const {
    return stretch_of(a) == stretch_of(b);
}

}  // namespace weir::transport
