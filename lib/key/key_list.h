// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Key lists: strictly ascending uint64 keys. Both ends of a connection know a list by its
/// ListId.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "lib/base/result.h"

namespace weir {

/// Identifies a key list without its keys. Two lists with equal hashes but different ends or
/// counts have different ids; the hash itself is 64 bits of XXH3.
struct ListId {
    uint64_t hash = 0;
    uint64_t count = 0;
    uint64_t first_key = 0;
    uint64_t last_key = 0;
    friend bool operator==(const ListId&, const ListId&) noexcept = default;
};

/// Shorter lists are cheaper to look up than to remember: servers do not remember them, and clients
/// always send them in full.
inline constexpr size_t kRememberedKeysMin = 16;

/// To find the row of a key takes about as long as to copy so many bytes. Work that is done in steps counts it.
inline constexpr size_t kFoundKeyBytes = 256;

/// XXH3 of the bytes of `keys`, seeded with their number.
[[nodiscard]] uint64_t hash_key_list(std::span<const uint64_t> keys) noexcept;

/// The id of `keys`; all zero but the hash for an empty list.
[[nodiscard]] ListId list_id(std::span<const uint64_t> keys) noexcept;

/// True if every key is greater than the one before it.
[[nodiscard]] bool is_sorted_unique(std::span<const uint64_t> keys) noexcept;

/// Errors:  kInvalidArgument naming the first key that is not greater than the one before it
[[nodiscard]] Status check_sorted_unique(std::span<const uint64_t> keys);

/// Computes hash_key_list() of a list that arrives in pieces. Thread: one.
class ListHasher {
public:
    ListHasher();
    ~ListHasher();
    ListHasher(const ListHasher&) = delete;
    ListHasher& operator=(const ListHasher&) = delete;

    /// Begins a list of `count` keys.
    void reset(uint64_t count) noexcept;
    void add(std::span<const uint64_t> keys) noexcept;
    [[nodiscard]] uint64_t hash() const noexcept;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace weir
