// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FeatureDictionary: maps 64-bit feature numbers to dense 32-bit indices, in order of first
/// appearance. It takes 8 bytes per feature, and 4 per slot of the hash table.

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/result.h"

namespace weir::data {

/// Thread: one at a time; any number of threads may call find() while none inserts.
class FeatureDictionary {
public:
    static constexpr uint32_t kNotFound = 0xffffffff;

    FeatureDictionary();

    /// Sets out[i] to the index of keys[i]. New keys get the next indices.
    ///
    /// Shape:   out.size() == keys.size()
    /// Errors:  Errc::kOutOfRange for more than 2^32 - 66 features
    [[nodiscard]] Status insert(std::span<const uint64_t> keys, std::span<uint32_t> out);

    /// The index of `key`, or kNotFound.
    [[nodiscard]] uint32_t find(uint64_t key) const noexcept;

    /// Returns the keys, by index, and leaves the dictionary empty.
    [[nodiscard]] std::vector<uint64_t> take_keys();

private:
    [[nodiscard]] uint64_t slot_of(uint64_t key) const noexcept;
    [[nodiscard]] uint32_t insert_at(uint64_t slot, uint64_t key);
    void grow();

    std::vector<uint64_t> keys_;
    std::vector<uint32_t> slots_;  // index into keys_, or kNotFound; the size is a power of two
    uint64_t slot_mask_;
};

}  // namespace weir::data
