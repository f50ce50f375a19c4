// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Table<T>: typed push and pull. Buffer<T>: registered memory for the values.

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_batch.h"
#include "lib/key/key_range.h"
#include "lib/key/key_span.h"
#include "lib/key/value_type.h"
#include "lib/store/table_schema.h"
#include "lib/task/task_id.h"
#include "lib/worker/client.h"
#include "lib/worker/function_options.h"
#include "lib/worker/scan.h"
#include "lib/worker/several_tables.h"
#include "lib/worker/table_access.h"

namespace weir {

/// `size()` values in registered memory, from which large pushes and into which large pulls need
/// no copy. It is a contiguous range, so it converts to std::span.
template <KeptValue T>
class Buffer {
public:
    Buffer() = default;

    Buffer(Buffer&& other) noexcept
        : memory_(std::exchange(other.memory_, {})), values_(std::exchange(other.values_, {})) {}

    Buffer& operator=(Buffer&& other) noexcept {
        memory_ = std::exchange(other.memory_, {});
        values_ = std::exchange(other.values_, {});
        return *this;
    }

    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() = default;

    [[nodiscard]] T* data() noexcept { return values_.data(); }

    [[nodiscard]] const T* data() const noexcept { return values_.data(); }

    [[nodiscard]] size_t size() const noexcept { return values_.size(); }

    [[nodiscard]] T& operator[](size_t i) noexcept { return values_[i]; }

    [[nodiscard]] const T& operator[](size_t i) const noexcept { return values_[i]; }

    [[nodiscard]] T* begin() noexcept { return data(); }

    [[nodiscard]] T* end() noexcept { return data() + size(); }

    [[nodiscard]] const T* begin() const noexcept { return data(); }

    [[nodiscard]] const T* end() const noexcept { return data() + size(); }

    [[nodiscard]] std::span<T> span() & noexcept { return values_; }

    [[nodiscard]] std::span<const T> span() const& noexcept { return values_; }

    void span() && = delete;  // the buffer would end before what uses it

private:
    friend class Client;

    Buffer(std::shared_ptr<std::byte> memory, size_t count) noexcept
        : memory_(std::move(memory)), values_(reinterpret_cast<T*>(memory_.get()), count) {}

