// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Client: a worker's access to the tables of its job. This is the header that trainers use,
/// through weir.h.

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/store/rules.h"
#include "lib/store/table_schema.h"

namespace weir {

class ClientState;
template <Value T>
class Table;
template <Value T>
class Buffer;

/// A push or pull that has been started. Its keys and values must stay as they are until it has
/// ended. So a Task that goes (or is assigned to) while it is under way waits for its end first, at
/// most until its deadline: declare it after what it reads and writes, and that is safe however the
/// function is left. Tasks is the same for many of them. Thread: the client's.
class [[nodiscard]] Task {
public:
    Task() = default;

    /// What was moved from is as good as new: it has ended, well.
    Task(Task&& other) noexcept { *this = std::move(other); }

    Task& operator=(Task&& other) noexcept;

    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

    ~Task() {
        if (state_ != nullptr) finish();
    }

    /// True once it has ended, well or not. Never blocks; moves everything of the client forward.
    [[nodiscard]] bool test();
    /// Waits until it has ended, at most until its deadline (PushOptions::deadline), and says how it
    /// ended: with the first error of its parts, when all of them have ended.
    ///
    /// Errors: kPeerLost and kDeadline name the server; kStaleEpoch; kNoMemory; kRefused;
    ///         kInvalidArgument, kOutOfRange, kNotFinite for a mistake of the caller, found before
    ///         anything was sent. After kDeadline alone, a late server may still carry it out: it
    ///         may read a push's values as they then are, and write to a pull's memory. A Buffer is
    ///         kept for that long by itself; other memory must stay as long as the client lives.
    Status wait();
    /// Waits at most this long. kDeadline if it has not ended by then; it goes on all the same.
    Status wait_for(std::chrono::nanoseconds at_most);

private:
    template <Value T>
    friend class Table;
    friend class Client;

    Task(std::shared_ptr<ClientState> state, uint64_t call) noexcept
        : state_(std::move(state)), call_(call) {}

    void finish() noexcept;
    Status take();

    std::shared_ptr<ClientState> state_;  ///< none: it has ended, and `result_` is how
    uint64_t call_ = 0;
    Status result_;
};

/// Pushes and pulls that are under way together. Like a Task it waits for the end of all of them
/// before it goes: declare it after what they read and write. Thread: the client's.
class Tasks {
public:
    Tasks() = default;

    Tasks(Tasks&& other) noexcept
        : under_way_(std::exchange(other.under_way_, {})),
          first_error_(std::exchange(other.first_error_, {})) {}

    Tasks& operator=(Tasks&& other) noexcept;
    Tasks(const Tasks&) = delete;
    Tasks& operator=(const Tasks&) = delete;
    ~Tasks() = default;

    void add(Task task) { under_way_.push_back(std::move(task)); }

    /// How many were added and have not been reaped.
    [[nodiscard]] size_t count() const noexcept { return under_way_.size(); }

    /// Takes out those that have ended, and says how many. The first error is kept for wait().
    /// Never blocks; moves everything of the client forward.
    size_t reap();
    /// Waits until less than `count` are under way, in the order in which they were added: room for
    /// one more where `count` of them have buffers. Stops at the first error and returns it, again
    /// and again until wait() has.
    Status wait_for_room(size_t count);
    /// Waits for all. The first error of those that were added since the last wait().
    Status wait();

private:
    /// Waits for the oldest.
    void finish_one();

