// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/checkpoint_signal.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace weir::tools {
namespace {

std::atomic<bool> g_is_asked_for = false;  // a signal handler has no other data
static_assert(std::atomic<bool>::is_always_lock_free);

void take(int) {
    g_is_asked_for.store(true, std::memory_order_relaxed);  // relaxed: it guards no other data
}

}  // namespace

void remember_checkpoint_signals() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_handler = take;
        action.sa_flags = SA_RESTART;
        (void)::sigemptyset(&action.sa_mask);
        (void)::sigaction(SIGUSR1, &action, nullptr);
    });
}

bool take_checkpoint_signal() noexcept {
    // relaxed: it guards no other data
    return g_is_asked_for.exchange(false, std::memory_order_relaxed);
}

}  // namespace weir::tools
