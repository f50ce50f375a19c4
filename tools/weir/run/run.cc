// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/run/run.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/host_port.h"
#include "lib/base/json_text.h"
#include "lib/base/secret_seed.h"
#include "tools/weir/command.h"
#include "tools/weir/paths.h"
#include "tools/weir/run/rank_process.h"
#include "tools/weir/shared_flags.h"
#include "tools/weir/stop_signals.h"
#include "transport/net/reserved_port.h"

namespace weir::tools {
namespace {

/// Before the others are told to end: mostly they learn of the failure from the job, and say it better.
constexpr uint64_t kEndThemselvesNs = kSecond;
constexpr uint32_t kStopsMax = 3;     // signals that ask to stop; the last one ends all at once
constexpr size_t kWriteBytes = 4096;  // PIPE_BUF: a pipe with room takes that without waiting
constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
/// By which programs find the launcher that this process was started by, if it was.
constexpr std::array<std::string_view, 2> kOfLaunchers = {"PMIX_", "PMI_"};

/// The file with the secret of a job that nobody else is to find. Removed at the end.
class SecretFile {
public:
    SecretFile() = default;
    SecretFile(const SecretFile&) = delete;
    SecretFile& operator=(const SecretFile&) = delete;

    ~SecretFile() {
        if (!path_.empty()) (void)::unlink(path_.c_str());
    }

    Status make() {
        std::error_code error;
        const auto folder = std::filesystem::temp_directory_path(error);
        std::string path = (error ? "/tmp" : folder.string()) + "/weir-secret-XXXXXX";
        const Descriptor file(::mkostemp(path.data(), O_CLOEXEC));  // mode 0600
        if (!file) return cannot_write(path);
        path_ = path;
        for (int i = 0; i < 4; ++i) {
            const std::string number = fmt::format("{:016x}", secret_seed());
            if (::write(file.get(), number.data(), number.size()) !=
                static_cast<ssize_t>(number.size()))
                return cannot_write(path);
        }
        return {};
    }

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    static Error cannot_write(const std::string& path) {
        return {Errc::kIo,
                fmt::format("{}: cannot write this file for the secret of the job; set TMPDIR to a "
                            "folder with free space, or give WEIR_SECRET_FILE",
                            path),
                errno};
    }

    std::string path_;
};

/// What all ranks have in common. Kept until they have ended.
struct Meeting {
    std::string at;
    std::optional<transport::ReservedPort> port;
    SecretFile secret;

