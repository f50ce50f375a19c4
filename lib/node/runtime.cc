// SPDX-License-Identifier: Apache-2.0
#include "lib/node/runtime.h"

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
        while (!machine->finished() && !stop.stop_requested()) {
            if (machine->poll() > 0) {
                idle.reset();
            } else {
                idle.wait([&] { return machine->arm(); });
            }
        }
        machine.reset();
        ended.set_value();
    });
    return future;
}

void Runtime::run(std::function<void()> function, std::optional<unsigned> core) {
    threads_.emplace_back([function = std::move(function), core] {
        if (core) pin_to(*core);
        function();
    });
}

void Runtime::join() {
    threads_.clear();
}

}  // namespace weir