    std::shared_ptr<std::byte> memory_;
    std::span<T> values_;
};

/// Options of one push.
struct PushOptions {
    /// If set, the servers combine all workers' pushes of this iteration and then run the table's
    /// rule once. The push ends when the rule has run. Iterations of a table count from 1. Every
    /// worker pushes exactly once in each of them, one after the other; it may push an empty
    /// list. Any number but the next is refused at once. A push need not wait for the end of the
    /// one before; if the table has a max_delay, no more than max_delay + 1 may be under way,
    /// else no more than 64.
    std::optional<uint64_t> iteration = std::nullopt;
    /// How long the call may take from now, also while it waits for `after`; if that is over before
    /// the call has started, nothing is sent. Negative: it is over already.
    ///
    /// 0: a call that names no iteration may take WEIR_DEADLINE_MS from when it has started. One that
    /// names an iteration waits for other workers' computation, for as long as that takes: it still
    /// fails at once when a worker dies, and with kDeadline when a server gives no sign of life for
    /// WEIR_DEADLINE_MS.
    std::chrono::nanoseconds deadline{0};
    /// Tasks of this client that must have finished before the push starts; they need not have
    /// when the call is made. If one fails, the push is not started and ends with that error,
    /// which names the task. What has been taken by Task::wait() counts as finished without an
    /// error: the caller has handled it. The values, but not their number, may change until the
    /// push starts. A push of a later iteration of the table starts after this one has.
    std::vector<TaskId> after = {};
    /// Of the table's rule, such as {{"rate", 0.1}}: numbers that may differ from push to push. What is
    /// not named is as the table's parameters say. All workers push the same ones in an iteration; else it
    /// fails for all with kDifferentArguments, which names two of them. Names are read before the call
    /// returns.
    /// Errors: kInvalidArgument: the rule has no such argument, or takes no such number; or one is
    ///         named twice
    std::vector<NamedNumber> arguments = {};
    /// Of an erasable table: when its rows are used by this push, on a clock of the caller's, for expire(). A row
    /// keeps the greatest stamp that it has got. Without one it is 1; of an iteration it is the number of that.
    /// Errors: kInvalidArgument: 0, with an iteration, or if the table is not erasable
    std::optional<uint32_t> stamp = std::nullopt;
    /// In place of those of the table (TableOptions::filters); Filters(): none, for this push.
    /// Errors: kInvalidArgument, kTypeMismatch: the table cannot have them
    std::optional<Filters> filters = std::nullopt;
};

/// Options of one pull.
struct PullOptions {
    /// If set, waits until this iteration's rule has run, and returns the values after it, or
    /// after a later one. Without it, the pull does not wait. Task::iteration_shown() says which
    /// one the values show. 0, and an iteration that this worker has not pushed yet, are refused at
    /// once.
    std::optional<uint64_t> iteration = std::nullopt;
    std::chrono::nanoseconds deadline{0};  ///< as PushOptions::deadline
    std::vector<TaskId> after = {};        ///< as PushOptions::after
    /// As PushOptions::filters: their codecs, in which the servers may send the values.
    std::optional<Filters> filters = std::nullopt;
};

/// The values of a range, such as a vector, a span or a Buffer.
template <class R>
using NarrowOf = typename decltype(std::span(std::declval<R&>()))::element_type;

/// std::vector<BFloat16>, std::span<Float16>, Buffer<BFloat16>, ...; no temporary that owns its values.
template <class R>
concept NarrowRange = NarrowValue<NarrowOf<R>> && Lasting<R>;

/// A handle of a table; cheap to copy. Keys are sorted and unique, in any contiguous range of
/// 64-bit integers; KeyBatch makes such keys from others. Keys, values, and the memory that a
/// pull fills must stay valid and unchanged until the task has ended: temporaries that own them do
/// not compile.
///
/// Thread: the client's
template <Value T>
class Table {
public:
    /// Starts a push: the servers run the table's rule with `values` on `keys`.
    ///
    /// Shape:   values.size() == keys.size() * pushed_width(), row per key
    /// Errors:  through the task, see Task::wait
    Task push(KeySpan keys, ValueSpan<const T> values, const PushOptions& options = {}) {
        return task(access::push(*state_, *info_, keys.span(), std::as_bytes(values.span()),
                                 access_options(options)));
    }

    /// Two numbers in braces could be keys or a range: write KeyRange{begin, end}, or name the keys.
    Task push(std::initializer_list<uint64_t> keys_or_range, ValueSpan<const T> values,
              const PushOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    Task push(KeyRange keys, ValueSpan<const T> values, const PushOptions& options = {}) {
        return task(access::push(*state_, *info_, keys, std::as_bytes(values.span()),
                                 access_options(options)));
    }

    /// Starts a pull: writes the values of `keys` to `out`. A key that was never pushed reads as
    /// the table's initial value.
    ///
    /// Shape:   out.size() == keys.size() * width(), row per key
    /// Errors:  through the task, see Task::wait
    Task pull(KeySpan keys, ValueSpan<T> out, const PullOptions& options = {}) {
        return task(access::pull(*state_, *info_, keys.span(), std::as_writable_bytes(out.span()),
                                 access_options(options)));
    }

    /// As for push().
    Task pull(std::initializer_list<uint64_t> keys_or_range, ValueSpan<T> out,
              const PullOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    Task pull(KeyRange keys, ValueSpan<T> out, const PullOptions& options = {}) {
        return task(access::pull(*state_, *info_, keys, std::as_writable_bytes(out.span()),
                                 access_options(options)));
    }

    /// Starts a push, and a pull of the same keys that shows it: one message, where two calls take two.
    /// With an iteration, the values are those after it. `values` and `out` are two buffers.
    ///
    /// Shape:   values as for push(), out as for pull()
    /// Errors:  through the task: as push() and pull(). The push may have been applied whatever the error
    Task push_pull(KeySpan keys, ValueSpan<const T> values, ValueSpan<T> out,
                   const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushPull, keys);
        return start(with(item, values, out), options);
    }

    /// As for push().
    Task push_pull(std::initializer_list<uint64_t> keys_or_range, ValueSpan<const T> values,
                   ValueSpan<T> out, const PushOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    Task push_pull(KeyRange keys, ValueSpan<const T> values, ValueSpan<T> out,
                   const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushPull, keys);
        return start(with(item, values, out), options);
    }

    /// Starts a push of a product of two matrices, of `rank` terms a value: key i gets left[i][0] * right[0] +
    /// left[i][1] * right[1] + ..., where right[r] is a row of pushed_width() values. The matrices travel, and
    /// servers multiply them out: always to the same bits, each product and sum rounded in this order. So
    /// gradients of a layer, activations times errors, take rank * (keys + width) values, not keys * width.
    /// Filters that select are left out.
    ///
    /// Shape:   left.size() == keys.size() * rank, right.size() == rank * pushed_width()
    /// Errors:  through the task: as push(); kTypeMismatch if the table is none of floats; kInvalidArgument
    ///          for more than 2^26 products a key
    /// Source:  Chilimbi et al., OSDI 2014, section 4.3
    Task push_factors(KeySpan keys, ValueSpan<const T> left, ValueSpan<const T> right,
                      const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushFactors, keys);
        item.right = std::as_bytes(right.span());
        return start(with(item, left, {}), options);
    }

