// SPDX-License-Identifier: Apache-2.0
#include "lib/store/table.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/filter/bitmap.h"
#include "lib/key/narrow_values.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rule_threw.h"

namespace weir {
namespace {

/// `count` times `value`, as bytes of `type`.
std::vector<std::byte> repeated(double value, ValueType type, size_t count) {
    std::vector<std::byte> bytes(count * size_of(type));
    if (is_narrow(type)) {
        const std::vector<float> values(count, static_cast<float>(value));
        narrow_to_nearest(type, values, bytes.data());
        return bytes;
    }
    with_value_type(type, [&]<class T>() {
        auto* values = reinterpret_cast<T*>(bytes.data());
        std::fill_n(values, count, static_cast<T>(value));
    });
    return bytes;
}

/// This shard's share of the keys that a table has, or is to expect.
size_t share_of(uint64_t key_count, const PositionSet& owned) {
    size_t share = 0;
    for (const KeyRange keys : owned.dense_keys(key_count))
        share += keys.key_count();
    return share;
}

}  // namespace

Result<std::unique_ptr<TableShard>> TableShard::make(const TableSchema& schema,
                                                     const PositionSet& owned,
                                                     const RuleRegistry& rules, Memory& memory,
                                                     KnownLists& lists,
                                                     std::optional<uint64_t> secret_seed) {
    WEIR_ASSIGN(const RuleEntry* rule, check_schema(schema, rules));
    WEIR_ASSIGN(const ValueCodec* const codec, find_codec(schema, rules));
    std::unique_ptr<TableShard> table(
        new TableShard(schema, owned, *rule, memory, lists, secret_seed));
    table->codec_ = codec;
    WEIR_TRY(table->make_store(memory, *rule, owned, secret_seed));
    if (schema.max_delay > 0) WEIR_TRY(table->reserve_window(owned));
    return table;
}

TableShard::TableShard(const TableSchema& schema, const PositionSet& owned, const RuleEntry& rule,
                       Memory& memory, KnownLists& lists, std::optional<uint64_t> secret_seed)
    : schema_(schema),
      rule_entry_(rule),
      memory_(memory),
      layout_(rule.layout(schema.value_type, schema.width, schema.erasable)),
      combine_(schema.combine.value_or(rule.combine)),
      initial_rows_(schema.initial_value, schema.value_type, schema.width),
      rule_(rule, layout_.without_stamps(), schema.rounding, schema.parameters, schema.name,
            secret_seed ? std::optional(mix64(*secret_seed + schema.id)) : std::nullopt),
      pulled_row_bytes_(layout_.value_bytes()),
      pushed_row_bytes_(layout_.pushed_bytes()),
      owned_(owned),
      owns_all_(owned.is_whole_ring()),
      served_(owned),
      lists_(lists),
      aggregates_(schema.window()) {}

Status TableShard::make_store(Memory& memory, const RuleEntry& rule, const PositionSet& owned,
                              std::optional<uint64_t> secret_seed) {
    const ValueType of_state = layout_.pushed_type;
    const double constant = schema_.initial_value.is_random() ? 0 : schema_.initial_value.first;
    auto initial = repeated(constant, schema_.value_type, schema_.width);
    std::vector<std::byte> state(layout_.without_stamps().state_bytes);
    try {
        if (rule.initial_state)
            state = repeated(rule.initial_state(schema_.parameters), of_state,
                             state.size() / size_of(of_state));
        if (rule.fill_state)
            rule.fill_state(state.data(), of_state, schema_.width, schema_.parameters);
    } catch (const std::bad_alloc&) {
        throw;
    } catch (...) {
        return Error(Errc::kException, fmt::format("table '{}': rule '{}' threw: {}", schema_.name,
                                                   rule.name, text_of_exception()));
    }
    state.resize(layout_.state_bytes);  // behind it, stamps of empty rows
    // Of what is erased the values are made of the keys.
    const bool makes_rows_again = schema_.erasable && schema_.initial_value.is_random();
    if (schema_.layout == Layout::kDense) {
        auto dense = DenseStore::make(memory, owned.dense_keys(schema_.key_count), initial_rows_,
                                      initial, state);
        if (!dense) return std::move(dense).error();
        store_.emplace(std::move(*dense));
    } else {
        if (!state.empty())  // it is aligned, also behind an odd number of narrow values
            initial.resize((initial.size() + size_of(of_state) - 1) / size_of(of_state) *
                           size_of(of_state));
        const size_t state_at = initial.size();
        initial.insert(initial.end(), state.begin(), state.end());
        store_.emplace(SparseStore(memory, initial_rows_, initial, pulled_row_bytes_, state_at,
                                   share_of(schema_.key_count, owned), secret_seed,
                                   rule.wants_keys || makes_rows_again));
    }
    return {};
}

size_t TableShard::row_count() const {
    return std::visit([](const auto& store) { return store.row_count(); }, *store_);
}

size_t TableShard::bytes() const {
    size_t bytes = std::visit([](const auto& store) { return store.bytes(); }, *store_);
    for (const std::optional<Aggregate>& aggregate : aggregates_)
        bytes += aggregate ? aggregate->bytes() : 0;
    return bytes;
}

RowTarget TableShard::target() const {
    return std::visit([&](const auto& store) { return store.target(schema_.width); }, *store_);
}

Error TableShard::refused(Errc code, std::string_view why) const {
    return Error(code, fmt::format("table '{}': {}", schema_.name, why));
}

Status TableShard::check_pushed(uint64_t key_count, std::span<const std::byte> pushed) const {
    // Divided, because a peer's count times the row size may not fit in 64 bits.
    if (pushed.size() % pushed_row_bytes_ != 0 || pushed.size() / pushed_row_bytes_ != key_count) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("a push to {} keys brings {} bytes; it must bring {} per key",
                                   key_count, pushed.size(), pushed_row_bytes_));
    }
    if (reinterpret_cast<uintptr_t>(pushed.data()) % size_of(layout_.pushed_type) != 0)
        return refused(Errc::kInvalidArgument, "pushed values must be aligned as their type asks");
    return {};
}

