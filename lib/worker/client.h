// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Client: a worker's access to the tables of its job. Trainers include this header through
/// weir.h.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/filter/filters.h"
#include "lib/key/key_span.h"
#include "lib/key/value_type.h"
#include "lib/store/rules/rules.h"
#include "lib/store/table_schema.h"
#include "lib/task/task_id.h"
#include "lib/wire/filter_traffic.h"
#include "lib/wire/work_share.h"
#include "lib/worker/job_event.h"

namespace weir {

class ClientState;
class Collectives;

/// What Client::allreduce() makes of the workers' values.
enum class Reduce : uint8_t { kSum, kMax, kMin, kMean };

/// Values that a call reads and replaces, such as a vector with a name, a Buffer, or a span.
template <class R>
concept ReplacedValues =
    std::ranges::contiguous_range<R> && Lasting<R> && Value<std::ranges::range_value_t<R>> &&
    !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

namespace access {
struct Options;
}

/// The checkpoint that a job goes on from.
struct ResumedFrom {
    struct SavedTable {
        std::string name;
        uint64_t closed = 0;  ///< the last iteration that is in it
    };

    uint64_t checkpoint = 0;         ///< its number; 0: there is none
    std::vector<SavedTable> tables;  ///< the last made first; of very many only some
};

/// The deadline of calls that wait for other workers' computation (pushes and pulls of iterations,
/// barriers), unless they name one: that may take as long as it likes. If a worker or server dies, or a
/// server stops answering, the call ends long before.
inline constexpr std::chrono::nanoseconds kLongDeadline = std::chrono::hours(24 * 365);

template <Value T>
class Table;
template <KeptValue T>
class Buffer;
class Pulling;
class Pushing;
struct PullOptions;
struct PushOptions;

/// A push or pull that has been started. Its keys and values must stay valid and unchanged until
/// it has ended. Therefore the destructor, and an assignment to the Task, first wait until it has
/// ended, at most until its deadline; that includes what it waits for, and its handlers with
/// their subtasks. Declare a Task after the buffers that it uses: then the
/// function can be left at any point. Tasks does the same for several of them. An error that nobody
/// has asked for by then is logged, once for each table and kind of error, and counted
/// (ClientStats::errors_lost).
///
/// Thread: the client's. While another thread is in the client, the functions that return a Status end
///         with kTwoThreads, test() returns false, and the destructor waits for its turn
class [[nodiscard]] Task {
public:
    Task() = default;

    /// A moved-from Task counts as ended without an error.
    Task(Task&& other) noexcept { *this = std::move(other); }

    Task& operator=(Task&& other) noexcept;

    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

    ~Task() {
        if (state_ != nullptr) finish();
    }

    /// Whether it has ended, with or without an error. If not, polls the client once, which also
    /// advances the client's other calls. Does not block.
    [[nodiscard]] bool test();
    /// Its name, for PushOptions::after of other calls of this client. Names stay valid when the
    /// Task is moved or gone. kNoTask if it is empty, or if its outcome was taken before it was
    /// named.
    [[nodiscard]] TaskId id();

    /// Runs `handler` once with the outcome of the push or pull itself. The calls that the handler
    /// makes become its *subtasks*: it has ended when its handlers have run and its subtasks have
    /// ended, and wait() returns the first error of all of these. Several handlers run in the order
    /// in which they were attached.
    ///
    /// Handlers run on the client's thread, while that is in test(), wait() or another function
    /// that polls or waits; never while another handler runs. A handler may start calls, name
    /// tasks and attach handlers. It must not wait: in a handler wait(), barrier(), leave(),
    /// stats() and the making of tables are refused with kInvalidArgument. It may destroy Tasks
    /// and assign to them, also its own, but not one whose function is running, nor the Client. A
    /// Task that is destroyed in a handler is cancelled if it has not started yet, and else only
    /// its requests are waited for; so keep subtasks, for instance in Tasks. A handler must not
    /// throw.
    ///
    /// If it has ended already, or was never started, the calls of the handler are no subtasks.
    /// Handlers that have not run when the Client is destroyed do not run.
    /// Errors: kInvalidArgument if its outcome was taken
    Status then(std::function<void(const Status&)> handler);

