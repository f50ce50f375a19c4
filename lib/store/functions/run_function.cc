// SPDX-License-Identifier: Apache-2.0
/// \file
/// TableShard: functions on its rows.

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>

#include <fmt/core.h>

#include "lib/key/narrow_values.h"
#include "lib/store/row_copy.h"
#include "lib/store/rules/rule_threw.h"
#include "lib/store/table.h"

namespace weir {
namespace {

/// Of rows that are put side by side: so few that they stay in the first cache.
constexpr size_t kBlockValues = 2048;
/// Rows that lie side by side: so many values at a time that a sum over them is exact enough.
constexpr size_t kRunValues = size_t{1} << 18;

}  // namespace

/// Rows of several tables, side by side, and memory for that. The first table is the one that is called.
class TableShard::RowsTogether {
public:
    RowsTogether(const TableShard& table, const FunctionCall& call, size_t rows_max)
        : table_(table),
          call_(call),
          rows_(std::min(rows_max, block_rows())),
          kept_(is_narrow(table.layout_.value_type)
                    ? rows_ * call.widest * size_of(table.layout_.value_type)
                    : 0) {
        of_.width = table.layout_.width;
        for (size_t i = 0; i < call.function->tables; ++i)
            of_.with_width[i] = call.with[i]->layout_.width;
        of_.numbers = call.numbers;
        of_.parameters = &table.schema_.parameters;
    }

    [[nodiscard]] size_t rows_max() const noexcept { return rows_; }

    /// Runs it on rows that lie side by side in all tables. Of one that reads, those of other tables are copied first,
    /// a few at a time: tables of a size often lie so that each read of one closes the row of memory chips that the
    /// next read of another needs, which halves the speed of a dot product. axpy, which also writes, gains nothing.
    void run_in_place(std::byte* values, std::span<const std::byte* const> with, size_t row_count,
                      FunctionResult& result) {
        const bool copies = !with.empty() && !call_.function->changes;
        const size_t row_bytes = table_.layout_.value_bytes();
        const size_t some_max = copies ? block_rows() : row_count;
        for (size_t begin = 0; begin < row_count; begin += some_max) {
            of_.values = values + begin * row_bytes;
            of_.row_count = std::min(some_max, row_count - begin);
            for (size_t i = 0; i < with.size(); ++i) {
                const size_t bytes = call_.with[i]->layout_.value_bytes();
                of_.with[i] = with[i] + begin * bytes;
                if (copies)
                    of_.with[i] = copied(of_.with[i], of_.row_count * bytes, values_[1 + i]);
            }
            run(result);
        }
    }

    /// Some rows: no more than rows_max().
    void take(std::span<const uint32_t> rows, const uint64_t* keys) {
        of_.values = gather(table_, rows, nullptr, values_[0]);
        of_.row_count = rows.size();
        of_.keys = keys;
    }

    /// The rows of the same keys in table `i` of the call; `keys`: of those that have none, if their values are random.
    void take_with(size_t i, std::span<const uint32_t> rows, const uint64_t* keys) {
        of_.with[i] = gather(*call_.with[i], rows, keys, values_[1 + i]);
    }

    void run(FunctionResult& result) {
        if (!call_.function->is_penalty) return call_.function->runs[type_index()](of_, result);
        result.numbers[0] += table_.rule_entry_.penalty[type_index()](of_.values, of_.value_count(),
                                                                      table_.schema_.parameters);
    }

    /// Puts the rows back where they were taken.
    void put(std::span<const uint32_t> rows) {
        const ValueType type = table_.layout_.value_type;
        const std::byte* from = of_.values;
        if (is_narrow(type)) {
            const std::span values(reinterpret_cast<const float*>(of_.values), of_.value_count());
            if (table_.schema_.rounding == Rounding::kNearest)
                narrow_to_nearest(type, values, kept_.data());
            else
                narrow_at_random(type, values, kept_.data(), table_.rule_.random()());
            from = kept_.data();
        }
        put_rows(table_.target().values, rows, table_.layout_.value_bytes(), from);
    }

private:
    [[nodiscard]] size_t block_rows() const noexcept {
        return std::max<size_t>(1, kBlockValues / call_.widest);
    }

    [[nodiscard]] size_t type_index() const noexcept {
        return static_cast<size_t>(computed_type(table_.layout_.value_type));
    }