Result<RuleArguments> TableShard::arguments(std::span<const double> given) const {
    if (given.empty()) return rule_.default_arguments();
    Result<RuleArguments> all = rule_entry_.all_arguments(given, schema_.value_type);
    if (!all) return of_table(schema_.name, all.error());
    return all;
}

Result<RuleArguments> TableShard::arguments(std::span<const NamedNumber> given) const {
    Result<RuleArguments> all =
        rule_entry_.named_arguments(given, rule_.default_arguments(), schema_.value_type);
    if (!all) return of_table(schema_.name, all.error());
    return all;
}

// Ranges.

Result<uint32_t> TableShard::range_row(KeyRange keys) const {
    const auto* dense = std::get_if<DenseStore>(&*store_);
    if (dense == nullptr)
        return refused(Errc::kInvalidArgument, "key ranges are for dense tables; send a key list");
    if (!keys.well_formed() || keys.empty()) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("the key range {}..{} is empty", keys.begin, keys.end));
    }
    if (const auto row = dense->first_row(keys)) return *row;
    return refused(Errc::kOutOfRange,
                   fmt::format("the keys {}..{} are not wholly within one range of this shard; ask "
                               "for the view again",
                               keys.begin, keys.end));
}

Status TableShard::push(KeyRange keys, std::span<const std::byte> pushed,
                        const RuleArguments* arguments) {
    if (const auto* dense = std::get_if<DenseStore>(&*store_)) {
        if (const auto row = dense->first_row(keys)) {
            WEIR_TRY(check_pushed(keys.key_count(), pushed));
            if (kept_ != nullptr) [[unlikely]]
                kept_->keep(target(), *row, keys.key_count());
            rule_.run(target(), *row, keys.key_count(), pushed.data(), arguments);
            return {};
        }
    }
    WEIR_TRY(check_pushed(keys.key_count(), pushed));
    return for_extents(keys, pushed_row_bytes_,
                       [&](uint32_t row, uint64_t row_count, size_t offset) -> Status {
                           if (kept_ != nullptr) kept_->keep(target(), row, row_count);
                           rule_.run(target(), row, row_count, pushed.data() + offset, arguments);
                           return {};
                       });
}

