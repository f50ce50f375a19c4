// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableShard: one shard's part of a table, as the shard's push and pull use it.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "lib/base/result.h"
#include "lib/filter/body.h"
#include "lib/key/key_list.h"
#include "lib/key/key_range.h"
#include "lib/key/position_set.h"
#include "lib/key/position_slices.h"
#include "lib/store/aggregate.h"
#include "lib/store/dense_store.h"
#include "lib/store/erasing/row_stamps.h"
#include "lib/store/functions/function_call.h"
#include "lib/store/index/known_lists.h"
#include "lib/store/kept_rows.h"
#include "lib/store/memory.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/sparse_store.h"
#include "lib/store/table_schema.h"

namespace weir {

/// Where the keys of one list lie in one table.
struct RowList {
    std::span<const uint32_t> rows;  ///< kNoRow for a key that was never written (only in pulls)
    ListId id;
    KnownLists::Entry remembered;  ///< keeps `rows` alive; none if the list is not remembered
    /// The keys of rows that are kNoRow, in order, if what they read as is random.
    std::span<const uint64_t> missing{};
    /// In which the keys of a pushed list are, if that was asked for.
    const TouchedSegments* segments = nullptr;
};

/// What a request names in one table, resolved: a range of a dense table, or the rows of a list; and which of
/// them a push changes.
struct Entries {
    Entries() = default;

    bool is_range = false;
    KeyRange range;
    RowList list;
    std::span<const uint64_t> keys;   ///< of the list; none: it came by its hash
    std::span<const std::byte> kept;  ///< a bit for each (lib/filter/bitmap.h); empty: all are kept

    [[nodiscard]] size_t count() const noexcept {
        return is_range ? range.key_count() : list.rows.size();
    }
};

/// Some rows of a table, as TableShard::list() finds them: those of a range of keys, or of a list.
struct ListedRows {
    KeyRange range;              ///< of a dense table, within one of extents()
    std::vector<uint64_t> keys;  ///< list() gives those of a sparse table; in any order
    std::vector<uint32_t> rows;  ///< where they are; valid until rows are dropped
    RowStore::Run
        run{};  ///< of list_by_row(), in place of `keys` and `rows`: rows with these numbers

    [[nodiscard]] size_t row_count() const noexcept {
        return range.key_count() + keys.size() + run.row_count;
    }
};

/// Rows that were aggregated.
struct AggregatedRows {
    std::vector<KeyRange> ranges;  ///< of a dense table: ascending, each within one of extents()
    std::vector<uint64_t> keys;    ///< of the other rows; ascending in a dense table
    std::vector<uint32_t> rows;    ///< where these are

    void clear() noexcept {
        ranges.clear();
        keys.clear();
        rows.clear();
    }
};

/// Arguments may come from a faulty or hostile peer, and may lie in memory that the peer can
/// change at any time. Therefore keys are copied before they are checked and used, sizes and
/// alignments are checked, and a refused call leaves all values as they were. Key lists are
/// ascending.
///
/// A push brings row_layout().pushed_values per key; a pull returns width values per key. It may
/// bring arguments of the rule, which arguments() has checked; null: those of the table.
///
/// Thread: owning shard. A RowList that is not remembered is valid until the next rows_for_push()
///         or rows_for_pull().
class TableShard {
public:
    /// `owned` is the shard's part of the ring. `rules`, `memory` and `lists` must outlive the
    /// table. No other table that uses `lists` may have the same id in its schema. A table with a
    /// max_delay takes the memory of its aggregates at once, for as many keys as it has or is to
    /// expect, so that its window cannot fail later; hold() takes more. Other tables take it when
    /// they need it.
    /// `secret_seed` spreads the keys of a sparse table, and is that of what rules draw; none: drawn at random.
    /// Errors: those of check_schema() and find_codec(); Errc::kNoMemory
    /// Rows are filled by fill_some().
    [[nodiscard]] static Result<std::unique_ptr<TableShard>> make(
        const TableSchema& schema, const PositionSet& owned, const RuleRegistry& rules,
        Memory& memory, KnownLists& lists, std::optional<uint64_t> secret_seed = {});

