// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Runtime: owns the threads of a cluster. It runs state machines and the worker functions of a
/// trainer, each in a thread of its own. Threads have names ("weir-shard-0"). The thread of a
/// machine is pinned to a CPU on request.

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

/// The destructor stops machines that are not finished, and joins all threads.
///
/// Thread: its creator's
class Runtime {
public:
    explicit Runtime(const IdleOptions& idle) noexcept : idle_(idle) {}

    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    /// How threads that are started from now on wait.
    void set_idle(const IdleOptions& idle) noexcept { idle_ = idle; }

    /// Polls `machine` in a thread of its own until it is finished or stopped, and destroys it
    /// there. The future then has its outcome. If memory runs out (std::bad_alloc), the machine
    /// ends, the error is logged, and the outcome is kNoMemory.
    std::future<Status> run(std::unique_ptr<StateMachine> machine, std::optional<int> cpu = {});
    /// Runs `function` in a thread of its own, which is not pinned.
    void run(std::function<void()> function, std::string name = "worker");
    /// Waits until all functions have returned; stops machines that are not finished. Then throws
    /// the first exception that a function threw.
    void join();

private:
    IdleOptions idle_;
    std::mutex mutex_;
    std::exception_ptr thrown_;  // under mutex_
    std::vector<std::jthread> threads_;
};

}  // namespace weir
