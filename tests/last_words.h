// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// last_words: what code prints before it aborts.

#include <csignal>
#include <string>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weir::testing {

/// Runs `work` in a child process, and returns its output on stderr before it aborts.
template <class Work>
std::string last_words(Work&& work) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)std::signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        work();
        _exit(0);
    }
    (void)close(ends[1]);
    std::string said;
    char part[256];
    for (ssize_t n = 0; (n = read(ends[0], part, sizeof part)) > 0;)
        said.append(part, static_cast<size_t>(n));
    (void)close(ends[0]);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
    return said;
}

}  // namespace weir::testing