Status TableShard::pull(KeyRange keys, std::span<std::byte> out) const {
    if (out.size() != keys.key_count() * pulled_row_bytes_) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("a pull of {} keys into {} bytes; it needs {} per key",
                                   keys.key_count(), out.size(), pulled_row_bytes_));
    }
    return for_extents(
        keys, pulled_row_bytes_, [&](uint32_t row, uint64_t row_count, size_t offset) -> Status {
            const auto& dense = std::get<DenseStore>(*store_);
            std::memcpy(out.data() + offset, dense.values(row), row_count * pulled_row_bytes_);
            return {};
        });
}

std::span<const KeyRange> TableShard::extents() const noexcept {
    const auto* dense = std::get_if<DenseStore>(&*store_);
    return dense == nullptr ? std::span<const KeyRange>() : dense->owned();
}

bool TableShard::is_in_extent(KeyRange keys) const noexcept {
    const auto* dense = std::get_if<DenseStore>(&*store_);
    return dense != nullptr && dense->first_row(keys).has_value();
}

void TableShard::prefetch(KeyRange keys) const noexcept {
    constexpr size_t kLineBytes = 64;
    constexpr size_t kBytesMax = 2048;  // the best of 1, 2 and 4 KiB on Sapphire Rapids
    const auto* dense = std::get_if<DenseStore>(&*store_);
    if (dense == nullptr || !keys.well_formed()) return;
    const auto row = dense->first_row(keys);
    if (!row) return;
    const std::byte* const first = dense->values(*row);
    const size_t bytes = std::min(kBytesMax, keys.key_count() * pulled_row_bytes_);
    const size_t before = reinterpret_cast<uintptr_t>(first) % kLineBytes;  // in its line
    for (size_t at = 0; at < before + bytes; at += kLineBytes)
        __builtin_prefetch(first + std::min(at, bytes - 1), 1);
}

Result<std::span<const std::byte>> TableShard::values(KeyRange keys) const {
    WEIR_ASSIGN(const uint32_t row, range_row(keys));
    const std::byte* first = std::get<DenseStore>(*store_).values(row);
    return std::span(first, keys.key_count() * pulled_row_bytes_);
}

Result<std::span<const std::byte>> TableShard::state(KeyRange keys) const {
    WEIR_ASSIGN(const uint32_t row, range_row(keys));
    if (layout_.state_bytes == 0) return std::span<const std::byte>();
    const std::byte* const first = std::get<DenseStore>(*store_).state(row);
    return std::span(first, keys.key_count() * layout_.state_bytes);
}

// Key lists.

/// Grows to a whole block with the lists of the table: there may be thousands of tables with short ones.
std::span<const uint64_t> TableShard::copy_block(std::span<const uint64_t> keys) {
    if (block_.size() < keys.size())
        block_.resize(std::min(kBlockKeys, std::max(keys.size(), 2 * block_.size())));
    std::memcpy(block_.data(), keys.data(), keys.size_bytes());
    return std::span<const uint64_t>(block_).first(keys.size());
}

Result<std::span<const uint64_t>> TableShard::read_block(std::span<const uint64_t> keys,
                                                         size_t begin, For use) {
    const size_t count = std::min(kBlockKeys, keys.size() - begin);
    const uint64_t before = begin == 0 ? 0 : block_.back();  // only the last block is not full
    const std::span<const uint64_t> block = copy_block(keys.subspan(begin, count));
    if ((begin != 0 && block.front() <= before) || !is_sorted_unique(block)) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("the key list is not strictly ascending between index {} and {}",
                                   begin == 0 ? 0 : begin - 1, begin + count - 1));
    }
    WEIR_TRY(use == For::kStream || serves_held_ ? check_held(block) : check_served(block));
    return block;
}