    /// Waits until it has ended, at most until its deadline (PushOptions::deadline). Returns the
    /// first error of its requests. After an error it may end while some requests are still open,
    /// but only if none of these needs the caller's memory.
    ///
    /// Errors: kPeerLost names the server or worker, kDeadline the server; kNoMemory;
    ///         kUnavailable after leave(), or if a server may not access the memory; kBusy if too
    ///         many calls or requests are open; kCancelled if a worker withdrew its part of the
    ///         iteration; kInvalidArgument, kOutOfRange, kNotFinite for a mistake of the caller,
    ///         mostly found before anything is sent
    ///
    /// A push that ended with kDeadline or kPeerLost may have been applied, once at most. Once the
    /// call has ended, nothing reads or writes its memory: at its deadline it closes the
    /// connections over which a server still might, and waits for that. Two exceptions: a server
    /// that did not confirm the end of its connection may still do so, and the error text says
    /// that; and any server may after the job has failed. This client does not use such memory
    /// again: it keeps a Buffer aside, and any other memory must stay valid as long as it lives.
    Status wait();
    /// Waits at most `at_most`.
    /// Errors: kDeadline if it has not ended by then (it continues, and can be waited for again);
    ///         else as wait()
    Status wait_for(std::chrono::nanoseconds at_most);
    /// Of a pull that has ended without an error: the iteration that its values show, that is, they
    /// have the pushes of all iterations up to it. If several servers sent them, the oldest that one
    /// of these shows. Nothing if it named none and that server has closed none, for another task,
    /// or for a pull of no keys. If it named none, the death of a server may take back what it shows.
    [[nodiscard]] std::optional<uint64_t> iteration_shown() const noexcept;

private:
    template <Value T>
    friend class Table;
    friend class Client;

    friend class Iterations;
    friend class Tasks;

    Task(std::shared_ptr<ClientState> state, uint64_t call) noexcept
        : state_(std::move(state)), call_(call) {}

    /// Of a call that was not started.
    explicit Task(Error why) : result_(std::move(why)) {}

    [[nodiscard]] bool has_ended() const;
    void finish() noexcept;
    Status take(std::shared_ptr<ClientState>& state);

    std::shared_ptr<ClientState> state_;  ///< null: it has ended, with `result_`
    uint64_t call_ = 0;
    TaskId id_ = kNoTask;  ///< or the name, once it was asked for
    Status result_;
    std::optional<uint64_t> shown_;
};

/// Pushes and pulls that are under way together. As with a Task, the destructor and an assignment
/// wait until all of them have ended: declare it after the buffers that they use.
///
/// Thread: the client's
class Tasks {
public:
    Tasks();
    Tasks(Tasks&& other) noexcept;
    Tasks& operator=(Tasks&& other) noexcept;
    Tasks(const Tasks&) = delete;
    Tasks& operator=(const Tasks&) = delete;

    ~Tasks();

    void add(Task task);
    /// Tasks that were added and have not been taken out by reap(), wait_for_room() or wait().
    [[nodiscard]] size_t count() const noexcept;

    /// Removes the tasks that have ended and returns how many these were. Keeps the first error
    /// for wait(). Does not block; polls the client.
    size_t reap();
    /// Waits until fewer than `count` tasks are under way, oldest first: if each of `count` tasks
    /// has its own buffer, one buffer is then free. Stops at the first error and returns it.
    /// Later calls return it again, until wait() has returned it.
    Status wait_for_room(size_t count);
    /// Waits for all tasks. Returns the first error of the tasks that were added since the last
    /// wait(); further ones are logged and counted as those of a Task that nobody has asked.
    Status wait();

private:
    /// Waits for the oldest task and removes it.
    /// Errors: kInvalidArgument in a handler, if it has not ended
    [[nodiscard]] Status finish_one();
    void keep_error(Task& task);
    void lose_error() noexcept;

