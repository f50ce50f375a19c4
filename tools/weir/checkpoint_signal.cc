// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/checkpoint_signal.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include <unistd.h>

namespace weir::tools {
namespace {

// Globals, because a signal handler has no other data. They are lock-free, as a handler needs.
std::atomic<bool> g_is_asked_for = false;
std::atomic<const char*> g_why_not = nullptr;  // null: the process writes checkpoints
std::atomic<size_t> g_why_not_bytes = 0;       // set before g_why_not
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);
static_assert(std::atomic<size_t>::is_always_lock_free);

void tell(std::string_view text) {
    (void)!::write(STDERR_FILENO, text.data(), text.size());
}

/// Says once why there is no checkpoint, if a signal has come.
void say_why_not() {
    const char* const why_not = g_why_not.load();
    if (why_not == nullptr || !g_is_asked_for.load()) return;
    static std::atomic_flag is_said;
    if (is_said.test_and_set()) return;
    tell("weir: SIGUSR1 received: ");
    tell({why_not, g_why_not_bytes.load()});
    tell("\n");
}

void take(int) {
    const int saved_errno = errno;
    g_is_asked_for.store(true);
    say_why_not();
    errno = saved_errno;
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

void refuse_checkpoint_signals(std::string_view why) {
    remember_checkpoint_signals();
    g_why_not_bytes = why.size();
    g_why_not = why.data();
    say_why_not();  // at one that has come before
}

bool take_checkpoint_signal() noexcept {
    // relaxed: it guards no other data
    return g_is_asked_for.exchange(false, std::memory_order_relaxed);
}

}  // namespace weir::tools
