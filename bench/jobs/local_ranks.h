// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// run_local_ranks: starts the processes of a bench on this host.

#include <string>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace weir::bench {

/// A folder for this user only; the destructor removes it.
class ScratchFolder {
public:
    /// Errors: kIo
    [[nodiscard]] static Result<ScratchFolder> make();

    ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

    ScratchFolder& operator=(ScratchFolder&&) = delete;
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    explicit ScratchFolder(std::string path) noexcept : path_(std::move(path)) {}

    std::string path_;
};

/// Runs this program `count` times with `arguments` and the flags of its rank, and waits for all
/// of these processes. After an error it kills those that still run.
/// Errors: kIo: a process could not start, failed or died
[[nodiscard]] Status run_local_ranks(const std::vector<std::string>& arguments, size_t count);

}  // namespace weir::bench