    std::deque<Task> under_way_;
    Status first_error_;
    std::shared_ptr<ClientState> failed_in_;  ///< of the task that had that error
};

/// The properties of a table to create; TableSchema explains the fields.
struct TableOptions {
    Layout layout = Layout::kSparse;
    uint64_t key_count = 0;  ///< dense: keys 0 .. key_count - 1; sparse: expected, or 0
    uint32_t width = 1;      ///< values per key
    Rule rule = add();       ///< `"add"`, `weir::sgd(0.1)`, ...; see lib/store/rules/rules.h
    /// How the workers' parts of an iteration are combined before the rule sees them; none: as the rule
    /// says. Combine::kMean in place of a sum, of floating values: of each key the mean of the parts that
    /// have it, so that a step of sgd does not grow with the number of workers.
    std::optional<Combine> combine = std::nullopt;
    /// What a key that was never pushed reads as: a number, weir::uniform() or weir::normal().
    InitialValue initial_value{};
    /// kBFloat16 or kFloat16: the servers keep the values of a table of float in 16 bits each, which halves
    /// the memory and what a pull sends. Pushes bring floats, and sums, rules and their state are float as
    /// ever; pulls and scans give floats, Table::pull_narrow what is kept. Float16 becomes infinite
    /// above 65504.
    std::optional<ValueType> store_as = std::nullopt;
    /// How such values are rounded when a rule has changed them. Without it, as the rule says: rules that
    /// add small steps round stochastically (add, prox_l1, sgd and the rules behind it but ftrl), others,
    /// which make the value anew, to the nearest.
    std::optional<Rounding> rounding = std::nullopt;
    bool allow_not_finite = false;  ///< accept pushes with a NaN or an infinity
    /// By how many iterations a worker may be ahead of the slowest one (bounded delay). The
    /// servers take parts of max_delay + 1 iterations at once, and need memory for the sum of
    /// each; they take it when the table is made, for key_count keys. A sparse table with more
    /// keys takes the rest when they come, and an iteration for which there is none fails. At
    /// most 63.
    uint32_t max_delay = 0;
    bool in_checkpoints = true;  ///< false: what it has is worth nothing to a job that goes on
    /// Sparse: Table::erase() and expire() work. Each row then has a stamp beside its state, of 4 bytes (8 if
    /// values are of 8 bytes): when it was last pushed, as PushOptions::stamp says. The servers use the
    /// memory of erased rows again.
    bool erasable = false;
    /// A codec for values that travel, by the name with which the program has registered it
    /// (RuleRegistry::register_codec) or a plugin has: used by calls whose filters have weir::filters::table_codec().
    std::string codec{};
    /// What this worker's pushes and pulls of the table go through: selectors, which hold rows back or change
    /// their values, and lossless codecs. Each worker has its own; Table::set_filters() changes them.
    Filters filters{};
};

/// Keeps memory of the caller registered, so that servers may read and write it. The destructor
/// ends the registration.
class Registration {
public:
    Registration() = default;
    Registration(Registration&&) noexcept = default;
    Registration& operator=(Registration&& other) noexcept;
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration();

private:
    friend class Client;
    std::shared_ptr<ClientState> state_;
    uint64_t id_ = 0;
};

/// What this client has counted since it started, and what all servers that are in the job now
/// have counted together since each of them started.
///
/// bytes_copied counts the values and keys that the library copied between the user's buffers and
/// the store. It stays 0 for bulk pushes from, and pulls into, registered memory of dense tables.
/// Exception: between processes of one host, a push from memory given to register_memory() is
/// copied once, because the server cannot map that memory. Reads and writes by update rules and
/// key look-ups do not count as copies.
struct ClientStats {
    uint64_t bytes_sent = 0;  ///< in messages; servers count what they read and write directly
    uint64_t bytes_received = 0;
    uint64_t bytes_copied = 0;
    uint64_t pushes = 0;
    uint64_t pulls = 0;
    uint64_t errors_lost =
        0;  ///< of Tasks destroyed without wait(), and behind the first one of a `Tasks`; of Scans
    uint64_t servers_bytes_sent = 0;      ///< in messages, and values written to workers' memory
    uint64_t servers_bytes_received = 0;  ///< in messages, and keys and values read from there
    uint64_t servers_bytes_copied = 0;
    uint64_t servers_keys_held = 0;         ///< in all tables
    uint64_t servers_lists_remembered = 0;  ///< key lists whose rows the servers remember
    /// Memory registered for this client: what was given to register_memory(), and the worker
    /// pool of its process. Only the first client of a process counts the pool, so that sums over
    /// workers are right. Verbs locks all of this memory.
    uint64_t registered_bytes = 0;
    uint64_t used_bytes = 0;  ///< of the worker pool, by this client: buffers, copies, key lists
    uint64_t servers_registered_bytes = 0;  ///< of all store pools
    uint64_t servers_used_bytes = 0;        ///< of these: tables, key lists, fetched data
    FilterTraffic filters;                  ///< of this client
};

/// A worker's part in its job. Several clients in a process are independent of each other.
///
/// Thread: one at a time, with all that came from it. A call that another thread makes meanwhile ends
///         with kTwoThreads, without an effect
class Client {
public:
    explicit Client(std::shared_ptr<ClientState> state) noexcept : state_(std::move(state)) {}

