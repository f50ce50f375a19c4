// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClientState: what a Client owns: its state machine, the memory it works with, and how it
/// waits. The process's Job makes it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include <pthread.h>

#include "lib/base/clock.h"
#include "lib/node/idle.h"
#include "lib/store/memory.h"
#include "lib/worker/client_core.h"
#include "lib/worker/table_access.h"

namespace weir {

/// Registers memory with every device of the process.
class MemoryRegistrar {
public:
    virtual ~MemoryRegistrar() = default;
    MemoryRegistrar(const MemoryRegistrar&) = delete;
    MemoryRegistrar& operator=(const MemoryRegistrar&) = delete;
    [[nodiscard]] virtual Result<uint64_t> add(std::span<std::byte> memory) = 0;
    virtual void remove(uint64_t id) = 0;
    /// Bytes of memory that was added and not removed.
    [[nodiscard]] virtual uint64_t registered_bytes() const noexcept = 0;

protected:
    MemoryRegistrar() = default;
};

/// Thread: the one that has its turn (access::Turn)
class ClientState {
public:
    /// `pool` and `registrar` must keep alive the devices that they belong to.
    ClientState(std::unique_ptr<ClientCore> core, std::shared_ptr<Memory> pool,
                std::shared_ptr<MemoryRegistrar> registrar, const IdleOptions& idle)
        : pool_(std::move(pool)),
          registrar_(std::move(registrar)),
          core_(std::move(core)),
          idle_(idle) {}

    /// Waits, for a bounded time, until no server can still read or write memory of open
    /// requests. Memory that a server may still reach is never given back to the pool.
    ~ClientState() {
        core_->close();
        const SteadyClock clock;
        const uint64_t end_ns = clock.now_ns() + kCloseNsMax;
        wait_until([&] { return core_->open_requests() == 0 || clock.now_ns() > end_ns; });
        for (const std::span<std::byte> memory : not_free_yet_) {
            if (!core_->is_referenced(memory))
                pool_->deallocate(memory.data(), memory.size(), Block::kAlignment);
        }
    }

    ClientState(const ClientState&) = delete;
    ClientState& operator=(const ClientState&) = delete;

    [[nodiscard]] ClientCore& core() noexcept { return *core_; }

    /// The thread that has its turn; none is 0. See access::Turn.
    [[nodiscard]] std::atomic<pthread_t>& user() noexcept { return user_; }

    /// Whether this is the first time that it is asked.
    [[nodiscard]] bool tells_of_two_threads() noexcept {
        return !has_told_.exchange(true, std::memory_order_relaxed);  // a flag alone
    }

    [[nodiscard]] Memory& pool() noexcept { return *pool_; }

    [[nodiscard]] MemoryRegistrar& registrar() noexcept { return *registrar_; }

    /// Gives memory back to the pool. If a request still uses it, this happens in a later call or
    /// in the destructor.
    void give_back(std::span<std::byte> memory) {
        not_free_yet_.push_back(memory);
        std::erase_if(not_free_yet_, [this](std::span<std::byte> waiting) {
            if (core_->is_referenced(waiting)) return false;
            pool_->deallocate(waiting.data(), waiting.size(), Block::kAlignment);
            return true;
        });
    }

    /// Polls until `over()` is true. Sleeps after a while without progress, but asks `over()` at
    /// least every `sleep_ns_max`.
    template <class Over>
    void wait_until(Over&& over, uint64_t sleep_ns_max = ~uint64_t{0}) {
        if (over()) return;
        idle_.reset();
        while (true) {
            const bool progress = core_->poll() > 0;
            if (progress) idle_.reset();
            if (over()) return;
            if (progress) continue;
            idle_.wait([&] { return core_->arm(); }, std::min(sleep_ns_max, core_->sleep_ns_max()));
        }
    }

    /// Errors: kInvalidArgument in a handler. What it waits for could need another handler, and
    ///         handlers do not run while one does
    [[nodiscard]] Status may_wait() const {
        if (!core_->is_in_handler()) return {};
        return Error(Errc::kInvalidArgument,
                     "a handler of a task must not wait: attach a handler to what it would wait "
                     "for, or start that after it (PushOptions::after)");
    }

    /// Waits for the tasks, before a call of which the caller waits for the end anyway.
    [[nodiscard]] Status wait_for_tasks(std::span<const TaskId> after) {
        WEIR_TRY(may_wait());
        return after.empty() ? Status() : finish(core_->wait_for(0, after));
    }

    /// In a handler: waits until nothing uses the memory of the call. If it has not started, it
    /// never will.
    void free_memory(ClientCore::CallId call) {
        const bool is_cancelled = core_->cancel_waiting(call);
        wait_until([&] { return core_->is_memory_free(call); });
        if (!is_cancelled) core_->lose_outcome(call);
        core_->drop(call);
    }

    /// Waits until the client has joined its job and reached every shard.
    [[nodiscard]] Status join() {
        wait_until([&] { return core_->ready() || core_->finished(); });
        return core_->failure();
    }

    /// Waits until a call has ended and returns its outcome.
    [[nodiscard]] Status finish(ClientCore::CallId call) {
        wait_until([&] { return core_->done(call); });
        return core_->take(call);
    }

private:
    /// Longer than any transport takes to report that a connection is closed.
    static constexpr uint64_t kCloseNsMax = 5 * kSecond;

    std::shared_ptr<Memory> pool_;
    std::shared_ptr<MemoryRegistrar> registrar_;
    std::unique_ptr<ClientCore> core_;
    std::vector<std::span<std::byte>> not_free_yet_;  ///< given back by the user, still referenced
    Idle idle_;
    alignas(64) std::atomic<pthread_t> user_{0};  ///< a line that no thread of Weir's own reads
    std::atomic<bool> has_told_{false};
};

namespace access {

/// As ClientCore has deadlines.
[[nodiscard]] inline uint64_t deadline_ns_of(Nanoseconds deadline) noexcept {
    return deadline.count() < 0 ? CallOptions::kOver : static_cast<uint64_t>(deadline.count());
}

/// For destructors, which cannot fail: waits until this thread has its turn.
class TurnInTheEnd {
public:
    explicit TurnInTheEnd(ClientState& state) {
        turn_.emplace(state);
        if (*turn_) return;
        (void)turn_->error();  // logs it
        while (!*turn_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            turn_.emplace(state);
        }
    }

private:
    std::optional<Turn> turn_;
};

}  // namespace access
}  // namespace weir