    [[nodiscard]] const TableSchema& schema() const noexcept { return schema_; }

    [[nodiscard]] const RowLayout& row_layout() const noexcept { return layout_; }

    /// Of an encoded body that a push of so many keys brings, or a pull gets.
    [[nodiscard]] BodyForm pushed_form(uint32_t key_count) const noexcept {
        return {layout_.pushed_type, layout_.pushed_values, key_count, codec_};
    }

    [[nodiscard]] BodyForm pulled_form(uint32_t key_count) const noexcept {
        return {layout_.value_type, layout_.width, key_count, codec_};
    }

    /// The number of keys that have a row here.
    [[nodiscard]] size_t row_count() const;

    /// Without those whose rows are empty (RowStamps).
    [[nodiscard]] size_t written_count() const {
        return layout_.has_stamps() ? written_ : row_count();
    }

    /// The arguments of a push, in the order in which the rule names them; none: the table's.
    /// Errors: Errc::kInvalidArgument, naming table, rule, argument and value
    [[nodiscard]] Result<RuleArguments> arguments(std::span<const double> given) const;
    /// The same by name; those that are not named are the table's.
    [[nodiscard]] Result<RuleArguments> arguments(std::span<const NamedNumber> given) const;

    /// What values, state, index and accumulators take together.
    [[nodiscard]] size_t bytes() const;

    // Ranges of a dense table, all of whose keys are held. The values of each of extents() lie side
    // by side.
    // Errors: Errc::kInvalidArgument (sparse table, wrong size, misaligned), Errc::kOutOfRange

    [[nodiscard]] Status push(KeyRange keys, std::span<const std::byte> pushed,
                              const RuleArguments* arguments = nullptr);
    [[nodiscard]] Status pull(KeyRange keys, std::span<std::byte> out) const;
    /// Prefetches the first of these values, if this shard has them. Any range is allowed.
    void prefetch(KeyRange keys) const noexcept;
    /// Ascending; neighbours may touch. Of a sparse table: none.
    [[nodiscard]] std::span<const KeyRange> extents() const noexcept;
    /// Whether the keys are in one extent.
    [[nodiscard]] bool is_in_extent(KeyRange keys) const noexcept;
    /// The values of keys of one extent in place, to be sent without a copy; valid until the next
    /// change.
    [[nodiscard]] Result<std::span<const std::byte>> values(KeyRange keys) const;
    /// The same for the state; empty if the rule has none.
    [[nodiscard]] Result<std::span<const std::byte>> state(KeyRange keys) const;

    // Key lists: first find the rows, then push to or pull from them.
    // Errors: Errc::kInvalidArgument (unsorted, duplicate), Errc::kOutOfRange (not served)

    /// The rows of `keys`; a sparse table makes missing ones. If `held` is not null, also the
    /// segments of it that the keys are in.
    /// Errors: also Errc::kNoMemory; some new keys may then exist, with the initial values
    [[nodiscard]] Result<RowList> rows_for_push(std::span<const uint64_t> keys,
                                                const SegmentList* held = nullptr);
    /// The rows of `keys`; makes none.
    [[nodiscard]] Result<RowList> rows_for_pull(std::span<const uint64_t> keys);
    /// The rows of a remembered list, and its segments as rows_for_push().
    /// Errors: Errc::kUnknownList
    [[nodiscard]] Result<RowList> known_rows(const ListId& id, const SegmentList* held = nullptr);

    /// `stamp`: of an erasable table, not 0.
    [[nodiscard]] Status push(const RowList& list, std::span<const std::byte> pushed,
                              const RuleArguments* arguments = nullptr, uint32_t stamp = 1);
    [[nodiscard]] Status pull(const RowList& list, std::span<std::byte> out) const;

    // Either of the two.

    // `pushed` has the rows that are kept.

    /// The rows of those that are kept. Valid until the next call.
    /// Errors: as push()
    [[nodiscard]] Result<RowList> kept_rows(const Entries& entries);

    [[nodiscard]] Status push_kept(const Entries& entries, std::span<const std::byte> pushed,
                                   const RuleArguments* arguments, uint32_t stamp);