    /// As for push().
    Task push_factors(std::initializer_list<uint64_t> keys_or_range, ValueSpan<const T> left,
                      ValueSpan<const T> right, const PushOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    Task push_factors(KeyRange keys, ValueSpan<const T> left, ValueSpan<const T> right,
                      const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushFactors, keys);
        item.right = std::as_bytes(right.span());
        return start(with(item, left, {}), options);
    }

    // The keys of a batch as they came, in any order and with duplicates: each has a row in `values` and
    // `out`. What is pushed for a key that came several times is combined as the rule combines workers
    // (TableOptions::combine counts between workers only): mostly summed, of "assign" the last one counts, of
    // "mean" it is the mean. The batch keeps registered memory for its rows; it must live, and not be
    // assigned anew, until the task has ended.

    Task push(KeyBatch& batch, ValueSpan<const T> values, const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPush, batch);
        return start(with(item, values, {}), options);
    }

    Task pull(KeyBatch& batch, ValueSpan<T> out, const PullOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPull, batch);
        return start(with(item, {}, out), options);
    }

    Task push_pull(KeyBatch& batch, ValueSpan<const T> values, ValueSpan<T> out,
                   const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushPull, batch);
        return start(with(item, values, out), options);
    }

    /// Asks which keys of a sparse table were ever pushed: `out` has 1 for each that was, else 0.
    ///
    /// Shape:   out.size() == keys.size()
    /// Errors:  through the task: kInvalidArgument if the table is dense; as pull()
    Task contains(KeySpan keys, ValueSpan<uint8_t> out, const PullOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kContains, keys);
        item.out = std::as_writable_bytes(out.span());
        return start(item, options);
    }

    Task contains(KeyBatch& batch, ValueSpan<uint8_t> out, const PullOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kContains, batch);
        item.out = std::as_writable_bytes(out.span());
        return start(item, options);
    }

    // What this table does in a push or pull of several: Client::push(), Client::pull(). `arguments`: as
    // PushOptions::arguments.

    Pushing pushing(KeySpan keys, ValueSpan<const T> values,
                    std::vector<NamedNumber> arguments = {}) {
        return pushing_of(keys, values, std::move(arguments));
    }

    Pushing pushing(KeyRange keys, ValueSpan<const T> values,
                    std::vector<NamedNumber> arguments = {}) {
        return pushing_of(keys, values, std::move(arguments));
    }

    Pushing pushing(KeyBatch& batch, ValueSpan<const T> values,
                    std::vector<NamedNumber> arguments = {}) {
        return pushing_of(batch, values, std::move(arguments));
    }

    Pulling pulling(KeySpan keys, ValueSpan<T> out) { return pulling_of(keys, out); }

    Pulling pulling(KeyRange keys, ValueSpan<T> out) { return pulling_of(keys, out); }

    Pulling pulling(KeyBatch& batch, ValueSpan<T> out) { return pulling_of(batch, out); }

    Pushing pushing(std::initializer_list<uint64_t> keys_or_range, ValueSpan<const T> values,
                    std::vector<NamedNumber> arguments = {}) = delete;
    Pulling pulling(std::initializer_list<uint64_t> keys_or_range, ValueSpan<T> out) = delete;

    /// Starts a pull of whole rows: of each key its width() values, then the state that the table's rule
    /// keeps beside them (state_bytes()). As pull() otherwise; the state of a key
    /// that was never pushed is the initial one.
    ///
    /// Shape:   out.size() == keys.size() * row_bytes(), row per key
    Task pull_rows(KeySpan keys, ValueSpan<std::byte> out, const PullOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPullRows, keys);
        item.out = out.span();
        return start(item, options);
    }

    /// As for push().
    Task pull_rows(std::initializer_list<uint64_t> keys_or_range, ValueSpan<std::byte> out,
                   const PullOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    Task pull_rows(KeyRange keys, ValueSpan<std::byte> out, const PullOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPullRows, keys);
        item.out = out.span();
        return start(item, options);
    }

    /// Starts a push that puts `rows`, as pull_rows() brings them, in the place of what is there. The rule
    /// does not run. It takes effect once, in the order of this client's pushes, as each push does.
    ///
    /// Errors:  as push(); kInvalidArgument with an iteration, or with arguments of the rule
    Task push_rows(KeySpan keys, ValueSpan<const std::byte> rows, const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushRows, keys);
        item.values = rows.span();
        return start(item, options);
    }

    /// As for push().
    Task push_rows(std::initializer_list<uint64_t> keys_or_range, ValueSpan<const std::byte> rows,
                   const PushOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    Task push_rows(KeyRange keys, ValueSpan<const std::byte> rows,
                   const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kPushRows, keys);
        item.values = rows.span();
        return start(item, options);
    }

    /// Starts to erase rows of an erasable table: these keys are then as if never pushed. It takes effect once, in
    /// the order of this client's pushes. What the workers have pushed to an iteration that is open comes later.
    ///
    /// Errors:  as push(); kInvalidArgument if the table is not erasable (dense ones never are), or with an
    ///          iteration, arguments or a stamp
    Task erase(KeySpan keys, const PushOptions& options = {}) {
        return start(item_of(access::Item::Kind::kErase, keys), options);
    }

    /// As for push().
    Task erase(std::initializer_list<uint64_t> keys_or_range,
               const PushOptions& options = {}) = delete;

    /// The keys of a batch, which must live until the task has ended.
    Task erase(KeyBatch& batch, const PushOptions& options = {}) {
        return start(item_of(access::Item::Kind::kErase, batch), options);
    }

    /// Starts to erase those of `keys` whose rows have a stamp below `before`. Servers judge it when it takes effect: a
    /// push that came before it keeps its row.
    ///
    /// Errors:  as erase(); kInvalidArgument if `before` is 0
    Task expire(KeySpan keys, uint32_t before, const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kErase, keys);
        item.before = before;
        return start(item, options);
    }

    /// As for push().
    Task expire(std::initializer_list<uint64_t> keys_or_range, uint32_t before,
                const PushOptions& options = {}) = delete;

    /// The keys of a batch, which must live until the task has ended.
    Task expire(KeyBatch& batch, uint32_t before, const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kErase, batch);
        item.before = before;
        return start(item, options);
    }

    // Functions: code that runs on servers, on rows where they lie.

    /// Starts a function on the rows of all keys. One that changes rows takes effect once, in the order of this
    /// client's pushes, as a push of no values; the keys of a sparse table it needs as a list. One that reads
    /// gives FunctionOptions::result.
    ///
    /// Errors: through the task: as push(); kNotFound: no such function, kInvalidArgument, kTypeMismatch: numbers
    ///         and tables that it does not take; kUnavailable: a server does not have it
    Task call(std::string_view function, const FunctionOptions& options = {}) {
        return task(access::call(state_, *info_, function, {}, options));
    }

    /// On the rows of these keys, in a sparse table also on those that are not there yet; of a function that
    /// changes.
    Task call(std::string_view function, KeySpan keys, const FunctionOptions& options = {}) {
        return task(access::call(state_, *info_, function, {.keys = keys.span()}, options));
    }

    /// As for push().
    template <std::integral Key>
    Task call(std::string_view function, std::initializer_list<Key> keys_or_range,
              const FunctionOptions& options = {}) = delete;

    /// On the rows of a range: of a dense table, or to read those of a sparse one.
    Task call(std::string_view function, KeyRange keys, const FunctionOptions& options = {}) {
        return task(access::call(state_, *info_, function, {.range = keys}, options));
    }

    /// On the keys of a batch, each once, which must live until the task has ended.
    Task call(std::string_view function, KeyBatch& batch, const FunctionOptions& options = {}) {
        return task(access::call(state_, *info_, function, {.batch = &batch}, options));
    }

    /// The first number that a function finds which reads all rows: waits for it.
    /// Errors: as Task::wait()
    [[nodiscard]] Result<double> number(std::string_view function, FunctionOptions options = {}) {
        CallResult result;
        options.result = &result;
        WEIR_TRY(call(function, options).wait());
        if (!result.numbers.empty()) return result.numbers.front();
        return Error(Errc::kInvalidArgument, "a function that found no number");
    }

    /// Starts to erase those of `keys` whose values are all smaller in size than `below`. Servers judge it when it takes
    /// effect. weir::prune() finds the keys.
    ///
    /// Errors:  as erase(); kInvalidArgument if `below` is not greater than 0
    Task prune(KeySpan keys, double below, const PushOptions& options = {}) {
        access::Item item = item_of(access::Item::Kind::kErase, keys);
        item.below = below;
        return start(item, options);
    }

    /// As for push().
    Task prune(std::initializer_list<uint64_t> keys_or_range, double below,
               const PushOptions& options = {}) = delete;

    /// pull() of what a table with TableOptions::store_as keeps, as it is: `out` is a range of BFloat16 or
    /// of Float16. Into a registered one, such as a Buffer<BFloat16>, nothing is copied.
    /// Errors:  also kTypeMismatch: the table keeps another type
    template <NarrowRange Out>
    Task pull_narrow(KeySpan keys, Out&& out, const PullOptions& options = {}) {
        return task(access::pull(*state_, *info_, keys.span(), bytes_of(std::forward<Out>(out)),
                                 narrow_options<Out>(options)));
    }

    /// As for push().
    template <NarrowRange Out>
    Task pull_narrow(std::initializer_list<uint64_t> keys_or_range, Out&& out,
                     const PullOptions& options = {}) = delete;

    /// The same for all keys of a range of a dense table.
    template <NarrowRange Out>
    Task pull_narrow(KeyRange keys, Out&& out, const PullOptions& options = {}) {
        return task(access::pull(*state_, *info_, keys, bytes_of(std::forward<Out>(out)),
                                 narrow_options<Out>(options)));
    }

    /// Reads out the table, piece by piece; Scan says how.
    Scan<T> scan(const ScanOptions& options = {}) {
        return Scan<T>(std::make_unique<TableScan>(state_, info_, options));
    }

    [[nodiscard]] const TableSchema& schema() const noexcept { return access::schema(*info_); }

    [[nodiscard]] uint32_t width() const noexcept { return schema().width; }

    /// Values per key in a push: width() times the number that the rule needs for each value
    /// (prox_l1: 2).
    [[nodiscard]] size_t pushed_width() const noexcept {
        return access::pushed_row_bytes(*info_) / sizeof(T);
    }

    /// What the rule keeps beside the values of a key. 0: nothing.
    [[nodiscard]] size_t state_bytes() const noexcept { return access::state_bytes(*info_); }

    /// Of a row as pull_rows() brings it.
    [[nodiscard]] size_t row_bytes() const noexcept {
        return width() * size_of(schema().value_type) + state_bytes();
    }

    /// What PushOptions::iteration of this worker's next push of an iteration has to be: 1 at
    /// first; for a worker that joined a running job, the first iteration in which it takes part.
    /// Nothing if it takes part in none (JoinOptions::has_iterations).
    [[nodiscard]] std::optional<uint64_t> next_iteration() const {
        return access::next_iteration(*state_, *info_);
    }

    /// From now on, this client's pushes and pulls that name no filters go through these; Filters(): through
    /// none. What is held back stays so: Client::flush().
    /// Errors: kInvalidArgument, kTypeMismatch: the table cannot have them; nothing has changed
    [[nodiscard]] Status set_filters(const Filters& filters) {
        return access::set_filters(*state_, *info_, filters);
    }

