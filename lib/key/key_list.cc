// SPDX-License-Identifier: Apache-2.0
#include "lib/key/key_list.h"

#include <fmt/core.h>

#include "lib/base/kernel.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxhash reads it
#include <xxhash.h>

namespace weir {
namespace {

/// 1 if some key is not greater than the one before it. No early exit, so that the loop
/// vectorises.
WEIR_KERNEL uint64_t any_disorder(const uint64_t* keys, size_t count) noexcept {
    uint64_t bad = 0;
    for (size_t i = 1; i < count; ++i)
        bad |= static_cast<uint64_t>(keys[i] <= keys[i - 1]);
    return bad;
}

}  // namespace

uint64_t hash_key_list(std::span<const uint64_t> keys) noexcept {
    return XXH3_64bits_withSeed(keys.data(), keys.size_bytes(), keys.size());
}

ListId list_id(std::span<const uint64_t> keys) noexcept {
    if (keys.empty()) return {.hash = hash_key_list(keys)};
    return {hash_key_list(keys), keys.size(), keys.front(), keys.back()};
}

bool is_sorted_unique(std::span<const uint64_t> keys) noexcept {
    constexpr size_t kBlock = 4096;  // bounds what is read after the first disorder
    for (size_t begin = 0; begin + 1 < keys.size(); begin += kBlock) {
        const size_t count = std::min(kBlock + 1, keys.size() - begin);
        if (any_disorder(keys.data() + begin, count) != 0) return false;
    }
    return true;
}

Status check_sorted_unique(std::span<const uint64_t> keys) {
    if (is_sorted_unique(keys)) return {};
    size_t i = 1;
    while (i + 1 < keys.size() && keys[i] > keys[i - 1])
        ++i;
    return Error(
        Errc::kInvalidArgument,
        fmt::format("key list: key {} at index {} is not greater than the key before it, "
                    "{}; sort the list and remove duplicates, or let weir::KeyBatch do both",
                    keys[i], i, keys[i - 1]));
}

struct ListHasher::State {
    XXH3_state_t xxh;
};

ListHasher::ListHasher() : state_(std::make_unique<State>()) {}

ListHasher::~ListHasher() = default;

void ListHasher::reset(uint64_t count) noexcept {
    XXH3_64bits_reset_withSeed(&state_->xxh, count);
}

void ListHasher::add(std::span<const uint64_t> keys) noexcept {
    XXH3_64bits_update(&state_->xxh, keys.data(), keys.size_bytes());
}

uint64_t ListHasher::hash() const noexcept {
    return XXH3_64bits_digest(&state_->xxh);
}

}  // namespace weir