    [[nodiscard]] Status push(const Entries& entries, std::span<const std::byte> pushed,
                              const RuleArguments* arguments = nullptr, uint32_t stamp = 1) {
        if (!entries.kept.empty()) [[unlikely]]
            return push_kept(entries, pushed, arguments, stamp);
        return entries.is_range ? push(entries.range, pushed, arguments)
                                : push(entries.list, pushed, arguments, stamp);
    }

    [[nodiscard]] Status pull(const Entries& entries, std::span<std::byte> out) const {
        return entries.is_range ? pull(entries.range, out) : pull(entries.list, out);
    }

    /// Writes 1 for each key that was ever pushed, and not erased since, else 0: of a sparse table, a key has
    /// a row then.
    /// Shape:   out.size() == entries.count()
    /// Errors:  Errc::kInvalidArgument (dense table, wrong size)
    [[nodiscard]] Status are_written(const Entries& entries, std::span<std::byte> out) const;

    // The same of rows as they are stored, values and then state: row_layout().row_bytes() per key. A push
    // runs no rule: these rows take the place of what was there.

    /// `stamp`: of an erasable table, for rows that have a lower one.
    [[nodiscard]] Status push_rows(const Entries& entries, std::span<const std::byte> rows,
                                   uint32_t stamp = 1);
    [[nodiscard]] Status pull_rows(const Entries& entries, std::span<std::byte> out) const;

    // Rows that end, of an erasable table. One that is erased becomes initial, and is empty: it stays with its key
    // until the vacuum takes it, and is nothing to anybody but who holds its number.

    /// As rows_for_push(), but makes none: a list of which some keys have no row is not remembered.
    [[nodiscard]] Result<RowList> rows_to_erase(std::span<const uint64_t> keys,
                                                const SegmentList* held = nullptr);
    /// Erases rows; with `before` those with a lower stamp, with `below` those whose values are all smaller in size.
    /// Errors: Errc::kInvalidArgument (a range, or the table is not erasable)
    [[nodiscard]] Status erase(const Entries& entries, std::optional<uint32_t> before = {},
                               std::optional<double> below = {});

    [[nodiscard]] bool is_written(uint32_t row) const {
        if (row == kNoRow || !layout_.has_stamps()) return row != kNoRow;
        return !stamps().is_empty(row);
    }

    /// Whether vacuum_some() has something to do: a quarter of all rows is empty, and nothing keeps them where they
    /// are.
    [[nodiscard]] bool wants_vacuum() const noexcept {
        if (!layout_.has_stamps() || kept_ != nullptr || drop_cursor_) return false;
        return vacuum_.has_value() || has_many_empty();
    }

    /// Takes some empty rows from their keys, in a bounded time; their room is used again. It goes as fast as
    /// new rows come. Not those of which an open iteration has a sum. Forgets the key lists. Nobody may still
    /// use a RowList.
    void vacuum_some();

    // Functions, on the rows of this table and those of the same keys in others of this shard.

    /// What calls a function: the numbers that it gets, and the tables that it reads.
    /// Errors: kInvalidArgument, kTypeMismatch, naming table and function, and what is wrong
    [[nodiscard]] Result<FunctionCall> call(const FunctionEntry& function,
                                            std::span<const double> numbers,
                                            std::span<TableShard* const> with);
    /// Runs a function that changes. `stamp`: of an erasable table, as push().
    /// Errors: kUnknownList: keys are needed, and the list came by its hash; kOutOfRange: another table does not have
    ///         all of them here. Nothing has changed
    [[nodiscard]] Status change(const Entries& entries, const FunctionCall& call,
                                uint32_t stamp = 1);
    /// Adds what a function finds in rows that list() or list_by_row() has found.
    /// Errors: as change()
    [[nodiscard]] Status read(const ListedRows& listed, const FunctionCall& call,
                              FunctionResult& result) const;

    // Aggregation over workers, by iteration. Those that are not applied or dropped lie within
    // schema().window() iterations, one after the other: each has an aggregate of its own.
    // Errors: as push(), and Errc::kNoMemory

