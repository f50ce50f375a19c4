// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Fragments: a key list that was cut for one view, cut again for another.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/key/position.h"
#include "lib/ring/view.h"
#include "lib/store/memory.h"

namespace weir {

/// Some keys of the list, ascending, that go to one shard as one request.
struct Fragment {
    uint32_t shard = kNoShard;  ///< kNoShard: they are lost
    uint64_t position = 0;      ///< of the first key
    size_t begin = 0;
    size_t count = 0;
};

/// Thread: one
class Fragments {
public:
    /// `rows` has for each key the row of its value in the caller's array. If it is empty, that is
    /// the key's place in the list.
    Fragments(std::span<const uint64_t> keys, std::span<const uint32_t> rows, const View& view,
              const PositionMap& positions, SplitBy by);

    [[nodiscard]] std::span<const Fragment> all() const noexcept { return all_; }

    [[nodiscard]] std::span<const uint64_t> keys(const Fragment& fragment) const noexcept {
        return std::span(keys_).subspan(fragment.begin, fragment.count);
    }

    [[nodiscard]] std::span<const uint32_t> rows(const Fragment& fragment) const noexcept {
        return std::span(rows_).subspan(fragment.begin, fragment.count);
    }

    /// Whether the values of its keys lie one after the other.
    [[nodiscard]] bool is_run(const Fragment& fragment) const noexcept {
        const std::span<const uint32_t> its = rows(fragment);
        return its.back() - its.front() == its.size() - 1;
    }

    /// What the rows refer to, if that is none of the caller's.
    Block values;
    std::shared_ptr<const void> before;

private:
    std::vector<Fragment> all_;
    std::vector<uint64_t> keys_;
    std::vector<uint32_t> rows_;
};

}  // namespace weir