Status TableShard::check_held(std::span<const uint64_t> block) const {
    if (schema_.layout == Layout::kDense || owns_all_) return {};  // dense: see find_rows()
    for (const uint64_t key : block) {
        if (owned_.contains(PositionMap::sparse().position(key))) continue;
        return refused(Errc::kOutOfRange,
                       fmt::format("key {} is not this shard's; ask for the view again", key));
    }
    return {};
}

Status TableShard::check_served(std::span<const uint64_t> block) const {
    const bool is_dense = schema_.layout == Layout::kDense;
    const PositionMap map =
        is_dense ? PositionMap::dense(schema_.key_count) : PositionMap::sparse();
    for (const uint64_t key : block) {
        if (is_dense && key >= schema_.key_count) continue;  // see find_rows()
        if (served_.contains(map.position(key))) continue;
        return refused(
            Errc::kOutOfRange,
            fmt::format("key {} is not served by this shard; ask for the view again", key));
    }
    return {};
}

Result<ListId> TableShard::read_list(std::span<const uint64_t> keys, For use) {
    ListId id{.count = keys.size()};
    const bool one_block = keys.size() <= kBlockKeys;
    if (!one_block) hasher_.reset(keys.size());
    for (size_t begin = 0; begin < keys.size(); begin += kBlockKeys) {
        WEIR_ASSIGN(const std::span<const uint64_t> block, read_block(keys, begin, use));
        if (begin == 0) id.first_key = block.front();
        id.last_key = block.back();
        if (!one_block) hasher_.add(block);
    }
    id.hash = one_block ? hash_key_list(std::span(block_).first(keys.size())) : hasher_.hash();
    return id;
}

Result<size_t> TableShard::look_up_block(std::span<const uint64_t> block, bool create,
                                         std::span<uint32_t> rows) {
    if (const auto* dense = std::get_if<DenseStore>(&*store_)) {
        WEIR_TRY(dense->find_rows(block, rows));
        return size_t{0};
    }
    auto& sparse = std::get<SparseStore>(*store_);
    if (!create) {
        const size_t missing = sparse.find_rows(block, rows);
        for (size_t i = 0; missing > 0 && initial_rows_.are_random() && i < block.size(); ++i) {
            if (rows[i] == kNoRow) missing_.push_back(block[i]);
        }
        return missing;
    }
    WEIR_TRY(sparse.find_or_insert_rows(block, rows));
    return size_t{0};
}

/// `rows` is empty: only the segments of the keys are to be marked.
Result<size_t> TableShard::look_up(std::span<const uint64_t> keys, const ListId& id,
                                   const LookUp& how, std::span<uint32_t> rows) {
    const auto look_at = [&](std::span<const uint64_t> block, size_t begin) -> Result<size_t> {
        if (how.remembers) touch(block);
        size_t missing = 0;
        if (!rows.empty()) {
            WEIR_ASSIGN(missing, look_up_block(block, how.use != For::kPull,
                                               rows.subspan(begin, block.size())));
        }
        if (how.held != nullptr) mark(block, *how.held);
        return missing;
    };
    missing_.clear();
    if (how.held != nullptr) lists_.marks().reset(*how.held);
    // read_list() left a copy in block_.
    if (keys.size() <= kBlockKeys) return look_at(std::span(block_).first(keys.size()), 0);
    size_t missing = 0;
    hasher_.reset(keys.size());
    for (size_t begin = 0; begin < keys.size(); begin += kBlockKeys) {
        WEIR_ASSIGN(const std::span<const uint64_t> block, read_block(keys, begin, how.use));
        hasher_.add(block);
        WEIR_ASSIGN(const size_t some, look_at(block, begin));
        missing += some;
    }
    // The sender may have changed its memory since read_list(): then the rows are another list's.
    if (hasher_.hash() != id.hash)
        return refused(Errc::kInvalidArgument, "the key list changed while it was read");
    return missing;
}