    [[nodiscard]] Status push_aggregate(uint64_t iteration, KeyRange keys,
                                        std::span<const std::byte> pushed,
                                        const RuleArguments* arguments = nullptr);
    [[nodiscard]] Status push_aggregate(uint64_t iteration, const RowList& list,
                                        std::span<const std::byte> pushed,
                                        const RuleArguments* arguments = nullptr);

    /// `arguments`: of the iteration, the same in each push to it.
    [[nodiscard]] Status push_aggregate(uint64_t iteration, const Entries& entries,
                                        std::span<const std::byte> pushed,
                                        const RuleArguments* arguments = nullptr) {
        if (!entries.kept.empty()) [[unlikely]] {
            WEIR_ASSIGN(const RowList kept, kept_rows(entries));
            return push_aggregate(iteration, kept, pushed, arguments);
        }
        return entries.is_range ? push_aggregate(iteration, entries.range, pushed, arguments)
                                : push_aggregate(iteration, entries.list, pushed, arguments);
    }

    /// Runs the rule once on what was aggregated.
    void apply_aggregate(uint64_t iteration, const RuleArguments* arguments = nullptr);
    /// Lists the rows that apply_aggregate() would change. The first time it walks through all keys
    /// of a sparse table, which then keeps them by row: 8 bytes each. Without memory for that, it does
    /// so each time.
    void list_aggregated(uint64_t iteration, AggregatedRows& listed);

    /// At least as many as list_aggregated() lists; no more than have room.
    [[nodiscard]] size_t aggregated_rows_max(uint64_t iteration) const noexcept {
        const std::optional<Aggregate>& aggregate = aggregates_[iteration % aggregates_.size()];
        return aggregate ? std::min(aggregate->added_rows(), row_count()) : 0;
    }

    /// As many as it lists, counted.
    [[nodiscard]] size_t aggregated_rows(uint64_t iteration) noexcept {
        std::optional<Aggregate>& aggregate = aggregate_of(iteration);
        return aggregate ? aggregate->count_touched() : 0;
    }

    /// The keys of rows that have some. The first time, as list_aggregated().
    void find_keys(std::span<const uint32_t> rows, std::vector<uint64_t>& keys);
    /// Forgets what was aggregated: the iteration has failed.
    void drop_aggregate(uint64_t iteration) noexcept;

    /// Limit of the values that fill_some() makes.
    static constexpr size_t kFilledValuesMax = size_t{1} << 15;

    /// New rows of a dense table have random initial values only when they were filled, or written by
    /// take(): makes up to kFilledValuesMax values of rows of `positions`. Returns whether more are to
    /// be made; until then these rows are to be used for nothing but take().
    bool fill_some(const PositionSet& positions = PositionSet::whole_ring());

    /// Rows that are not filled yet.
    [[nodiscard]] size_t unfilled_rows() const noexcept {
        const auto* const dense = std::get_if<DenseStore>(&*store_);
        return dense == nullptr ? 0 : dense->unfilled_rows();
    }

    // Rows that move. A table holds the rows of a set of positions, as their primary or for
    // another reason. A row has the values and the state that row_layout() says.

    [[nodiscard]] const PositionSet& held() const noexcept { return owned_; }

    /// From now on rows_for_push(), rows_for_pull() and known_rows() find rows of these positions
    /// only, all of which are held; at first, all that are. Forgets the key lists that touch others.
    void serve(const PositionSet& positions);

    /// Finds up to `row_count_max` rows of `positions`, from `cursor` on, in a bounded time, and
    /// moves the cursor on: none may be found although more follow. A walk from KeyCursor{} to
    /// at_end finds every row once that was there all the time, and every other row once or not
    /// at all. Any cursor is safe. Empty rows are left out.
    void list(KeyCursor& cursor, const PositionSet& positions, size_t row_count_max,
              ListedRows& listed) const;
    /// As list(), of a sparse table, in the order of its rows in memory, which is several times as fast.
    /// `cursor.next` is a row. The first calls may list nothing: they note the keys of the rows, 8 bytes each. Rows
    /// that were dropped and made again may be missed, or come twice. False: there is no memory for the keys, or
    /// there was none since the cursor was made.
    [[nodiscard]] bool list_by_row(KeyCursor& cursor, const PositionSet& positions,
                                   size_t row_count_max, ListedRows& listed);
    /// Of what list_by_row() has found.
    /// Shape:   out.size() == listed.row_count() * sizeof(uint64_t)
    void copy_keys(const ListedRows& listed, std::span<std::byte> out) const;
    /// Shape:   out.size() == listed.row_count() * row_layout().value_bytes(), or of state_bytes
    void copy_values(const ListedRows& listed, std::span<std::byte> out) const;
    void copy_state(const ListedRows& listed, std::span<std::byte> out) const;
    /// Of an erasable table: out.size() == listed.row_count() * 4.
    void copy_stamps(const ListedRows& listed, std::span<std::byte> out) const;
    /// The same of rows of a RowList.
    void copy_values(std::span<const uint32_t> rows, std::span<std::byte> out) const;
    void copy_state(std::span<const uint32_t> rows, std::span<std::byte> out) const;

