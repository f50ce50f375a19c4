// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Lender: memory for the rows of records, from which backups that map it read them. So a record is
/// copied twice on its way, and not four times as one in messages is.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/replication/spare_blocks.h"
#include "lib/store/memory.h"
#include "transport/transport.h"

namespace weir {

struct LendingOptions {
    Memory* memory = nullptr;             ///< that peers may read; null: nothing is lent
    size_t bytes_min = size_t{16} << 10;  ///< shorter rows go in messages
};

/// What a connection that has ended had lent, its reader may still take: it is set aside until the reader has
/// no way to it any more, or takes nothing from there: it was heard of on a later connection of the stream, or
/// is in no view, so that nobody uses what it takes.
///
/// Thread: the shard's
class Lender {
public:
    explicit Lender(const LendingOptions& options) : bytes_min_(options.bytes_min) {
        if (options.memory != nullptr) spares_.emplace(*options.memory);
    }

    /// Empty if so much is not lent.
    [[nodiscard]] Block take(size_t bytes) noexcept {
        return spares_ && bytes >= bytes_min_ ? spares_->take(bytes, kSpareBytesMax) : Block();
    }

    /// Nobody reads it any more.
    void put(Block block) noexcept { spares_->put(std::move(block)); }

    /// The other end of the connection, shard `reader`, may read it until it is taken back.
    void set_aside(transport::ConnectionId connection, uint32_t reader, std::vector<Block> lent) {
        Aside& aside = aside_[connection];
        aside.reader = reader;
        std::ranges::move(lent, std::back_inserter(aside.blocks));
    }

    void take_back(transport::ConnectionId connection) { aside_.erase(connection); }

    /// From all readers for which `is_over(reader)`.
    template <class IsOver>
    void take_back_if(IsOver&& is_over) {
        if (aside_.empty()) [[likely]]
            return;
        std::erase_if(aside_, [&](const auto& entry) { return is_over(entry.second.reader); });
    }

private:
    static constexpr size_t kSpareBytesMax = size_t{16} << 20;

    struct Aside {
        uint32_t reader = 0;
        std::vector<Block> blocks;
    };

    size_t bytes_min_;
    std::optional<SpareBlocks> spares_;
    std::unordered_map<transport::ConnectionId, Aside> aside_;
};

}  // namespace weir