Result<RowList> TableShard::rows_of(std::span<const uint64_t> keys, For use,
                                    const SegmentList* held) {
    if (use != For::kPull) forget_made();
    WEIR_ASSIGN(const ListId id, read_list(keys, use));
    KnownLists::Entry known =
        keys.size() >= kRememberedKeysMin ? lists_.find(lists_of(use), id) : nullptr;
    if (known != nullptr && known->rows) {
        if (held != nullptr && !known->touches(*held)) {
            WEIR_TRY(look_up(keys, id, {.use = use, .held = held}, {}));
            lists_.set_segments(*known, lists_.marks().touched());
        }
        return remembered(std::move(known));
    }
    if (Block room = lists_.reserve(keys.size())) {
        const std::span rows(room.as<uint32_t>(), keys.size());
        touched_ = PositionSlices();
        const Result<size_t> missing =
            look_up(keys, id, {.use = use, .remembers = true, .held = held}, rows);
        if (missing && *missing == 0) {
            known = lists_.keep(lists_of(use), id, std::move(room), touched_);
            if (held != nullptr) lists_.set_segments(*known, lists_.marks().touched());
            return remembered(std::move(known));
        }
        if (missing) {  // not remembered: missing keys may come later
            scratch_rows_.assign(rows.begin(), rows.end());
            return RowList{scratch_rows_, id, nullptr, missing_,
                           held != nullptr ? &lists_.marks().touched() : nullptr};
        }
        if (missing.code() != Errc::kNoMemory) return missing.error();
        // No memory is left for new keys: try again, without room for remembering the list.
    }
    if (scratch_rows_.size() < keys.size()) scratch_rows_.resize(keys.size());
    const std::span rows(scratch_rows_.data(), keys.size());
    WEIR_TRY(look_up(keys, id, {.use = use, .held = held}, rows));
    return RowList{rows, id, nullptr, missing_,
                   held != nullptr ? &lists_.marks().touched() : nullptr};
}

RowList TableShard::remembered(KnownLists::Entry list) {
    const KnownList& known = *list;
    WEIR_CHECK(known.rows.bytes() == known.id.count * sizeof(uint32_t));
    return {{known.rows.as<const uint32_t>(), known.id.count},
            known.id,
            std::move(list),
            {},
            &known.segments};
}

Result<RowList> TableShard::rows_for_push(std::span<const uint64_t> keys, const SegmentList* held) {
    return rows_of(keys, For::kPush, held);
}

Result<RowList> TableShard::rows_for_pull(std::span<const uint64_t> keys) {
    return rows_of(keys, For::kPull);
}

Result<RowList> TableShard::known_rows(const ListId& id, const SegmentList* held) {
    return known_rows(id, For::kPush, held);
}

Result<RowList> TableShard::known_rows(const ListId& id, For use, const SegmentList* held) {
    Result<KnownLists::Entry> known = lists_.known(lists_of(use), id, held);
    if (!known) return of_table(schema_.name, known.error());
    return remembered(std::move(*known));
}

Status TableShard::push(const RowList& list, std::span<const std::byte> pushed,
                        const RuleArguments* arguments, uint32_t stamp) {
    WEIR_TRY(check_pushed(list.rows.size(), pushed));
    if (kept_ != nullptr) [[unlikely]]
        kept_->keep(target(), list.rows);
    rule_.rows(target(), list.rows, pushed.data(), arguments);
    if (layout_.has_stamps()) [[unlikely]]
        written_ += stamps().raise(list.rows, stamp);
    return {};
}

