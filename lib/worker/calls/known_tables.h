// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// KnownTables: the tables that a client has made, opened or dropped.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include "lib/base/result.h"
#include "lib/worker/calls/table_info.h"

namespace weir {

/// Thread: the client's
class KnownTables {
public:
    [[nodiscard]] std::span<const TableSchema> schemas() const noexcept { return schemas_; }

    /// nullptr: this worker has never had it.
    [[nodiscard]] const TableSchema* find(uint32_t table) const noexcept {
        const auto at = std::ranges::find(schemas_, table, &TableSchema::id);
        return at == schemas_.end() ? nullptr : &*at;
    }

    /// It was made or opened. `closed`: of a table from a checkpoint, the last iteration that was
    /// closed there; 0: none.
    void add(const TableSchema& schema, uint64_t closed) {
        if (closed != 0) closed_at_start_[schema.id] = closed;
        if (find(schema.id) == nullptr) schemas_.push_back(schema);
    }

    /// As in add().
    [[nodiscard]] uint64_t closed_at_start(uint32_t table) const noexcept {
        const auto at = closed_at_start_.find(table);
        return at == closed_at_start_.end() ? 0 : at->second;
    }

    /// For people.
    [[nodiscard]] std::string text(uint32_t table) const {
        const TableSchema* const known = find(table);
        return known == nullptr ? fmt::format("table number {}", table)
                                : fmt::format("table '{}'", known->name);
    }

    /// False: this worker had dropped it before.
    bool drop(uint32_t table) { return dropped_.insert(table).second; }

    [[nodiscard]] Status check_dropped(const TableSchema& table) const {
        if (dropped_.empty()) [[likely]]
            return {};
        return check_among_dropped(table);
    }

    /// For a call that starts later: the caller's may be gone then.
    [[nodiscard]] const TableInfo& remember(const TableInfo& table) {
        std::unique_ptr<const TableInfo>& known = remembered_[table.schema.id];
        if (known == nullptr) known = std::make_unique<const TableInfo>(table);
        return *known;
    }

private:
    [[nodiscard]] Status check_among_dropped(const TableSchema& table) const {
        if (!dropped_.contains(table.id)) return {};
        return Error(Errc::kNotFound,
                     fmt::format("table '{}': this worker has dropped it", table.name));
    }

    std::vector<TableSchema> schemas_;
    std::set<uint32_t> dropped_;
    std::unordered_map<uint32_t, uint64_t> closed_at_start_;
    std::unordered_map<uint32_t, std::unique_ptr<const TableInfo>> remembered_;
};

}  // namespace weir
