// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/status_watch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>

#include <fmt/core.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/base/counted.h"
#include "lib/base/machine/os_limits.h"
#include "lib/job/operator_connection.h"
#include "tools/weir/command.h"
#include "tools/weir/jobs/status_report.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

constexpr int kLookForSignalMs = 50;
constexpr size_t kShardLinesMax = 32;
constexpr size_t kBarColumns = 20;
constexpr std::string_view kHome = "\x1b[H";        // to the upper left corner
constexpr std::string_view kRestOfLine = "\x1b[K";  // is cleared
constexpr std::string_view kRestOfScreen = "\x1b[J";

struct Rates {
    double pushes = 0;
    double pulls = 0;
};

std::string rate_text(double per_s) {
    if (per_s >= 1e6) return fmt::format("{:.2f} M", per_s / 1e6);
    if (per_s >= 1e4) return fmt::format("{:.1f} k", per_s / 1e3);
    return fmt::format("{:.0f}", per_s);
}

/// Of each shard that has answered both times. One that has come anew begins at 0.
std::map<uint32_t, Rates> rates_between(const JobStatus& before, const JobStatus& now,
                                        double seconds) {
    std::map<uint32_t, const JobStatus::Shard*> old;
    for (const JobStatus::Server& server : before.servers) {
        for (const JobStatus::Shard& shard : server.shards)
            old[shard.number] = &shard;
    }
    std::map<uint32_t, Rates> rates;
    for (const JobStatus::Server& server : now.servers) {
        for (const JobStatus::Shard& shard : server.shards) {
            const auto was = old.find(shard.number);
            if (was == old.end() || !shard.answered || !was->second->answered) continue;
            const auto per_s = [&](uint64_t from, uint64_t to) {
                return static_cast<double>(to - std::min(from, to)) / seconds;
            };
            rates[shard.number] = {per_s(was->second->pushes, shard.pushes),
                                   per_s(was->second->pulls, shard.pulls)};
        }
    }
    return rates;
}

/// Two columns, or two of question marks.
std::string rates_text(const Rates* rates) {
    if (rates == nullptr) return fmt::format("{:>9}  {:>9}", "-", "-");
    return fmt::format("{:>9}  {:>9}", rate_text(rates->pushes), rate_text(rates->pulls));
}

std::string servers_text(const JobStatus& now, const std::map<uint32_t, Rates>& rates) {
    std::string text = "server  rank   share      memory   pushes/s    pulls/s     lease  host\n";
    for (const JobStatus::Server& server : now.servers) {
        double share = 0;
        uint64_t bytes = 0;
        Rates sum;
        bool is_known = false;
        for (const JobStatus::Shard& shard : server.shards) {
            share += shard.share;
            bytes += shard.bytes;
            const auto found = rates.find(shard.number);
            if (found == rates.end()) continue;
            is_known = true;
            sum.pushes += found->second.pushes;
            sum.pulls += found->second.pulls;
        }
        text += fmt::format(
            "{:6}  {:4}  {:4.1f} %  {:>10}  {}  {:>8}  {}{}{}\n", server.number, server.rank,
            share * 100, bytes_text(bytes), rates_text(is_known ? &sum : nullptr),
            server.lease_left_ms == 0 ? "none" : fmt::format("{} ms", server.lease_left_ms),
            server.host.empty() ? "?" : server.host, server.is_leaving ? "  is leaving" : "",
            server.silent_ms == 0 ? "" : fmt::format("  out of reach for {} ms", server.silent_ms));
    }
    return text;
}

std::string shards_text(const JobStatus& now, const std::map<uint32_t, Rates>& rates) {
    double most = 0;
    size_t count = 0;
    for (const JobStatus::Server& server : now.servers) {
        for (const JobStatus::Shard& shard : server.shards) {
            most = std::max(most, shard.share);
            ++count;
        }
    }
    if (count > kShardLinesMax || count == now.servers.size()) return {};
    std::string text = "shard  server   share      memory   pushes/s    pulls/s\n";
    for (const JobStatus::Server& server : now.servers) {
        for (const JobStatus::Shard& shard : server.shards) {
            const auto found = rates.find(shard.number);
            const size_t bar =
                most > 0 ? static_cast<size_t>(shard.share / most * double{kBarColumns} + 0.5) : 0;
            text += fmt::format("{:5}  {:6}  {:4.1f} %  {:>10}  {}  {}\n", shard.number,
                                server.number, shard.share * 100, bytes_text(shard.bytes),
                                rates_text(found == rates.end() ? nullptr : &found->second),
                                std::string(bar, '#'));
        }
    }
    return text;
}