    Client(Client&&) noexcept = default;
    Client& operator=(Client&& other) noexcept;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// If leave() was never called, the worker counts as having given up: the other workers are
    /// told that its client was destroyed without leave(), as after an early return.
    ~Client() {
        drop_handlers();
        give_up();
    }

    /// Number of this worker. Those that start with the job have 0 .. JobShape::worker_count - 1;
    /// who joins gets a greater one. No number is used twice.
    [[nodiscard]] uint32_t worker() const noexcept;
    /// How many workers are in the job now, as far as this client has heard. It changes when one
    /// joins or leaves; then worker() need not be below it.
    [[nodiscard]] uint32_t worker_count() const noexcept;
    /// How many there were when this client was made: for one that starts with the job, all of them. It
    /// does not change, so results that depend on it do not depend on when others leave.
    [[nodiscard]] uint32_t worker_count_at_start() const noexcept;

    /// Creates a table, or finds the one that another worker created with the same name and
    /// options. Like open_table() and stats(), waits for the tasks `after` before it begins; see
    /// PushOptions::after.
    /// The servers take all of its memory at once, and serve no other table meanwhile: make large
    /// tables before training begins.
    /// Errors: kTypeMismatch if it exists with another value type or width, or if the rule does
    ///         not support T; kAlreadyExists if another option differs; kNotFound for an unknown
    ///         rule; kInvalidArgument for a wrong option or rule parameter; kNoMemory if it does not
    ///         fit on one of the servers: then none keeps anything of it, and the name is free;
    ///         kPeerLost, kDeadline; the error of a task of `after`
    template <Value T>
    [[nodiscard]] Result<Table<T>> create_table(std::string_view name, const TableOptions& options,
                                                std::span<const TaskId> after = {});
    /// Opens an existing table. `width` 0 accepts any width.
    /// Errors: kNotFound; kTypeMismatch if its values are not of type T, or if `width` is given
    ///         and differs; kPeerLost, kDeadline; the error of a task of `after`
    template <Value T>
    [[nodiscard]] Result<Table<T>> open_table(std::string_view name, uint32_t width = 0,
                                              std::span<const TaskId> after = {});