    [[nodiscard]] static const std::byte* copied(const std::byte* rows, size_t bytes,
                                                 std::vector<double>& into) {
        if (into.size() * sizeof(double) < bytes) into.resize(bytes / sizeof(double) + 1);
        std::memcpy(into.data(), rows, bytes);
        return reinterpret_cast<const std::byte*>(into.data());
    }

    /// Values that are computed with, aligned as the widest of them asks.
    [[nodiscard]] std::byte* gather(const TableShard& table, std::span<const uint32_t> rows,
                                    const uint64_t* keys, std::vector<double>& into) {
        const RowLayout& layout = table.layout_;
        if (into.empty())
            into.resize(rows_ * layout.width * size_of(computed_type(layout.value_type)) /
                            sizeof(double) +
                        1);
        auto* const values = reinterpret_cast<std::byte*>(into.data());
        std::byte* const as_kept = kept_.empty() ? values : kept_.data();
        std::visit([&](const auto& store) { store.pull(rows, as_kept); }, *table.store_);
        if (keys != nullptr && table.initial_rows_.are_random()) {
            for (size_t i = 0; i < rows.size(); ++i) {
                if (rows[i] == kNoRow)
                    table.initial_rows_.fill(keys[i], as_kept + i * layout.value_bytes());
            }
        }
        if (!kept_.empty()) {
            widen(layout.value_type,
                  std::span<const std::byte>(kept_).first(rows.size() * layout.value_bytes()),
                  reinterpret_cast<float*>(values));
        }
        return values;
    }

