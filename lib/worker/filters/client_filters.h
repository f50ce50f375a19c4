// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClientFilters: the filters of all tables of a client.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lib/base/clock.h"
#include "lib/worker/filters/table_filters.h"

namespace weir {

/// Thread: the client's
class ClientFilters {
public:
    /// `seed`: of this worker's own.
    ClientFilters(const Clock& clock, const RuleRegistry& rules, uint64_t seed)
        : clock_(clock), rules_(rules), seed_(seed) {}

    [[nodiscard]] bool empty() const noexcept { return tables_.empty(); }

    /// From now on calls that name no filters have these.
    /// Errors: kInvalidArgument, kTypeMismatch: the table cannot have them; nothing has changed
    [[nodiscard]] Status set(const TableInfo& table, const Filters& filters);

    /// Those of a call. `named`: by the call; null: those of the table. Null: none.
    /// Errors: as set()
    [[nodiscard]] Result<TableFilters*> find(const TableInfo& table, const Filters* named) {
        if (tables_.empty() && named == nullptr) [[likely]]
            return nullptr;
        return find_some(table, named);
    }

    /// Rows that are held back, in a table or in all.
    [[nodiscard]] size_t held_count(uint32_t table) const noexcept;
    [[nodiscard]] size_t held_count() const noexcept;

    /// What is held of one table, which others are told of: for Operations.
    struct Held {
        const TableInfo* table = nullptr;
        HeldRows* rows = nullptr;
    };

    /// Tables of which something is held.
    [[nodiscard]] std::vector<Held> held();

private:
    struct OfTable {
        OfTable(const TableInfo& its, const RowKind& rows, std::optional<KeyRange> dense)
            : table(its), held(rows, dense) {}

        TableInfo table;
        HeldRows held;
        TableFilters* standard = nullptr;
        std::vector<std::unique_ptr<TableFilters>> all;  ///< that a call has named
    };

    [[nodiscard]] Result<TableFilters*> find_some(const TableInfo& table, const Filters* named);
    [[nodiscard]] Result<OfTable*> of(const TableInfo& table);
    [[nodiscard]] Result<TableFilters*> use(OfTable& table, const Filters& filters);

    const Clock& clock_;
    const RuleRegistry& rules_;
    uint64_t seed_;
    const Filters none_{};
    std::map<uint32_t, std::unique_ptr<OfTable>> tables_;
};

}  // namespace weir
