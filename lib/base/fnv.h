// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// fnv1a: a hash of bytes that every build of the program computes alike, unlike std::hash.

#include <cstdint>
#include <string_view>

namespace weir {

/// For comparing only, not for tables whose keys come from peers: collisions are easy to make.
/// Source: Fowler, Noll, Vo; FNV-1a, 64 bits (draft-eastlake-fnv)
[[nodiscard]] constexpr uint64_t fnv1a(std::string_view bytes) noexcept {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (const char byte : bytes) {
        hash ^= static_cast<unsigned char>(byte);
        hash *= 0x100000001b3ULL;
    }
    return hash;
}

}  // namespace weir