    const TableShard& table_;
    const FunctionCall& call_;
    size_t rows_;
    std::vector<std::byte> kept_;  ///< narrow values as they are kept
    std::array<std::vector<double>, 1 + kFunctionTablesMax> values_;
    FunctionRows<std::byte> of_;
};

Result<FunctionCall> TableShard::call(const FunctionEntry& function,
                                      std::span<const double> numbers,
                                      std::span<TableShard* const> with) {
    const auto wrong = [&](Errc code, std::string_view why) {
        return refused(code, fmt::format("function '{}': {}", function.name, why));
    };
    if (!function.supports(layout_.value_type))
        return wrong(Errc::kTypeMismatch,
                     fmt::format("it takes no values of {}", to_string(layout_.value_type)));
    const auto type = static_cast<size_t>(computed_type(layout_.value_type));
    if (function.is_penalty && rule_entry_.penalty[type] == nullptr)
        return wrong(Errc::kInvalidArgument,
                     fmt::format("rule '{}' names no penalty", schema_.rule));
    if (with.size() != function.tables) {
        return wrong(Errc::kInvalidArgument,
                     fmt::format("it reads {} other tables, not {}", function.tables, with.size()));
    }
    FunctionCall call{.function = &function, .numbers = {}, .with = {}, .widest = layout_.width};
    for (size_t i = 0; i < with.size(); ++i) {
        if (function.changes && with[i] == this)
            return wrong(Errc::kInvalidArgument,
                         "the table that it changes is none of those that it reads");
        if (!are_alike(schema_, with[i]->schema_, function.any_width))
            return wrong(Errc::kTypeMismatch,
                         fmt::format("table '{}' has another shape", with[i]->schema_.name));
        call.with[i] = with[i];
        call.widest = std::max(call.widest, with[i]->layout_.width);
    }
    WEIR_ASSIGN(call.numbers, function.all_numbers(numbers));
    return call;
}

/// Runs what may throw anything.
template <class Run>
void TableShard::run_function(const FunctionCall& call, Run&& run) const {
    try {
        run();
    } catch (const RuleThrew&) {
        throw;
    } catch (...) {
        throw RuleThrew(fmt::format("function '{}' on table '{}' threw: {}", call.function->name,
                                    schema_.name, text_of_exception()));
    }
}

/// Calls use(begin key, row count, values, values of the other tables) for runs that lie side by side in all of them.
template <class Use>
void TableShard::for_runs(KeyRange keys, const FunctionCall& call, Use&& use) const {
    const auto& own = std::get<DenseStore>(*store_);
    std::array<const std::byte*, kFunctionTablesMax> with{};
    const size_t tables = call.function->tables;
    while (!keys.empty()) {
        uint64_t end = std::min(keys.end, own.range_of(keys.begin).end);
        for (size_t i = 0; i < tables; ++i)
            end =
                std::min(end, std::get<DenseStore>(*call.with[i]->store_).range_of(keys.begin).end);
        end = std::min(end, keys.begin + std::max<uint64_t>(1, kRunValues / call.widest));
        const KeyRange run{keys.begin, end};
        for (size_t i = 0; i < tables; ++i) {
            const auto& other = std::get<DenseStore>(*call.with[i]->store_);
            with[i] = other.values(*other.first_row(run));
        }
        use(run, *own.first_row(run), std::span<const std::byte* const>(with).first(tables));
        keys.begin = end;
    }
}

/// Errors: Errc::kOutOfRange
Status TableShard::check_all_held(KeyRange keys, const FunctionCall& call) const {
    const auto check = [&](const TableShard& table) {
        return table.for_extents(keys, 1, [](uint32_t, uint64_t, size_t) { return Status(); });
    };
    WEIR_TRY(check(*this));
    for (size_t i = 0; i < call.function->tables; ++i)
        WEIR_TRY(check(*call.with[i]));
    return {};
}

bool TableShard::runs_in_place(const FunctionCall& call) const noexcept {
    return !is_narrow(layout_.value_type) && !call.function->wants_keys;
}

/// Rows of a run, with those of the other tables, block by block.
template <class Use>
void TableShard::for_blocks_of_run(KeyRange keys, const FunctionCall& call, Use&& use) const {
    RowsTogether together(*this, call, keys.key_count());
    std::vector<uint32_t> rows(together.rows_max());
    std::vector<uint64_t> its_keys(together.rows_max());
    for_runs(keys, call, [&](KeyRange run, uint32_t first_row, std::span<const std::byte* const>) {
        for (uint64_t begin = run.begin; begin < run.end; begin += together.rows_max()) {
            const KeyRange some{begin, std::min<uint64_t>(run.end, begin + together.rows_max())};
            const std::span block = std::span(rows).first(some.key_count());
            std::iota(its_keys.begin(), its_keys.end(), begin);
            for (size_t i = 0; i < call.function->tables; ++i) {
                const auto& other = std::get<DenseStore>(*call.with[i]->store_);
                std::iota(block.begin(), block.end(), *other.first_row(some));
                together.take_with(i, block, nullptr);
            }
            std::iota(block.begin(), block.end(),
                      static_cast<uint32_t>(first_row + (begin - run.begin)));
            together.take(block, its_keys.data());
            use(together, std::span<const uint32_t>(block));
        }
    });
}

Status TableShard::change(const Entries& entries, const FunctionCall& call, uint32_t stamp) {
    WEIR_CHECK(call.function->changes);
    if (entries.is_range) {
        WEIR_TRY(check_all_held(entries.range, call));
        run_function(call, [&] { change_range(entries.range, call); });
        return {};
    }
    const std::span<const uint32_t> rows = entries.list.rows;
    const std::vector<uint64_t> keys(entries.keys.begin(),
                                     entries.keys.end());  // a peer may change them
    if (keys.empty() && call.function->wants_keys) return KnownLists::unknown(entries.list.id);
    std::array<std::vector<uint32_t>, kFunctionTablesMax> with;
    for (size_t i = 0; i < call.function->tables; ++i) {
        TableShard& other = *call.with[i];
        WEIR_ASSIGN(const RowList list,
                    keys.empty() ? other.known_rows(entries.list.id) : other.rows_for_pull(keys));
        with[i].assign(list.rows.begin(), list.rows.end());
    }
    if (kept_ != nullptr) [[unlikely]]
        kept_->keep(target(), rows);
    run_function(call, [&] {
        RowsTogether together(*this, call, rows.size());
        FunctionResult nothing;
        for (size_t begin = 0; begin < rows.size(); begin += together.rows_max()) {
            const size_t count = std::min(together.rows_max(), rows.size() - begin);
            const uint64_t* const its_keys = keys.empty() ? nullptr : keys.data() + begin;
            for (size_t i = 0; i < call.function->tables; ++i)
                together.take_with(i, std::span(with[i]).subspan(begin, count), its_keys);
            together.take(rows.subspan(begin, count), its_keys);
            together.run(nothing);
            together.put(rows.subspan(begin, count));
        }
    });
    if (layout_.has_stamps()) [[unlikely]]
        written_ += stamps().raise(rows, stamp);
    return {};
}

void TableShard::change_range(KeyRange keys, const FunctionCall& call) {
    FunctionResult nothing;
    if (kept_ != nullptr) [[unlikely]] {
        WEIR_CHECK(for_extents(keys, 1, [&](uint32_t row, uint64_t row_count, size_t) {
            kept_->keep(target(), row, row_count);
            return Status();
        }));
    }
    if (!runs_in_place(call)) {
        return for_blocks_of_run(keys, call,
                                 [&](RowsTogether& together, std::span<const uint32_t> rows) {
                                     together.run(nothing);
                                     together.put(rows);
                                 });
    }
    RowsTogether together(*this, call, 1);
    const auto& own = std::get<DenseStore>(*store_);
    for_runs(keys, call, [&](KeyRange run, uint32_t row, std::span<const std::byte* const> with) {
        together.run_in_place(own.values(row), with, run.key_count(), nothing);
    });
}

Status TableShard::read(const ListedRows& listed, const FunctionCall& call,
                        FunctionResult& result) const {
    WEIR_CHECK(!call.function->changes);
    if (!listed.range.empty()) {
        WEIR_TRY(check_all_held(listed.range, call));
        run_function(call, [&] { read_range(listed.range, call, result); });
        return {};
    }
    run_function(call, [&] { read_listed(listed, call, result); });
    return {};
}

void TableShard::read_range(KeyRange keys, const FunctionCall& call, FunctionResult& result) const {
    if (!runs_in_place(call)) {
        return for_blocks_of_run(
            keys, call,
            [&](RowsTogether& together, std::span<const uint32_t>) { together.run(result); });
    }
    RowsTogether together(*this, call, 1);
    const auto& own = std::get<DenseStore>(*store_);
    for_runs(keys, call, [&](KeyRange run, uint32_t row, std::span<const std::byte* const> with) {
        together.run_in_place(own.values(row), with, run.key_count(), result);
    });
}

/// Rows of a sparse table.
void TableShard::read_listed(const ListedRows& listed, const FunctionCall& call,
                             FunctionResult& result) const {
    const RowStore::Run run = listed.run;
    const size_t count = listed.row_count();
    RowsTogether together(*this, call, count);
    const bool needs_keys = call.function->wants_keys || call.function->tables > 0;
    std::vector<uint64_t> keys_of_run;
    if (run.row_count != 0 && needs_keys) {
        keys_of_run.resize(count);
        copy_keys(listed, std::as_writable_bytes(std::span(keys_of_run)));
    }
    const std::span<const uint64_t> keys =
        run.row_count != 0 ? keys_of_run : std::span(listed.keys);
    const RowTarget its = target();
    const bool in_place = run.row_count != 0 && runs_in_place(call) && call.function->tables == 0 &&
                          its.values.stride_bytes == pulled_row_bytes_;
    std::vector<uint32_t> some(together.rows_max());
    std::vector<uint32_t> others(together.rows_max());
    for (size_t begin = 0; begin < count;) {
        if (in_place) {
            const auto row = static_cast<uint32_t>(run.first_row + begin);
            const size_t rows = std::min<size_t>(count - begin, its.values.run(row));
            together.run_in_place(its.values.at(row), {}, rows, result);
            begin += rows;
            continue;
        }
        const size_t rows = std::min(together.rows_max(), count - begin);
        std::span<const uint32_t> block =
            std::span(listed.rows).subspan(run.row_count != 0 ? 0 : begin);
        if (run.row_count != 0) {
            std::iota(some.begin(), some.end(), static_cast<uint32_t>(run.first_row + begin));
            block = some;
        }
        block = block.first(rows);
        const uint64_t* const its_keys = needs_keys ? keys.data() + begin : nullptr;
        for (size_t i = 0; i < call.function->tables; ++i) {
            const auto& other = std::get<SparseStore>(*call.with[i]->store_);
            other.find_rows(keys.subspan(begin, rows), std::span(others).first(rows));
            together.take_with(i, std::span(others).first(rows), its_keys);
        }
        together.take(block, its_keys);
        together.run(result);
        begin += rows;
    }
}

}  // namespace weir