    /// The tables that open_table() can open, in the order in which they were made: name, value type (as
    /// it is kept), layout, width, rule and all else. Those of Weir's own are left out.
    /// Errors: kPeerLost, kDeadline
    [[nodiscard]] Result<std::vector<TableSchema>> tables();

    /// No worker needs the table any more: its name is free, and the servers give its memory back, those with
    /// copies, too, as soon as a checkpoint that is under way and has the table has its rows. Calls in it
    /// end with kNotFound, also those of other workers that are under way. When this returns, no server
    /// acknowledges a push to it any more; what one has acknowledged before is lost with the table. Later
    /// checkpoints do not have it. A job can make 65,536 tables in all. Waits for the tasks `after` first.
    /// Errors: kNotFound; kBusy while another worker creates it, or while it is read from a checkpoint;
    ///         kInvalidArgument for a wrong name; kPeerLost, kDeadline; the error of a task of `after`
    [[nodiscard]] Status drop_table(std::string_view name, std::span<const TaskId> after = {});

    /// Starts a push to several tables: one call, with one task, and one message to each shard as far as
    /// they fit. Each table counts its push as one of its own; an iteration is the same number in all.
    /// What was pushed to one table may count although another one refused it.
    ///
    ///     client.push({users.pushing(user_keys, p), items.pushing(item_keys, q)}).wait();
    ///
    /// Errors: through the task, the first one: as Table::push(); kInvalidArgument if a table is another
    ///         client's, if none is named, if one is named twice in a push of an iteration, or for
    ///         PushOptions::arguments, which go with each table: Table::pushing()
    Task push(std::initializer_list<Pushing> tables);
    Task push(std::initializer_list<Pushing> tables, const PushOptions& options);
    Task push(std::span<const Pushing> tables, const PushOptions& options);
    /// The same of a pull. The rows of several tables are of no one moment, unless the pull names an
    /// iteration; Task::iteration_shown() is the oldest that one of them shows.
    Task pull(std::initializer_list<Pulling> tables);
    Task pull(std::initializer_list<Pulling> tables, const PullOptions& options);
    Task pull(std::span<const Pulling> tables, const PullOptions& options);

    /// Allocates `count` zeroed values in registered memory.
    /// Errors: kNoMemory
    template <KeptValue T>
    [[nodiscard]] Result<Buffer<T>> make_buffer(size_t count);
    /// Registers memory of the caller, which must outlive the Registration.
    /// Errors: kNoMemory with the ulimit to set
    [[nodiscard]] Result<Registration> register_memory(std::span<std::byte> memory);

    /// Pushes what filters have held back, in all tables, and waits until it is acknowledged. In a table that
    /// this worker pushes iterations to, its next part takes it along instead. What is held back counts as
    /// not pushed until then, and dies with its worker. barrier(), checkpoint() and leave() do so first;
    /// they go on if that fails, and return its error.
    /// Errors: as those of a push
    [[nodiscard]] Status flush();

    /// Waits until all workers of the job have called barrier(), however long they compute, or at most
    /// `at_most` if that is not 0. A worker or server that dies, or shows no sign of life for
    /// WEIR_DEADLINE_MS, ends it.
    /// Comes to the barrier only after the tasks `after` have finished; see PushOptions::after.
    /// Errors: kPeerLost if a worker or server has died; kDeadline; the error of a task of `after`
    [[nodiscard]] Status barrier(std::chrono::nanoseconds at_most = {},
                                 std::span<const TaskId> after = {});