    /// Whether the last rows_for_push() or rows_to_take() has made the row, also if it failed in the end.
    [[nodiscard]] bool was_made(uint32_t row) const noexcept {
        const auto* const sparse = std::get_if<SparseStore>(&*store_);
        return sparse != nullptr && sparse->was_made(row);
    }

    // All rows as of one instant, while the table goes on.

    /// Keeps the rows as they are now, until take_snapshot(). There must be none.
    /// Errors: Errc::kNoMemory
    [[nodiscard]] Status keep_snapshot();

    /// Keeps them no longer. What it returns is only to be destroyed, by any thread.
    [[nodiscard]] std::unique_ptr<KeptRows> take_snapshot() noexcept { return std::move(kept_); }

    [[nodiscard]] bool has_snapshot() const noexcept { return kept_ != nullptr; }

    /// Whether what is read is not as it was: memory was short, or rows were dropped meanwhile.
    [[nodiscard]] bool is_snapshot_spoilt() const noexcept { return kept_->is_spoilt(); }

    /// As list(), of the rows that were there; each is to be read once, at once.
    void list_snapshot(KeyCursor& cursor, const PositionSet& positions, size_t row_count_max,
                       ListedRows& listed) const;
    /// Shape:   as copy_values() and copy_state()
    void read_snapshot(const ListedRows& listed, std::span<std::byte> values,
                       std::span<std::byte> state);

    /// Writes rows that come from elsewhere. Keys may be in any order; of equal ones, any counts.
    /// Errors: as push(); rows of the first keys may be written then
    [[nodiscard]] Status take(KeyRange keys, std::span<const std::byte> values,
                              std::span<const std::byte> state);
    [[nodiscard]] Status take(std::span<const uint64_t> keys, std::span<const std::byte> values,
                              std::span<const std::byte> state);
    /// Whether the state of rows that come from elsewhere says that some are empty: they are to be taken by their
    /// keys, and make no row.
    [[nodiscard]] bool has_empty(std::span<const std::byte> state) const noexcept;
    /// The same of rows that one of the next two has found; none is empty.
    [[nodiscard]] Status take(const RowList& list, std::span<const std::byte> values,
                              std::span<const std::byte> state);
    /// As rows_for_push() and known_rows(), of any rows that are held. Lists that this remembers are
    /// not known for other purposes.
    [[nodiscard]] Result<RowList> rows_to_take(std::span<const uint64_t> keys);
    [[nodiscard]] Result<RowList> known_rows_to_take(const ListId& id);

    /// Does a bounded part of what hold() of these positions would take long for. Returns whether
    /// it did: then call it again before. `bytes` is the memory that other tables are to take
    /// from the same Memory before; what this one takes is added to it.
    bool prepare(const PositionSet& positions, size_t& bytes);
    /// Holds these positions, too; their rows are as if never written, once they are filled. They are not
    /// served yet.
    /// Finishes drop_some() first.
    /// Errors: Errc::kNoMemory, Errc::kInvalidArgument as make(); nothing has changed
    [[nodiscard]] Status hold(const PositionSet& positions);
    /// Holds these positions no more: refuses their keys from now on, and forgets the key lists
    /// that touch them. Nobody may still use a RowList or values() of such a row, and nothing may
    /// be aggregated. A dense table gives the memory back at once, a sparse one by drop_some().
    void give_up(const PositionSet& positions);
    /// Drops some rows that were given up, in a bounded time; their room is used again. Returns
    /// whether more are left.
    bool drop_some();