    Status arrange(const RunFlags& flags, const Config& config) {
        at = flags.rendezvous.empty() ? config.text("WEIR_RENDEZVOUS") : flags.rendezvous;
        if (!at.empty()) {
            const Result<HostPort> parsed = HostPort::parse(at);
            if (parsed) return {};
            return Error(
                Errc::kInvalidArgument,
                fmt::format("{}: {}", flags.rendezvous.empty() ? "WEIR_RENDEZVOUS" : "--rendezvous",
                            parsed.error().text()));
        }
        WEIR_ASSIGN(port, transport::ReservedPort::make());
        at = fmt::format("127.0.0.1:{}", port->number());
        return config.text("WEIR_SECRET_FILE").empty() ? secret.make() : Status();
    }
};

/// Whether a rank ended as those of a job do that is stopped (stop_exit_code()).
bool is_of_stopped(int status) {
    return WIFEXITED(status) && (WEXITSTATUS(status) == stop_exit_code(SIGINT) ||
                                 WEXITSTATUS(status) == stop_exit_code(SIGTERM));
}

std::string signal_text(int status) {
    const char* const name = ::sigabbrev_np(WTERMSIG(status));
    return fmt::format("SIG{}", name == nullptr ? "?" : name);
}

std::string status_text(int status) {
    if (is_of_stopped(status))
        return fmt::format("was stopped (exit code {})", WEXITSTATUS(status));
    if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
    return fmt::format("was ended by {}", signal_text(status));
}

int exit_code(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Thread: one, which is the only one of the process
class Ranks {
public:
    explicit Ranks(const RunFlags& flags) : flags_(flags) {
        (void)std::signal(SIGPIPE, SIG_IGN);
        (void)std::signal(SIGCHLD, SIG_DFL);  // who has started this may ignore it
        sigset_t mine;
        (void)::sigemptyset(&mine);
        (void)::sigaddset(&mine, SIGCHLD);
        for (const int signal : kForwarded) {
            struct sigaction action = {};
            const bool is_ignored =
                ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
            if (!is_ignored) (void)::sigaddset(&mine, signal);
        }
        (void)::sigprocmask(SIG_BLOCK, &mine, &before_);
        signals_ = Descriptor(::signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK));
    }

    Status start(const Meeting& meeting, const Config& config);
    int wait();
    /// How each rank ended.
    [[nodiscard]] std::string json() const;

    void kill_all() {
        tell_all(SIGKILL);
        for (RankProcess& rank : ranks_) {
            if (!rank.has_ended) (void)::waitpid(rank.pid, nullptr, 0);
        }
    }

private:
    [[nodiscard]] std::vector<std::string> environment(const Meeting& meeting, const Config& config,
                                                       uint32_t rank) const;
    void tell_all(int signal) const;
    void take_signals();
    void take_ended();
    void failed(size_t rank, int status);
    void end_late_ones();
    [[nodiscard]] int timeout_ms() const;
    void copy_output(RankProcess& rank, OutputPipe& pipe);
    void write(int to, std::string_view text);
    [[nodiscard]] bool is_over() const;

    const RunFlags& flags_;
    SteadyClock clock_;
    Descriptor signals_;
    sigset_t before_{};
    std::vector<RankProcess> ranks_;
    uint32_t stops_ = 0;  ///< signals that ask to stop
    int code_ = kExitOk;
    int next_signal_ = 0;      ///< to all that are left
    uint64_t next_at_ns_ = 0;  ///< then
};

/// Variables that are not for these ranks are left out: those of a launcher, and empty ones.
std::vector<std::string> Ranks::environment(const Meeting& meeting, const Config& config,
                                            uint32_t rank) const {
    Environment::Map values = config.environment().values();
    std::erase_if(values, [](const auto& entry) {
        return std::ranges::any_of(kOfLaunchers,
                                   [&](auto prefix) { return entry.first.starts_with(prefix); });
    });
    for (const auto& [name, value] : flags_.variables)
        values[name] = value;
    values["WEIR_RENDEZVOUS"] = meeting.at;
    values["WEIR_RANK"] = std::to_string(rank);
    values["WEIR_SIZE"] = std::to_string(flags_.ranks);
    if (!meeting.secret.path().empty()) values["WEIR_SECRET_FILE"] = meeting.secret.path();
    std::vector<std::string> list;
    list.reserve(values.size());
    for (const auto& [name, value] : values)
        list.push_back(fmt::format("{}={}", name, value));
    return list;
}

Status Ranks::start(const Meeting& meeting, const Config& config) {
    if (!signals_) return Error(Errc::kIo, "cannot wait for signals", errno);
    const bool is_terminal = ::isatty(STDIN_FILENO) == 1;  // only one process group may read it
    const int width = static_cast<int>(std::to_string(flags_.ranks - 1).size());
    for (uint32_t rank = 0; rank < flags_.ranks; ++rank) {
        auto started = start_rank(flags_.command, environment(meeting, config, rank),
                                  rank == 0 && !is_terminal, before_);
        if (!started) return started.error();
        if (is_stdout(flags_.json)) started->outputs[0].to = STDERR_FILENO;
        started->prefix = fmt::format("[{:{}}] ", rank, width);
        ranks_.push_back(*std::move(started));
    }
    return {};
}

void Ranks::tell_all(int signal) const {
    for (const RankProcess& rank : ranks_) {
        if (!rank.has_ended) (void)::kill(-rank.pid, signal);
    }
}

void Ranks::take_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
        const int signal = static_cast<int>(info.ssi_signo);
        if (signal == SIGCHLD) continue;
        const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
        if (stops && ++stops_ >= kStopsMax) {
            fmt::print(stderr, "weir: a third signal to stop: all ranks are killed\n");
            tell_all(SIGKILL);
        } else {
            tell_all(signal);
        }
    }
    take_ended();
}