    /// Sets values[i] to the sum (greatest, least, mean) of all workers' values[i]: the same bits at
    /// every worker. `values`: a vector, an array, a Buffer or a span of at most 65,536 values. Waits
    /// for all workers of the job, however long they compute, or at most `at_most` if that is not 0. All
    /// workers call allreduce() and broadcast() equally often in the same order, with as many values of
    /// the same type. A sum of float32 is rounded once; integers wrap around.
    ///
    /// A call is an iteration of a table of Weir's own: one that joins takes part from the first one on
    /// that has not ended, one that has left is not waited for, and what the death of a worker means
    /// OnWorkerLoss says. Checkpoints do not have it.
    ///
    /// Errors: kDifferentArguments, at all workers, names two that called different operations, gave
    ///         another number or type of values, or one of them a NaN or an infinity: nobody's values have
    ///         changed; kNotFinite, at a worker that gave such a value; kCancelled names one that
    ///         gave up at its deadline; kPeerLost one that died; kReassigned (take_work()); kDeadline:
    ///         as with any push, the others may have got this worker's values all the same;
    ///         kInvalidArgument for more values, in a handler, or for a worker that takes part in no
    ///         iterations (JoinOptions::has_iterations); kTypeMismatch for a mean of integers
    template <ReplacedValues Values>
    [[nodiscard]] Status allreduce(Values&& values, Reduce how = Reduce::kSum,
                                   std::chrono::nanoseconds at_most = {}) {
        const std::span span(values);
        return allreduce_bytes(value_type_of<std::ranges::range_value_t<Values>>(),
                               std::as_writable_bytes(span), how, at_most);
    }

    /// Sets values[i] to worker `from`'s values[i] (worker()), also to a NaN. As allreduce() in all else.
    /// Errors: as allreduce(); kPeerLost if that worker has left, died, or was never there
    template <ReplacedValues Values>
    [[nodiscard]] Status broadcast(Values&& values, uint32_t from,
                                   std::chrono::nanoseconds at_most = {}) {
        const std::span span(values);
        return broadcast_bytes(value_type_of<std::ranges::range_value_t<Values>>(),
                               std::as_writable_bytes(span), from, at_most);
    }

