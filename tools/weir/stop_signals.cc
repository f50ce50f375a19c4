// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/stop_signals.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <mutex>

#include <fmt/core.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tools/weir/option_names.h"

namespace weir::tools {
namespace {

// Globals, because a signal handler has no other data. They are lock-free, as a handler needs,
// and set before the handler is installed.
std::atomic<int> g_signal = 0;
std::atomic<const char*> g_says = nullptr;
std::atomic<size_t> g_says_bytes = 0;
std::atomic<uint64_t> g_since_ns = 0;  // when g_signal came; 0: not yet
std::atomic<uint64_t> g_int_ns = 0;    // when the first SIGINT came; 0: none did
std::atomic<uint64_t> g_term_ns = 0;   // the first SIGTERM
std::atomic<uint32_t> g_grace_s = 0;
std::atomic<bool> g_is_command = false;  // g_signal stands for `weir stop`
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

constexpr uint64_t kSettledNs = kSecond;
// Whoever stops a process often signals it more than once, such as timeout(1): the child, then its
// group. A person presses Ctrl-C again no sooner than this.
constexpr uint64_t kSameIntNs = 100 * kMillisecond;
constexpr uint64_t kSameTermNs = kSecond;

void tell(std::string_view text) {
    (void)!::write(STDERR_FILENO, text.data(), text.size());
}

/// Remembers `signal`. Whether it was asked for again, not only sent twice.
bool is_asked_again(int signal, uint64_t now_ns) {
    std::atomic<uint64_t>& first_ns = signal == SIGINT ? g_int_ns : g_term_ns;
    uint64_t before_ns = 0;
    if (first_ns.compare_exchange_strong(before_ns, now_ns)) {
        if (signal == SIGTERM) (void)::alarm(g_grace_s);
        return false;
    }
    // Another thread may have taken the first one a little later than this one read its clock.
    const uint64_t age_ns = now_ns - std::min(now_ns, before_ns);
    return age_ns >= (signal == SIGINT ? kSameIntNs : kSameTermNs);
}

void take(int signal) {
    const int saved_errno = errno;
    const uint64_t now_ns = SteadyClock().now_ns();  // clock_gettime(), which a handler may call
    const bool ends_now = is_asked_again(signal, now_ns);
    int none = 0;
    if (g_signal.compare_exchange_strong(none, signal)) {
        g_since_ns = now_ns;
        if (g_says_bytes.load() > 0) {
            tell("\nweir: ");
            tell(signal_name(signal));
            tell(" received: ");
            tell({g_says.load(), g_says_bytes.load()});
            tell(signal == SIGINT ? "; a second SIGINT ends the process at once\n"
                                  : "; another SIGTERM after a second ends the process at once\n");
        }
    } else if (ends_now) {
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

bool is_older_than(uint64_t age_ns, const std::atomic<uint64_t>& came_ns) noexcept {
    // relaxed: it guards no other data
    const uint64_t since_ns = came_ns.load(std::memory_order_relaxed);
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

void note_stop_command() noexcept {
    int none = 0;
    if (!g_signal.compare_exchange_strong(none, SIGTERM)) return;
    g_is_command = true;
    g_since_ns = SteadyClock().now_ns();
}

int stop_signal() noexcept {
    return g_signal.load(std::memory_order_relaxed);  // relaxed: it guards no other data
}

bool stop_signal_has_settled() noexcept {
    return is_older_than(kSettledNs, g_since_ns);
}

bool is_grace_over(uint32_t seconds) noexcept {
    return seconds > 0 && is_older_than(seconds * kSecond, g_term_ns);
}

int ended_by_grace(const Error& undone) {
    fmt::print(stderr, "weir: SIGTERM came, and --grace is over: {}\n", in_flags(undone.message()));
    return stop_exit_code(SIGTERM);
}

std::string_view signal_name(int signal) noexcept {
    if (signal == SIGTERM && g_is_command.load()) return "`weir stop`";
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
