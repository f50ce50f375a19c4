// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runtime: the one place where a cluster has threads. It runs state machines, one thread each, and
/// a trainer's worker functions. Threads have names ("weir-shard-0"), and machines are pinned to a
/// CPU if asked.

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/node/idle.h"
#include "lib/node/state_machine.h"

namespace weir {

/// Thread: its creator's. Destroying it stops machines that are not finished and joins all threads.
class Runtime {
public:
    explicit Runtime(const IdleOptions& idle) noexcept : idle_(idle) {}

    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    /// Polls `machine` in a thread of its own until it is finished; destroys it there, then the
    /// future has its outcome. Where memory runs out in it, that ends it, is logged, and is the
    /// outcome: kNoMemory.
    std::future<Status> run(std::unique_ptr<StateMachine> machine, std::optional<int> cpu = {});
    /// Runs `function` in a thread of its own, on whatever CPU there is.
    void run(std::function<void()> function, std::string name = "worker");
    /// Waits until all threads have ended by themselves; throws what the first function threw that
    /// did (std::bad_alloc, as if it had been called here).
    void join();

private:
    IdleOptions idle_;
    std::mutex mutex_;
    std::exception_ptr thrown_;  // under mutex_
    std::vector<std::jthread> threads_;
};

}  // namespace weir
