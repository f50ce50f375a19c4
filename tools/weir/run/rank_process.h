// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RankProcess: a process of `weir run`, and what it writes.

#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::tools {

/// The end of a pipe to which a process writes.
struct OutputPipe {
    Descriptor from;   ///< none: it has ended
    int to = -1;       ///< standard output or standard error of this process
    std::string rest;  ///< of a line that has not ended

    /// Reads what is there, without waiting. Returns whole lines, each behind `prefix`; at the end, or
    /// if it is long, also one that has not ended.
    [[nodiscard]] std::string take(const std::string& prefix);
};

struct RankProcess {
    pid_t pid = 0;  ///< also of its process group
    bool has_ended = false;
    int status = 0;  ///< as waitpid() has it, once it has ended
    std::string prefix;
    std::array<OutputPipe, 2> outputs;

    [[nodiscard]] bool writes() const { return outputs[0].from || outputs[1].from; }
};

/// Starts a program in a process group of its own. It ends with this process (SIGKILL).
///
/// has_stdin: it reads the standard input of this process, else nothing
/// signals:   the mask that it begins with
/// Errors:    kNotFound, kIo, naming the program
[[nodiscard]] Result<RankProcess> start_rank(const std::vector<std::string>& command,
                                             const std::vector<std::string>& environment,
                                             bool has_stdin, const sigset_t& signals);

}  // namespace weir::tools