    std::deque<Task> under_way_;
    Status first_error_;
};

/// What a table shall be; see TableSchema for the meaning of the fields.
struct TableOptions {
    Layout layout = Layout::kSparse;
    uint64_t key_count = 0;    ///< dense: keys 0 .. key_count - 1
    uint32_t width = 1;        ///< values per key
    Rule rule = add();         ///< `"add"`, `weir::sgd(0.1)`, ...; see lib/store/rules.h
    double initial_value = 0;  ///< of a key that was never pushed
    bool allow_not_finite = false;
};

/// Memory of the caller's that servers may read and write, until this object goes.
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

/// What this client, and all servers of the job together, have counted since they started.
/// "Copied" is what the library copied of values and keys between user buffer and store: 0 for bulk
/// pushes from and pulls into registered memory of dense tables; but between processes of one host
/// a push from memory given to register_memory(), which the server cannot map, is copied once. What
/// update rules and the search for keys read and write is work, not copying.
struct ClientStats {
    uint64_t bytes_sent = 0;  ///< messages; what servers read and write by themselves they count
    uint64_t bytes_received = 0;
    uint64_t bytes_copied = 0;
    uint64_t pushes = 0;
    uint64_t pulls = 0;
    uint64_t servers_bytes_sent = 0;      ///< messages, and values written into workers' memory
    uint64_t servers_bytes_received = 0;  ///< messages, and keys and values read there
    uint64_t servers_bytes_copied = 0;
    uint64_t servers_keys_held = 0;  ///< in all tables
    uint64_t servers_lists_remembered = 0;
    /// Memory registered for this client: the worker pool of its process, which the first client of
    /// the process tells for all of them, so that sums over workers are right; and what was given
    /// to register_memory(). Verbs locks it all.
    uint64_t registered_bytes = 0;
    uint64_t used_bytes = 0;  ///< of the worker pool, by this client: buffers and copies
    uint64_t servers_registered_bytes = 0;  ///< all store pools
    uint64_t servers_used_bytes = 0;        ///< of those: tables, key lists, what is being fetched
};

/// Thread: one at a time. Several clients in a process are independent of each other.
class Client {
public:
    explicit Client(std::shared_ptr<ClientState> state) noexcept : state_(std::move(state)) {}

    Client(Client&&) noexcept = default;
    Client& operator=(Client&& other) noexcept;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Without a leave() before, the worker gives up: the others hear that its client was destroyed
    /// without leave(), as after an early return.
    ~Client() { give_up(); }

    /// Number of this worker, 0 .. worker_count() - 1.
    [[nodiscard]] uint32_t worker() const noexcept;
    [[nodiscard]] uint32_t worker_count() const noexcept;

    /// Makes a table, or finds the one that another worker made with the same name and options.
    /// Errors: kAlreadyExists, kTypeMismatch if it exists with other ones; kInvalidArgument for a
    /// rule
    ///         that does not exist or does not fit the type; kPeerLost, kDeadline
    template <Value T>
    [[nodiscard]] Result<Table<T>> create_table(std::string_view name, const TableOptions& options);
    /// Errors: kNotFound; kTypeMismatch if its values are not of type T, or `width` is given and
    /// differs
    template <Value T>
    [[nodiscard]] Result<Table<T>> open_table(std::string_view name, uint32_t width = 0);

    /// `count` zeroed values in registered memory.
    /// Errors: kNoMemory
    template <Value T>
    [[nodiscard]] Result<Buffer<T>> make_buffer(size_t count);
    /// Registers memory that the caller has; it must outlive the Registration.
    /// Errors: kNoMemory with the ulimit to set
    [[nodiscard]] Result<Registration> register_memory(std::span<std::byte> memory);

    /// Waits until all workers of the job have come here. 0: no longer than any other call.
    /// Errors: kPeerLost if one of them has died; kDeadline
    [[nodiscard]] Status barrier(std::chrono::nanoseconds at_most = {});
    [[nodiscard]] Result<ClientStats> stats();
    /// Tells the job that this worker is done, or that it gives up and why, which is what others
    /// that wait for it at a barrier get to read; those that wait for its part of an iteration hear
    /// that it gave up. The client cannot be used afterwards.
    [[nodiscard]] Status leave(const Status& outcome = {});

private:
    void give_up() noexcept;

    std::shared_ptr<ClientState> state_;
};

}  // namespace weir

#include "lib/worker/table.h"
