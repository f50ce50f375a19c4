// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/filters/client_filters.h"

#include <utility>

#include <fmt/core.h>

#include "lib/base/random.h"

namespace weir {

Status ClientFilters::set(const TableInfo& table, const Filters& filters) {
    const auto found = tables_.find(table.schema.id);
    if (filters.empty() && found == tables_.end()) return {};
    WEIR_ASSIGN(OfTable* const its, of(table));
    if (filters.empty()) {
        its->standard = nullptr;
        return {};
    }
    WEIR_ASSIGN(its->standard, use(*its, filters));
    return {};
}

Result<TableFilters*> ClientFilters::find_some(const TableInfo& table, const Filters* named) {
    if (named == nullptr) {
        const auto found = tables_.find(table.schema.id);
        if (found == tables_.end()) return nullptr;
        if (found->second->standard != nullptr) return found->second->standard;
        named = &none_;
    }
    // What is held travels with the next part, whatever filters that has.
    if (named->empty() && held_count(table.schema.id) == 0) return nullptr;
    WEIR_ASSIGN(OfTable* const its, of(table));
    return use(*its, *named);
}

Result<ClientFilters::OfTable*> ClientFilters::of(const TableInfo& table) {
    const auto found = tables_.find(table.schema.id);
    if (found != tables_.end()) return found->second.get();
    WEIR_ASSIGN(const RuleEntry* const rule, rules_.find(table.schema.rule));
    RowKind rows;
    const RowLayout layout =
        rule->layout(table.schema.value_type, table.schema.width, table.schema.erasable);
    rows.type = layout.pushed_type;
    rows.width = layout.pushed_values;
    rows.combine = table.schema.combine.value_or(rule->combine);
    std::optional<KeyRange> dense;
    if (table.schema.layout == Layout::kDense) dense = KeyRange{0, table.schema.key_count};
    return tables_.emplace(table.schema.id, std::make_unique<OfTable>(table, rows, dense))
        .first->second.get();
}

Result<TableFilters*> ClientFilters::use(OfTable& table, const Filters& filters) {
    for (const std::unique_ptr<TableFilters>& one : table.all) {
        if (one->filters() == filters) return one.get();
    }
    constexpr size_t kFiltersMax = 64;
    const TableSchema& schema = table.table.schema;
    const auto refused = [&](const Error& why) {
        return Error(why.code(), fmt::format("table '{}': {}", schema.name, why.text()));
    };
    if (filters.has_selectors() && schema.allow_not_finite && is_floating(schema.value_type)) {
        return refused(Error(Errc::kInvalidArgument,
                             "it takes pushes with a NaN or an infinity, which cannot be weighed "
                             "against others: it can have codecs, but no filter that selects"));
    }
    if (table.all.size() == kFiltersMax) {
        return refused(Error(Errc::kInvalidArgument,
                             fmt::format("its calls have named {} different filters, each of which "
                                         "remembers what it has sent; name the same ones again",
                                         kFiltersMax)));
    }
    const ValueCodec* own = nullptr;
    if (filters.has_table_codec()) {
        if (schema.codec.empty()) {
            return refused(Error(Errc::kInvalidArgument,
                                 "filter 'table-codec': the table names no codec "
                                 "(TableOptions::codec)"));
        }
        WEIR_ASSIGN(own, find_codec(schema, rules_));
    }
    const uint64_t seed = mix64(seed_ + mix64(schema.id) + table.all.size());
    Result<std::unique_ptr<TableFilters>> made =
        TableFilters::make(filters, own, table.held, clock_, seed);
    if (!made) return refused(made.error());
    return table.all.emplace_back(std::move(*made)).get();
}

size_t ClientFilters::held_count(uint32_t table) const noexcept {
    const auto found = tables_.find(table);
    return found == tables_.end() ? 0 : found->second->held.count();
}

size_t ClientFilters::held_count() const noexcept {
    size_t count = 0;
    for (const auto& [id, its] : tables_)
        count += its->held.count();
    return count;
}

std::vector<ClientFilters::Held> ClientFilters::held() {
    std::vector<Held> all;
    for (const auto& [id, its] : tables_) {
        if (its->held.count() > 0) all.push_back({&its->table, &its->held});
    }
    return all;
}

}  // namespace weir