std::string time_text() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    std::array<char, 16> text{};
    (void)::localtime_r(&now, &local);
    (void)std::strftime(text.data(), text.size(), "%H:%M:%S", &local);
    return text.data();
}

void show(const std::string& text, bool is_terminal) {
    winsize size{};
    const bool is_known =
        is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
    const std::string shown = !is_terminal ? text + "\n"
                              : is_known   ? on_screen(text, size.ws_row, size.ws_col)
                                           : on_screen(text, 24, 80);
    (void)std::fputs(shown.c_str(), stdout);
    (void)std::fflush(stdout);
}

}  // namespace

std::string watch_text(const JobStatus& before, const JobStatus& now, double seconds) {
    const std::map<uint32_t, Rates> rates =
        seconds > 0 ? rates_between(before, now, seconds) : std::map<uint32_t, Rates>();
    Rates all;
    for (const auto& [shard, is] : rates) {
        all.pushes += is.pushes;
        all.pulls += is.pulls;
    }
    std::string text =
        fmt::format("view {}: {}, {}, {}{}\n\n", now.epoch, counted(now.servers.size(), "server"),
                    counted(now.workers.size(), "worker"), counted(now.tables, "table"),
                    rates.empty() ? ""
                                  : fmt::format("; {} pushes/s, {} pulls/s", rate_text(all.pushes),
                                                rate_text(all.pulls)));
    text += servers_text(now, rates) + "\n";
    if (const std::string shards = shards_text(now, rates); !shards.empty()) text += shards + "\n";
    return text + rest_text(now);
}

std::string on_screen(const std::string& text, uint32_t rows, uint32_t columns) {
    std::string screen(kHome);
    uint32_t row = 0;
    for (size_t at = 0; at < text.size() && row + 1 < rows; ++row) {
        const size_t end = std::min(text.find('\n', at), text.size());
        screen += text.substr(at, std::min<size_t>(end - at, columns));
        screen.append(kRestOfLine).append("\n");
        at = end + 1;
    }
    return screen.append(kRestOfScreen);
}

int watch_status(const StatusFlags& flags, const Config& config) {
    remember_stop_signals("");
    OperatorConnection connection;
    if (const Status opened = connection.open(flags.contact, config); !opened)
        return failure(opened.error());
    const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    if (is_terminal) fmt::print("\x1b[2J");
    std::optional<JobStatus> before;
    uint64_t before_ns = 0;
    while (stop_signal() == 0) {
        const Result<JobStatus> status = connection.manager->status();
        const uint64_t now_ns = connection.clock.now_ns();
        if (!status) {
            const bool is_over =
                before && (status.code() == Errc::kUnavailable || signal_of(status.error()) != 0);
            if (!is_over) return failure(status.error());
            fmt::print("{}\n", in_flags(status.error().text()));
            return kExitOk;
        }
        const double seconds = before ? static_cast<double>(now_ns - before_ns) / 1e9 : 0;
        show(fmt::format("{}  {}  every {} s; Ctrl-C ends this\n", flags.contact, time_text(),
                         flags.every_s) +
                 watch_text(before.value_or(JobStatus()), *status, seconds),
             is_terminal);
        if (std::ferror(stdout) != 0) return kExitOk;  // main() says why, and fails
        before = *status;
        before_ns = now_ns;
        const auto next_ns = now_ns + static_cast<uint64_t>(flags.every_s * 1e9);
        while (stop_signal() == 0 && connection.clock.now_ns() < next_ns)
            (void)::poll(nullptr, 0, kLookForSignalMs);
    }
    return kExitOk;
}

}  // namespace weir::tools