Status TableShard::push_kept(const Entries& entries, std::span<const std::byte> pushed,
                             const RuleArguments* arguments, uint32_t stamp) {
    WEIR_ASSIGN(const RowList kept, kept_rows(entries));
    return push(kept, pushed, arguments, stamp);
}

Result<RowList> TableShard::kept_rows(const Entries& entries) {
    WEIR_CHECK(entries.kept.size() == bitmap_bytes(entries.count()));
    chosen_rows_.resize(count_bits(entries.kept));
    list_bits(entries.kept, chosen_rows_);
    if (entries.is_range) {
        auto next = chosen_rows_.begin();
        WEIR_TRY(for_extents(
            entries.range, 1, [&](uint32_t row, uint64_t row_count, size_t offset) -> Status {
                for (; next != chosen_rows_.end() && *next < offset + row_count; ++next)
                    *next = static_cast<uint32_t>(row + (*next - offset));
                return {};
            }));
    } else {
        for (uint32_t& row : chosen_rows_)
            row = entries.list.rows[row];
    }
    return RowList{chosen_rows_, entries.list.id, nullptr};
}

Status TableShard::pull(const RowList& list, std::span<std::byte> out) const {
    if (out.size() != list.rows.size() * pulled_row_bytes_) {
        return refused(Errc::kInvalidArgument,
                       fmt::format("a pull of {} keys into {} bytes; it needs {} per key",
                                   list.rows.size(), out.size(), pulled_row_bytes_));
    }
    std::visit([&](const auto& store) { store.pull(list.rows, out.data()); }, *store_);
    auto missing = list.missing.begin();
    for (size_t i = 0; missing != list.missing.end(); ++i) {
        if (list.rows[i] == kNoRow)
            initial_rows_.fill(*missing++, out.data() + i * pulled_row_bytes_);
    }
    return {};
}

Status TableShard::are_written(const Entries& entries, std::span<std::byte> out) const {
    if (entries.is_range || schema_.layout == Layout::kDense || out.size() != entries.count())
        return refused(Errc::kInvalidArgument, "which keys were pushed is not known of it");
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = std::byte{is_written(entries.list.rows[i])};
    return {};
}

void TableShard::forget_made() noexcept {
    if (auto* const sparse = std::get_if<SparseStore>(&*store_)) sparse->forget_made();
}

// Aggregation.

Aggregate& TableShard::make_aggregate(uint64_t iteration, const RuleArguments* arguments) {
    std::optional<Aggregate>& aggregate = aggregate_of(iteration);
    if (!aggregate) aggregate.emplace(memory_, combine_, layout_);
    if (rule_entry_.combine_as != nullptr && arguments != nullptr) [[unlikely]]
        aggregate->combine_as(rule_entry_.combine_as(*arguments));
    return *aggregate;
}

/// Takes what the aggregates lack to have as many rows as the table has, or is to expect. What they
/// get they keep, also if it is not enough.
Status TableShard::reserve_window(const PositionSet& owned) {
    const auto* const dense = std::get_if<DenseStore>(&*store_);
    const size_t rows = dense != nullptr ? dense->row_end() : share_of(schema_.key_count, owned);
    const uint64_t row_bytes = schema_.window() * Aggregate::row_bytes_of(combine_, layout_);
    uint64_t needed = std::min(rows, ~uint64_t{0} / row_bytes) * row_bytes;
    uint64_t had = 0;
    for (const std::optional<Aggregate>& aggregate : aggregates_)
        had += aggregate ? aggregate->row_bytes() : 0;
    needed -= std::min(needed, had);
    uint64_t room = memory_.room_bytes();
    bool fits = needed <= room;  // else nobody waits until all of the memory was taken
    if (fits) {
        room = 0;  // if it does not suffice after all: what of it was taken
        for (uint64_t i = 0; i < schema_.window() && fits; ++i) {
            Aggregate& aggregate = make_aggregate(i);
            fits = aggregate.reserve_only(rows).has_value();
            if (fits) room += aggregate.bytes();
        }
    }
    if (fits) return {};
    return refused(
        Errc::kNoMemory,
        fmt::format("the sums of its {} open iterations (max_delay {}) need {} bytes on this "
                    "shard, and only {} were left; choose a smaller max_delay, use more "
                    "servers, or see in the server's log which limit was reached",
                    schema_.window(), schema_.max_delay, needed, room));
}