    /// Forgets all key lists: the table goes.
    void forget_lists() noexcept { forget_lists(PositionSlices::whole_ring()); }

private:
    /// For whom rows are found: workers name keys that are served, streams any that are held.
    enum class For : uint8_t { kPush, kPull, kStream };

    /// Keys are read in blocks that stay in cache. A list that fits into one block is read once,
    /// a longer one twice.
    static constexpr size_t kBlockKeys = 16384;

    TableShard(const TableSchema& schema, const PositionSet& owned, const RuleEntry& rule,
               Memory& memory, KnownLists& lists, std::optional<uint64_t> secret_seed);
    [[nodiscard]] Status make_store(Memory& memory, const RuleEntry& rule, const PositionSet& owned,
                                    std::optional<uint64_t> secret_seed);

    [[nodiscard]] Result<RowList> rows_of(std::span<const uint64_t> keys, For use,
                                          const SegmentList* held = nullptr);
    [[nodiscard]] Result<RowList> known_rows(const ListId& id, For use, const SegmentList* held);

    /// Of the lists in the cache: those that workers know and those of streams are apart.
    [[nodiscard]] uint32_t lists_of(For use) const noexcept {
        return use == For::kStream ? ~schema_.id : schema_.id;
    }

    [[nodiscard]] static RowList remembered(KnownLists::Entry list);
    void forget_lists(const PositionSlices& positions) noexcept;

    /// What the keys of a list are looked up for.
    struct LookUp {
        For use = For::kPush;
        bool remembers = false;             ///< notes their positions
        const SegmentList* held = nullptr;  ///< marks their segments of it
    };

    [[nodiscard]] Result<size_t> look_up(std::span<const uint64_t> keys, const ListId& id,
                                         const LookUp& how, std::span<uint32_t> rows);
    [[nodiscard]] Result<size_t> look_up_block(std::span<const uint64_t> block, bool create,
                                               std::span<uint32_t> rows);
    [[nodiscard]] std::span<const uint64_t> copy_block(std::span<const uint64_t> keys);
    [[nodiscard]] Result<std::span<const uint64_t>> read_block(std::span<const uint64_t> keys,
                                                               size_t begin, For use);
    [[nodiscard]] Result<ListId> read_list(std::span<const uint64_t> keys, For use);
    [[nodiscard]] Result<uint32_t> range_row(KeyRange keys) const;
    /// Calls use(row, row_count, offset) for the part of `keys` in each extent; `offset` is where its
    /// values begin, in bytes, among those of all. Calls nothing if not all keys are held.
    template <class Use>
    [[nodiscard]] Status for_extents(KeyRange keys, size_t row_bytes, Use&& use) const;
    [[nodiscard]] Status check_pushed(uint64_t key_count, std::span<const std::byte> pushed) const;
    [[nodiscard]] Status check_held(std::span<const uint64_t> block) const;
    [[nodiscard]] Status check_served(std::span<const uint64_t> block) const;
    [[nodiscard]] Status check_whole(size_t row_count, size_t bytes) const;
    void list_all(KeyCursor& cursor, const PositionSet& positions, size_t row_count_max,
                  ListedRows& listed) const;
    void leave_out_empty(ListedRows& listed) const;
    [[nodiscard]] bool is_below(uint32_t row, double bound) const;
    void reset(std::span<const uint32_t> rows);
    void put(std::span<const uint32_t> rows, const std::byte* values, const std::byte* state);
    [[nodiscard]] Status take_with_empty(std::span<const uint64_t> keys, const std::byte* values,
                                         const std::byte* state);
    [[nodiscard]] bool has_many_empty() const noexcept;
    [[nodiscard]] bool is_in_a_sum(uint32_t row) const noexcept;

    [[nodiscard]] RowStamps stamps() const { return {target(), layout_}; }

