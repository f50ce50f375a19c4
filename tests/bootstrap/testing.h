// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the bootstrap's tests share: a clock that runs on by itself, a temporary file.

#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"

namespace weir {

/// Advances by a step at each call of now_ns(), so that time limits pass without waiting.
class HurriedClock final : public Clock {
public:
    explicit HurriedClock(uint64_t step_ns = 100 * kMillisecond) : step_ns_(step_ns) {}

    [[nodiscard]] uint64_t now_ns() const noexcept override {
        return now_ns_.fetch_add(step_ns_, std::memory_order_relaxed);  // nothing is ordered by it
    }

private:
    uint64_t step_ns_;
    mutable std::atomic<uint64_t> now_ns_{1};
};

[[nodiscard]] inline bool mentions(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

/// A file with some content and mode, gone at the end.
class TemporaryFile {
public:
    TemporaryFile(std::string_view content, mode_t mode) {
        char path[] = "/tmp/weir-bootstrap-XXXXXX";
        const int fd = ::mkstemp(path);
        path_ = path;
        ::close(fd);
        std::ofstream(path_) << content;
        (void)::chmod(path, mode);
    }

    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    ~TemporaryFile() { ::unlink(path_.c_str()); }

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    std::string path_;
};

}  // namespace weir