/// A rank that failed may have left processes behind, which would write on.
void Ranks::take_ended() {
    for (size_t i = 0; i < ranks_.size(); ++i) {
        RankProcess& rank = ranks_[i];
        siginfo_t info{};
        if (rank.has_ended ||
            ::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            continue;
        if (info.si_pid == 0) continue;
        const bool is_good = info.si_code == CLD_EXITED && info.si_status == 0;
        if (!is_good) (void)::kill(-rank.pid, SIGKILL);
        (void)::waitpid(rank.pid, &rank.status, 0);
        rank.has_ended = true;
        if (!is_good) failed(i, rank.status);
    }
}

void Ranks::failed(size_t rank, int status) {
    const bool is_first = code_ == kExitOk;
    if (is_first) code_ = exit_code(status);
    if (stops_ > 0 || next_signal_ != 0) return;  // as it was told
    const auto left =
        static_cast<size_t>(std::ranges::count(ranks_, false, &RankProcess::has_ended));
    if (!is_first && left == 0) return;
    fmt::print(stderr, "weir: rank {} {}{}\n", rank, status_text(status),
               left == 0               ? ""
               : flags_.goes_on        ? "; the others go on (--keep-going)"
               : is_of_stopped(status) ? "; the others end, too"
                                       : "; the others are ended");
    if (flags_.goes_on || left == 0) return;
    next_signal_ = SIGTERM;
    // What is stopped in order may have much to write.
    next_at_ns_ = clock_.now_ns() + (is_of_stopped(status)
                                         ? std::max(kEndThemselvesNs, flags_.grace_s * kSecond)
                                         : kEndThemselvesNs);
}

void Ranks::end_late_ones() {
    if (next_signal_ == 0 || clock_.now_ns() < next_at_ns_) return;
    if (next_signal_ == SIGKILL)
        fmt::print(stderr, "weir: {} s after SIGTERM: the ranks that are left are killed\n",
                   flags_.grace_s);
    tell_all(next_signal_);
    const bool is_last = next_signal_ == SIGKILL;
    next_signal_ = SIGKILL;
    next_at_ns_ =
        is_last || flags_.grace_s == 0 ? ~uint64_t{0} : clock_.now_ns() + flags_.grace_s * kSecond;
}

int Ranks::timeout_ms() const {
    if (next_signal_ == 0 || next_at_ns_ == ~uint64_t{0}) return -1;
    const uint64_t now_ns = clock_.now_ns();
    return now_ns >= next_at_ns_ ? 0 : static_cast<int>((next_at_ns_ - now_ns) / kMillisecond) + 1;
}

/// Signals are taken while the reader of the output does not read.
void Ranks::write(int to, std::string_view text) {
    while (!text.empty()) {
        std::array<pollfd, 2> wanted{pollfd{to, POLLOUT, 0}, pollfd{signals_.get(), POLLIN, 0}};
        (void)::poll(wanted.data(), wanted.size(), timeout_ms());
        take_signals();
        end_late_ones();
        if (wanted[0].revents == 0) continue;
        const ssize_t wrote = ::write(to, text.data(), std::min(text.size(), kWriteBytes));
        if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (wrote < 0) {  // nobody reads it any more, or its disk is full
            if (code_ == kExitOk && to == STDOUT_FILENO) {
                fmt::print(stderr, "weir: error: standard output: {}; the ranks are ended\n",
                           std::strerror(errno));
                code_ = kExitFailure;
            }
            if (next_signal_ == 0) {
                next_signal_ = SIGTERM;
                next_at_ns_ = clock_.now_ns();
            }
            return;
        }
        text.remove_prefix(static_cast<size_t>(wrote));
    }
}

void Ranks::copy_output(RankProcess& rank, OutputPipe& pipe) {
    const std::string lines = pipe.take(rank.prefix);
    write(pipe.to, lines);
}

/// Who has ended may have left a process that has its pipe: what that writes later is not waited for.
bool Ranks::is_over() const {
    return std::ranges::all_of(ranks_, &RankProcess::has_ended);
}

int Ranks::wait() {
    constexpr int kRestsMax =
        64;  // what is left in a pipe; a process that was left behind may write on
    int rests = 0;
    for (bool is_last = false;;) {
        std::vector<pollfd> wanted{{signals_.get(), POLLIN, 0}};
        std::vector<std::pair<RankProcess*, OutputPipe*>> pipes;
        for (RankProcess& rank : ranks_) {
            for (OutputPipe& pipe : rank.outputs) {
                if (!pipe.from) continue;
                wanted.push_back({pipe.from.get(), POLLIN, 0});
                pipes.emplace_back(&rank, &pipe);
            }
        }
        const int ready = ::poll(wanted.data(), wanted.size(), is_last ? 0 : timeout_ms());
        if (is_last && (ready <= 0 || ++rests > kRestsMax)) return code_;
        for (size_t i = 0; i < pipes.size(); ++i) {
            if (wanted[i + 1].revents != 0) copy_output(*pipes[i].first, *pipes[i].second);
        }
        take_signals();
        end_late_ones();
        is_last = is_over();
    }
}

std::string Ranks::json() const {
    auto ranks = nlohmann::ordered_json::array();
    for (const RankProcess& rank : ranks_) {
        nlohmann::ordered_json one{{"rank", ranks.size()}, {"exit_code", exit_code(rank.status)}};
        if (WIFSIGNALED(rank.status)) one["signal"] = signal_text(rank.status);
        ranks.push_back(std::move(one));
    }
    const bool was_stopped = code_ == stop_exit_code(SIGINT) || code_ == stop_exit_code(SIGTERM);
    return json_text(nlohmann::ordered_json{
        {"exit_code", code_}, {"was_stopped", was_stopped}, {"ranks", std::move(ranks)}});
}

}  // namespace

int run_ranks(const RunFlags& flags, const Config& config) {
    const std::array<NamedPath, 1> outputs{NamedPath{"--json", flags.json}};
    if (const Status good = check_outputs(outputs); !good) return failure(good.error());
    Meeting meeting;
    if (const Status arranged = meeting.arrange(flags, config); !arranged)
        return failure(arranged.error());
    Ranks ranks(flags);
    if (const Status started = ranks.start(meeting, config); !started) {
        ranks.kill_all();
        return failure(started.error());
    }
    const int code = ranks.wait();
    if (flags.json.empty()) return code;
    const Status told = print_result(flags.json, "", ranks.json());
    return told || code != kExitOk ? code : failure(told.error());
}

}  // namespace weir::tools