    [[nodiscard]] Status check_taken(uint64_t key_count, std::span<const std::byte> values,
                                     std::span<const std::byte> state) const;
    void forget_made() noexcept;
    void own(const PositionSet& positions);
    void touch(std::span<const uint64_t> keys) noexcept;
    void mark(std::span<const uint64_t> keys, const SegmentList& held);
    // functions/run_function.cc
    class RowsTogether;
    template <class Run>
    void run_function(const FunctionCall& call, Run&& run) const;
    template <class Use>
    void for_runs(KeyRange keys, const FunctionCall& call, Use&& use) const;
    template <class Use>
    void for_blocks_of_run(KeyRange keys, const FunctionCall& call, Use&& use) const;
    [[nodiscard]] bool runs_in_place(const FunctionCall& call) const noexcept;
    [[nodiscard]] Status check_all_held(KeyRange keys, const FunctionCall& call) const;
    void change_range(KeyRange keys, const FunctionCall& call);
    void read_range(KeyRange keys, const FunctionCall& call, FunctionResult& result) const;
    void read_listed(const ListedRows& listed, const FunctionCall& call,
                     FunctionResult& result) const;

    [[nodiscard]] Error refused(Errc code, std::string_view why) const;
    [[nodiscard]] RowTarget target() const;
    [[nodiscard]] Aggregate& make_aggregate(uint64_t iteration,
                                            const RuleArguments* arguments = nullptr);
    [[nodiscard]] Status reserve_window(const PositionSet& owned);

    [[nodiscard]] std::optional<Aggregate>& aggregate_of(uint64_t iteration) noexcept {
        return aggregates_[iteration % aggregates_.size()];
    }

    TableSchema schema_;
    const RuleEntry& rule_entry_;
    Memory& memory_;
    const ValueCodec* codec_ = nullptr;  ///< that it names
    RowLayout layout_;
    Combine combine_;
    InitialRows initial_rows_;
    RuleRunner rule_;
    size_t pulled_row_bytes_;  ///< layout_'s, for the way of every push and pull
    size_t pushed_row_bytes_;
    PositionSet owned_;
    bool owns_all_;
    PositionSet served_;
    bool serves_held_ = true;               ///< all of it
    std::optional<KeyCursor> drop_cursor_;  // of rows outside of owned_
    std::optional<std::variant<DenseStore, SparseStore>> store_;
    std::unique_ptr<KeptRows> kept_;  ///< of the snapshot, if there is one

    // Of an erasable table.
    size_t written_ = 0;     ///< rows that are not empty
    size_t left_empty_ = 0;  ///< by the last walk of the vacuum, as sums are open

    /// A walk of the vacuum.
    struct Vacuum {
        KeyCursor cursor{};
        size_t row_count = 0;  ///< when it began
        size_t left = 0;       ///< empty rows of which there is a sum
    };

    std::optional<Vacuum> vacuum_;
    std::vector<uint32_t> some_rows_;  ///< kept for their memory, as what follows
    std::vector<uint64_t> some_keys_;

    KnownLists& lists_;
    std::vector<std::optional<Aggregate>> aggregates_;  ///< schema_.window()

    ListHasher hasher_;
    PositionSlices touched_;              // by the list that is being looked up
    std::vector<uint64_t> block_;         // a copy of keys, which no peer can change
    std::vector<uint32_t> scratch_rows_;  // of lists that are not remembered
    std::vector<uint64_t> missing_;       // RowList::missing of the last list
    std::vector<uint32_t> chosen_rows_;   // of kept_rows()
};

template <class Use>
Status TableShard::for_extents(KeyRange keys, size_t row_bytes, Use&& use) const {
    const auto* dense = std::get_if<DenseStore>(&*store_);
    if (dense == nullptr || !keys.well_formed() || keys.empty()) return range_row(keys).error();
    for (uint64_t key = keys.begin; key < keys.end;) {
        const KeyRange extent = dense->range_of(key);
        if (extent.empty()) return range_row({key, keys.end}).error();
        key = extent.end;
    }
    for (uint64_t key = keys.begin; key < keys.end;) {
        const KeyRange part{key, std::min(keys.end, dense->range_of(key).end)};
        WEIR_TRY(use(*dense->first_row(part), part.key_count(), (key - keys.begin) * row_bytes));
        key = part.end;
    }
    return {};
}

}  // namespace weir
