// SPDX-License-Identifier: Apache-2.0
#include "lib/node/runtime.h"

#include <new>
#include <utility>

#include <pthread.h>
#include <sched.h>

#include "lib/base/log.h"

namespace weir {
namespace {

/// Keeps the calling thread on `core`. Not being allowed to is not worth failing for.
void pin_to(unsigned core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    if (pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) != 0) {
        log(LogLevel::kWarning, "cannot pin a thread to core {}; it runs wherever there is room",
            core);
    }
}

void poll_to_end(StateMachine& machine, Idle& idle, const std::stop_token& stop) {
    while (!machine.finished() && !stop.stop_requested()) {
        if (machine.poll() > 0) {
            idle.reset();
        } else {
            idle.wait([&] { return machine.arm(); });
        }
    }
}

}  // namespace

Runtime::~Runtime() {
    for (std::jthread& thread : threads_)
        thread.request_stop();
}

std::future<void> Runtime::run(std::unique_ptr<StateMachine> machine,
                               std::optional<unsigned> core) {
    std::promise<void> ended;
    std::future<void> future = ended.get_future();
    threads_.emplace_back([machine = std::move(machine), core, ended = std::move(ended),
                           idle = Idle(idle_)](const std::stop_token& stop) mutable {
        if (core) pin_to(*core);
        try {
            poll_to_end(*machine, idle, stop);
        } catch (const std::bad_alloc&) {
            log(LogLevel::kError, "{}: not enough memory; allow more, or use more servers",
                machine->name());
            machine.reset();
            ended.set_exception(std::current_exception());
            return;
        }
        machine.reset();
        ended.set_value();
    });
    return future;
}

void Runtime::run(std::function<void()> function, std::optional<unsigned> core) {
    threads_.emplace_back([this, function = std::move(function), core] {
        if (core) pin_to(*core);
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