Status TableShard::push_aggregate(uint64_t iteration, KeyRange keys,
                                  std::span<const std::byte> pushed,
                                  const RuleArguments* arguments) {
    WEIR_TRY(check_pushed(keys.key_count(), pushed));
    return for_extents(keys, pushed_row_bytes_,
                       [&](uint32_t row, uint64_t row_count, size_t offset) {
                           return make_aggregate(iteration, arguments)
                               .add_run(row, row_count, pushed.data() + offset);
                       });
}

Status TableShard::push_aggregate(uint64_t iteration, const RowList& list,
                                  std::span<const std::byte> pushed,
                                  const RuleArguments* arguments) {
    WEIR_TRY(check_pushed(list.rows.size(), pushed));
    return make_aggregate(iteration, arguments).add_rows(list.rows, pushed.data());
}

void TableShard::drop_aggregate(uint64_t iteration) noexcept {
    if (std::optional<Aggregate>& aggregate = aggregate_of(iteration)) aggregate->clear();
    left_empty_ = 0;
}

void TableShard::list_aggregated(uint64_t iteration, AggregatedRows& listed) {
    constexpr size_t kRangeRows = 16;  // shorter runs cost less as keys
    listed.clear();
    const std::optional<Aggregate>& aggregate = aggregate_of(iteration);
    if (!aggregate) return;
    if (schema_.layout == Layout::kSparse) {
        aggregate->for_touched([&](uint32_t row, size_t row_count) {
            for (; row_count > 0; ++row, --row_count)
                listed.rows.push_back(row);
        });
        return find_keys(listed.rows, listed.keys);
    }
    const auto& dense = std::get<DenseStore>(*store_);
    for (size_t i = 0; i < dense.owned().size(); ++i) {
        const KeyRange keys = dense.owned()[i];
        const uint32_t first_row = dense.first_row_of(i);
        const auto end = static_cast<uint32_t>(first_row + keys.key_count());
        aggregate->for_touched(first_row, end, [&](uint32_t row, size_t row_count) {
            const uint64_t first = keys.begin + (row - first_row);
            if (row_count >= kRangeRows) return listed.ranges.push_back({first, first + row_count});
            for (uint64_t k = 0; k < row_count; ++k) {
                listed.keys.push_back(first + k);
                listed.rows.push_back(static_cast<uint32_t>(row + k));
            }
        });
    }
}

void TableShard::find_keys(std::span<const uint32_t> rows, std::vector<uint64_t>& keys) {
    keys.resize(rows.size());
    if (rows.empty()) return;
    if (auto* const sparse = std::get_if<SparseStore>(&*store_))
        return sparse->find_keys(memory_, rows, keys);
    const auto& dense = std::get<DenseStore>(*store_);
    std::ranges::transform(rows, keys.begin(), [&](uint32_t row) { return *dense.key_of(row); });
}

void TableShard::apply_aggregate(uint64_t iteration, const RuleArguments* arguments) {
    std::optional<Aggregate>& aggregate = aggregate_of(iteration);
    if (!aggregate) return;
    if (kept_ != nullptr) {
        aggregate->for_touched(
            [&](uint32_t row, size_t row_count) { kept_->keep(target(), row, row_count); });
    }
    if (layout_.has_stamps()) {
        left_empty_ = 0;
        aggregate->for_touched([&, at = stamps()](uint32_t row, size_t row_count) {
            for (; row_count > 0; ++row, --row_count)
                written_ += at.raise(row, stamp_of(iteration));
        });
    }
    aggregate->apply(target(), rule_, arguments);
}

}  // namespace weir
