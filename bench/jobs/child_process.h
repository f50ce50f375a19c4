// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Processes that run this program: the ranks and the servers of a bench on this host.

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/result.h"

namespace weir::bench {

/// Starts this program with `arguments`, of which the first is the name that it is shown by, and
/// with `variables` ("NAME=value") in place of those in this process's environment. `within`: a
/// command that becomes the program that its last words name ({"ip", "netns", "exec", "a"}); empty: none.
/// Errors: kIo
[[nodiscard]] Result<pid_t> start_this_program(std::vector<std::string> arguments,
                                               std::vector<std::string> variables = {},
                                               std::vector<std::string> within = {});

/// Runs another command, and waits for its end.
/// Errors: kIo: it cannot be started, or has failed
[[nodiscard]] Status run_command(std::vector<std::string> words);

/// The words of a command, which blanks part.
[[nodiscard]] std::vector<std::string> words_of(const std::string& command);

/// How a process ended, from waitpid(): "was killed by signal 9", or "failed with exit code 1; its
/// error stands above".
[[nodiscard]] std::string end_text(int status);

/// A process that runs this program. The destructor kills it if it still runs.
class ChildProcess {
public:
    explicit ChildProcess(pid_t pid) noexcept : pid_(pid) {}

    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&& other) noexcept;
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;
    ~ChildProcess();

    /// If it still runs.
    void send(int signal) const noexcept;

    /// Sends SIGSTOP, and waits until it has stopped, or has ended.
    void stop() const noexcept;

    /// What waitpid() says, if it has ended.
    [[nodiscard]] std::optional<int> ended();

private:
    void kill() noexcept;

    pid_t pid_;  ///< 0: it was waited for
};

}  // namespace weir::bench
