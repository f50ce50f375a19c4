// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CutList: a key list that was cut into pieces by one view, cut again by another.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/key/position.h"
#include "lib/ring/view.h"

namespace weir {

/// It owns its keys and rows: contents that refer to them keep it.
///
/// Thread: one
class CutList {
public:
    /// Some keys of the list, ascending, that go to one shard as one request.
    struct Piece {
        uint32_t shard = kNoShard;  ///< kNoShard: they are lost
        uint64_t position = 0;      ///< of the first key
        size_t begin = 0;
        size_t count = 0;
    };

    /// `rows` has for each key the row of its value in the caller's array, ascending. If it is empty,
    /// that is the key's place in the list.
    CutList(std::span<const uint64_t> keys, std::span<const uint32_t> rows, const View& view,
            const PositionMap& positions, SplitBy by);

    [[nodiscard]] std::span<const Piece> pieces() const noexcept { return pieces_; }

    [[nodiscard]] std::span<const uint64_t> keys(const Piece& piece) const noexcept {
        return std::span(keys_).subspan(piece.begin, piece.count);
    }

    [[nodiscard]] std::span<const uint32_t> rows(const Piece& piece) const noexcept {
        return std::span(rows_).subspan(piece.begin, piece.count);
    }

    /// Whether the values of its keys lie one after the other. Rows ascend.
    [[nodiscard]] bool is_run(const Piece& piece) const noexcept {
        const std::span<const uint32_t> its = rows(piece);
        return its.back() - its.front() == its.size() - 1;
    }

private:
    std::vector<Piece> pieces_;
    std::vector<uint64_t> keys_;
    std::vector<uint32_t> rows_;
};

}  // namespace weir
