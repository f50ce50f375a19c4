// SPDX-License-Identifier: Apache-2.0
#include "lib/node/runtime.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/core.h>
#include <pthread.h>

#include "lib/base/log.h"
#include "lib/base/machine/topology.h"

namespace weir {
namespace {

/// Names the calling thread: "shard 3" is shown as "weir-shard-3" by top -H.
void name_this_thread(std::string_view name) {
    constexpr size_t kNameBytesMax = 15;  // the kernel's limit
    std::string text = fmt::format("weir-{}", name).substr(0, kNameBytesMax);
    std::replace(text.begin(), text.end(), ' ', '-');
    (void)pthread_setname_np(pthread_self(), text.c_str());
}

/// A failure is only logged: an unpinned thread works, too.
void pin_to(int cpu) {
    if (const Status pinned = pin_this_thread(cpu); !pinned) {
        log(LogLevel::kWarning, "{}; the thread runs on any CPU", pinned.error().message());
    }
}

void log_if_possible(const Error& error) noexcept {
    try {
        log(LogLevel::kError, "{}", error.message());
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): whoever waits gets it
    }
}

void poll_to_end(StateMachine& machine, Idle& idle, const std::stop_token& stop) {
    while (!machine.finished() && !stop.stop_requested()) {
        if (machine.poll() > 0) {
            idle.reset();
            if (machine.gives_way()) idle.give_way();
        } else {
            idle.wait([&] { return machine.arm(); }, machine.sleep_ns_max());
        }
    }
}

}  // namespace

Runtime::~Runtime() {
    for (std::jthread& thread : threads_)
        thread.request_stop();
}

std::future<Status> Runtime::run(std::unique_ptr<StateMachine> machine, std::optional<int> cpu) {
    std::promise<Status> ended;
    std::future<Status> future = ended.get_future();
    // Made now: then there is no memory for it.
    Status shortage =
        Error(Errc::kNoMemory,
              fmt::format("{}: not enough memory; allow this process more, or use more servers",
                          machine->name()));
    threads_.emplace_back([machine = std::move(machine), cpu, ended = std::move(ended),
                           shortage = std::move(shortage),
                           idle = Idle(idle_)](const std::stop_token& stop) mutable {
        Status outcome;
        try {
            name_this_thread(machine->name());
            if (cpu) pin_to(*cpu);
            poll_to_end(*machine, idle, stop);
            outcome = machine->outcome();
        } catch (const std::bad_alloc&) {
            outcome = std::move(shortage);
        }
        machine.reset();
        if (outcome.code() == Errc::kNoMemory) log_if_possible(outcome.error());
        ended.set_value(std::move(outcome));
    });
    return future;
}

void Runtime::run(std::function<void()> function, std::string name) {
    threads_.emplace_back([this, function = std::move(function), name = std::move(name)] {
        name_this_thread(name);
        try {
            function();
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (!thrown_) thrown_ = std::current_exception();
        }
    });
}

void Runtime::join() {
    threads_.clear();
    if (const std::exception_ptr thrown = std::exchange(thrown_, nullptr)) {
        std::rethrow_exception(thrown);
    }
}

}  // namespace weir
