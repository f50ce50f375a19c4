// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/child_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weir::bench {
namespace {

constexpr const char* kThisProgram = "/proc/self/exe";

/// `program` is looked for in PATH if it has no slash.
Result<pid_t> start(const char* program, std::vector<std::string> arguments,
                    std::vector<std::string> variables) {
    std::vector<char*> argv;
    for (std::string& argument : arguments)
        argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (std::string& variable : variables)
        environment.push_back(variable.data());
    for (char* const* inherited = environ; *inherited != nullptr; ++inherited) {
        const std::string_view name =
            std::string_view(*inherited).substr(0, std::string_view(*inherited).find('=') + 1);
        const bool is_replaced = std::ranges::any_of(
            variables, [&](const std::string& variable) { return variable.starts_with(name); });
        if (!is_replaced) environment.push_back(*inherited);
    }
    environment.push_back(nullptr);
    pid_t pid = 0;
    const int code = posix_spawnp(&pid, program, nullptr, nullptr, argv.data(), environment.data());
    if (code != 0)
        return Error(Errc::kIo, fmt::format("weir bench: cannot start {}", arguments[0]), code);
    return pid;
}

}  // namespace

Result<pid_t> start_this_program(std::vector<std::string> arguments,
                                 std::vector<std::string> variables,
                                 std::vector<std::string> within) {
    if (within.empty()) return start(kThisProgram, std::move(arguments), std::move(variables));
    std::error_code failed;
    arguments[0] = std::filesystem::read_symlink(kThisProgram, failed);
    if (failed)
        return Error(Errc::kIo, "weir bench: this program's path is unknown", failed.value());
    std::ranges::move(arguments, std::back_inserter(within));
    const std::string program = within[0];
    return start(program.c_str(), std::move(within), std::move(variables));
}

Status run_command(std::vector<std::string> words) {
    const std::string program = words[0];
    WEIR_ASSIGN(const pid_t pid, start(program.c_str(), std::move(words), {}));
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return {};
    return Error(Errc::kIo, fmt::format("{} {}", program, end_text(status)));
}

std::vector<std::string> words_of(const std::string& command) {
    std::istringstream text(command);
    return {std::istream_iterator<std::string>(text), {}};
}

std::string end_text(int status) {
    if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
    return fmt::format("failed with exit code {}; its error stands above", WEXITSTATUS(status));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
    if (this != &other) {
        kill();
        pid_ = std::exchange(other.pid_, 0);
    }
    return *this;
}

ChildProcess::~ChildProcess() {
    kill();
}

void ChildProcess::kill() noexcept {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::send(int signal) const noexcept {
    if (pid_ != 0) ::kill(pid_, signal);
}

void ChildProcess::stop() const noexcept {
    if (pid_ == 0) return;
    send(SIGSTOP);
    siginfo_t happened{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &happened, WSTOPPED | WEXITED | WNOWAIT) < 0 &&
           errno == EINTR) {
    }
}

std::optional<int> ChildProcess::ended() {
    int status = 0;
    if (pid_ == 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = 0;
    return status;
}

}  // namespace weir::bench
