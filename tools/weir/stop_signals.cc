// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/stop_signals.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/clock.h"

namespace weir::tools {
namespace {

// Globals, because a signal handler has no other data. They are lock-free, as a handler needs,
// and set before the handler is installed.
std::atomic<int> g_signal = 0;
std::atomic<const char*> g_says = nullptr;
std::atomic<size_t> g_says_bytes = 0;
std::atomic<uint64_t> g_since_ns = 0;  // when g_signal came; 0: not yet
std::atomic<uint32_t> g_grace_s = 0;
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

constexpr uint64_t kSettledNs = kSecond;

void tell(std::string_view text) {
    (void)!::write(STDERR_FILENO, text.data(), text.size());
}

void take(int signal) {
    const int saved_errno = errno;
    int none = 0;
    if (g_signal.compare_exchange_strong(none, signal)) {
        g_since_ns = SteadyClock().now_ns();  // clock_gettime(), which a handler may call
        if (signal == SIGTERM) (void)::alarm(g_grace_s);
        if (g_says_bytes.load() > 0) {
            tell("\nweir: ");
            tell(signal_name(signal));
            tell(" received: ");
            tell({g_says.load(), g_says_bytes.load()});
            tell("; a second signal ends the process at once\n");
        }
    } else {
        (void)std::signal(signal, SIG_DFL);
        (void)::raise(signal);  // delivered when this handler returns
    }
    errno = saved_errno;
}

void end_of_grace(int /*signal*/) {
    tell(
        "\nweir: SIGTERM came, and what was under way did not end within --grace: what is in no "
        "file "
        "yet is lost\n");
    ::_exit(stop_exit_code(SIGTERM));
}

bool has_signal_since(uint64_t age_ns) noexcept {
    // relaxed: it guards no other data
    const uint64_t since_ns = g_since_ns.load(std::memory_order_relaxed);
    return since_ns != 0 && SteadyClock().now_ns() - since_ns >= age_ns;
}

}  // namespace

void limit_grace(uint32_t seconds) noexcept {
    g_grace_s = seconds;
    struct sigaction action = {};
    action.sa_handler = end_of_grace;
    (void)::sigemptyset(&action.sa_mask);
    (void)::sigaction(SIGALRM, &action, nullptr);
}

void lift_grace() noexcept {
    g_grace_s = 0;
    (void)::alarm(0);
}

void remember_stop_signals(std::string_view says) {
    static std::once_flag once;
    std::call_once(once, [says] {
        g_says = says.data();
        g_says_bytes = says.size();
        for (const int signal : {SIGINT, SIGTERM}) {
            struct sigaction before = {};
            if (::sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN)
                continue;
            struct sigaction action = {};
            action.sa_handler = take;
            action.sa_flags = SA_RESTART;
            (void)::sigemptyset(&action.sa_mask);
            (void)::sigaction(signal, &action, nullptr);
        }
    });
}

int stop_signal() noexcept {
    return g_signal.load(std::memory_order_relaxed);  // relaxed: it guards no other data
}

bool stop_signal_has_settled() noexcept {
    return has_signal_since(kSettledNs);
}

bool is_grace_over(uint32_t seconds) noexcept {
    return seconds > 0 && stop_signal() == SIGTERM && has_signal_since(seconds * kSecond);
}

int ended_by_grace(const Error& undone) {
    fmt::print(stderr, "weir: SIGTERM came, and --grace is over: {}\n", undone.message());
    return stop_exit_code(SIGTERM);
}

std::string_view signal_name(int signal) noexcept {
    return signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "a signal";
}

int stop_exit_code(int signal) noexcept {
    return 128 + signal;
}

Error stopped_by(int signal, std::string_view what_ended) {
    const Errc code = signal == SIGINT ? Errc::kInterrupted : Errc::kTerminated;
    return {code, fmt::format("stopped by {}: {}", signal_name(signal), what_ended)};
}

int signal_of(const Error& error) noexcept {
    return error.code() == Errc::kInterrupted  ? SIGINT
           : error.code() == Errc::kTerminated ? SIGTERM
                                               : 0;
}

}  // namespace weir::tools