    /// Waits until all workers of the job have called take_work(), and returns this one's share of
    /// `piece_count` pieces of work, 1 to 4096; the number that came first counts for all. What a
    /// piece is, the workers agree on: a part of the training data, say. `description` says it to
    /// those that want to join, in at most WorkShare::kDescriptionBytesMax bytes; `weir status --json`
    /// shows the one that came first.
    ///
    /// With OnWorkerLoss::kReassign a worker that dies, gives its work back, or joins and calls
    /// take_work(), ends the round. All calls that wait for other workers (parts of iterations, pulls of an iteration,
    /// barriers), and all that create or open tables, then end with kReassigned until the worker
    /// has called take_work() again. Tables keep their values, but those of rounds that are over
    /// take no parts of iterations any more: make new ones. Each worker keeps the pieces that it
    /// had, as far as nobody has more than one piece more than another.
    /// Errors: kInvalidArgument; kPeerLost if a worker gave up or a server is lost; kNotFound if a
    ///         worker has called finish_work(); kUnavailable after give_back_work()
    [[nodiscard]] Result<WorkShare> take_work(uint32_t piece_count,
                                              std::string_view description = {});
    /// The others take over what this worker has of the work, with OnWorkerLoss::kReassign, as if it
    /// had died. It takes no more; call leave() next. (Job::give_back_work() does this for a process that was
    /// told to end, and may have one of several managers.)
    /// Errors: kCancelled if the whole job is being stopped (JobOptions::is_being_stopped);
    ///         kUnavailable if no worker of another process is there to take it over, or the job's
    ///         workers take nothing over; kPeerLost, kDeadline
    [[nodiscard]] Status give_back_work();
    /// What give_back_work() would return now. Nothing changes.
    [[nodiscard]] Status may_give_back_work();
    /// The work is done, and what came of it is kept: nobody needs to take it anew, whoever dies or
    /// joins now. One worker that has a share says so for all.
    /// Errors: kInvalidArgument if it has none; kPeerLost, kDeadline
    [[nodiscard]] Status finish_work();
    /// Has the job write a checkpoint, and waits until it is on the disk, at most `at_most` (0: the
    /// client's deadline, WEIR_DEADLINE_MS). It has all pushes that were acknowledged before this call,
    /// and all iterations of each table up to one. Returns its number. The job goes on meanwhile, and
    /// also if there is an error. Copies that are being made and segments that move come first, for up
    /// to 5 s.
    /// Errors: kUnavailable if the job has no folder for checkpoints; kIo (a full disk); kPeerLost;
    ///         kBusy, kCancelled if servers came or went meanwhile: try again; kDeadline: it may still
    ///         come, or a disk hangs; the error of a task of `after`
    [[nodiscard]] Result<uint64_t> checkpoint(std::chrono::nanoseconds at_most = {},
                                              std::span<const TaskId> after = {});
    /// What the job goes on from. Its tables are read when they are opened or created; until then, and
    /// if that fails, later checkpoints go on to have them as they are.
    /// Errors: kPeerLost, kDeadline
    [[nodiscard]] Result<ResumedFrom> resumed_from();
    /// Tables of the checkpoint that no worker has asked for are not wanted: this job and its later
    /// checkpoints do not have them.
    /// Errors: kPeerLost, kDeadline
    [[nodiscard]] Status forget_unread_tables();
    /// Whether `weir stop` has asked the job to end: this worker is to end its work, save what it wants to, and
    /// leave(). If the workers have not ended within the time that the command gives them, all calls fail.
    /// False while another thread uses this client.
    [[nodiscard]] bool is_stopping();
    /// What has happened in the job since the last call: servers and workers that came or went after
    /// this client was made, checkpoints that were completed or failed, another manager that leads. What
    /// happened last is last. Of very many only the later ones.
    /// Errors: kPeerLost, kDeadline: the next call has it all
    [[nodiscard]] Result<std::vector<JobEvent>> take_events();
    /// Returns the counters of this client, and asks every shard for its own. One that leaves the
    /// job meanwhile is left out.
    /// Errors: kPeerLost, kDeadline; the error of a task of `after`
    [[nodiscard]] Result<ClientStats> stats(std::span<const TaskId> after = {});
    /// Tells the job that this worker is done, or, if `outcome` is an error, that it gives up.
    /// Workers that wait for it at a barrier get the text of that error; workers that wait for
    /// its part of an iteration get an error that says that it gave up. No call can be started
    /// afterwards; calls that still wait for other tasks end with kUnavailable, nothing is sent.
    /// Without an error it waits first until this worker's pushes and pulls have ended. Only the first
    /// call counts: further ones return at once what that has returned.
    /// Errors: kDeadline, kPeerLost if the manager cannot be reached; kUnavailable if it was moved
    ///         from; kBusy: nothing was sent; kInvalidArgument in a handler
    [[nodiscard]] Status leave(const Status& outcome = {});

private:
    friend class Iterations;

    template <class Of>
    [[nodiscard]] Task start_several(std::span<const Of> tables, const access::Options& options);
    void give_up() noexcept;
    void drop_handlers() noexcept;
    [[nodiscard]] Status flush_held();
    [[nodiscard]] Status allreduce_bytes(ValueType type, std::span<std::byte> values, Reduce how,
                                         std::chrono::nanoseconds at_most);
    [[nodiscard]] Status broadcast_bytes(ValueType type, std::span<std::byte> values, uint32_t from,
                                         std::chrono::nanoseconds at_most);
    [[nodiscard]] Collectives& collectives();

    std::shared_ptr<ClientState> state_;
    std::shared_ptr<Collectives> collectives_;  ///< from the first call on
    uint64_t checkpoints_taken_ = 0;  ///< so many that have ended has take_events() returned
    bool leave_was_sent_ = false;
    Status leave_error_;  ///< of the first leave() that was sent
};

}  // namespace weir

#include "lib/worker/table.h"