private:
    friend class Client;
    friend class Iterations;
    friend class OtherTables;

    Table(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info) noexcept
        : state_(std::move(state)), info_(std::move(info)) {}

    template <class Options>
    [[nodiscard]] static access::Options access_options(const Options& options) noexcept {
        access::Options given{options.iteration, options.deadline, options.after};
        if constexpr (requires { options.arguments; }) {
            given.arguments = options.arguments;
            given.stamp = options.stamp;
        }
        if (options.filters) given.filters = &*options.filters;
        return given;
    }

    template <class Keys>
    [[nodiscard]] access::Item item_of(access::Item::Kind kind, Keys& keys) const {
        access::Item item;
        item.table = info_.get();
        item.kind = kind;
        if constexpr (std::is_same_v<std::remove_const_t<Keys>, KeyRange>) {
            item.is_range = true;
            item.range = keys;
        } else if constexpr (std::is_same_v<Keys, KeyBatch>) {
            item.batch = &keys;
        } else {
            item.keys = keys.span();
        }
        return item;
    }

    [[nodiscard]] static access::Item with(access::Item item, ValueSpan<const T> values,
                                           ValueSpan<T> out) noexcept {
        item.values = std::as_bytes(values.span());
        item.out = std::as_writable_bytes(out.span());
        return item;
    }

    template <class Options>
    Task start(access::Item item, const Options& options) const {
        const access::Options given = access_options(options);
        item.arguments = given.arguments;
        return task(access::start(state_, std::span(&item, 1), given));
    }

    template <class Keys>
    Pushing pushing_of(Keys& keys, ValueSpan<const T> values, std::vector<NamedNumber> arguments) {
        return {state_.get(), with(item_of(access::Item::Kind::kPush, keys), values, {}),
                std::move(arguments)};
    }

    template <class Keys>
    Pulling pulling_of(Keys& keys, ValueSpan<T> out) {
        return {state_.get(), with(item_of(access::Item::Kind::kPull, keys), {}, out)};
    }

    template <class Out>
    [[nodiscard]] static std::span<std::byte> bytes_of(Out&& out) noexcept {
        const ValueSpan<NarrowOf<Out>> values(std::forward<Out>(out));
        return std::as_writable_bytes(values.span());
    }

    template <class Out>
    [[nodiscard]] static access::Options narrow_options(const PullOptions& options) noexcept {
        access::Options given = access_options(options);
        given.out_type = value_type_of<NarrowOf<Out>>();
        return given;
    }

    /// Takes its reference to the state only now, when the requests are already on their way.
    Task task(uint64_t call) const {
        return call == access::kNoTurn ? Task(access::no_turn()) : Task(state_, call);
    }

    std::shared_ptr<ClientState> state_;
    std::shared_ptr<const TableInfo> info_;
};

template <Value T>
Result<Table<T>> Client::create_table(std::string_view name, const TableOptions& options,
                                      std::span<const TaskId> after) {
    auto info = access::create_table(*state_, name, value_type_of<T>(), options, after);
    if (!info) return std::move(info).error();
    return Table<T>(state_, std::move(*info));
}

template <Value T>
Result<Table<T>> Client::open_table(std::string_view name, uint32_t width,
                                    std::span<const TaskId> after) {
    auto info = access::open_table(*state_, name, value_type_of<T>(), width, after);
    if (!info) return std::move(info).error();
    return Table<T>(state_, std::move(*info));
}

template <KeptValue T>
Result<Buffer<T>> Client::make_buffer(size_t count) {
    auto memory = access::allocate(state_, count, sizeof(T));
    if (!memory) return std::move(memory).error();
    return Buffer<T>(std::move(*memory), count);
}

}  // namespace weir
