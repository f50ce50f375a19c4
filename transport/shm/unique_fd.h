// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// UniqueFd: a file descriptor with one owner.

#include <utility>

#include <unistd.h>

namespace weir::transport::shm {

class UniqueFd {
public:
    UniqueFd() = default;

    explicit UniqueFd(int fd) noexcept : fd_(fd) {}

    UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

    UniqueFd& operator=(UniqueFd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }

    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;

    ~UniqueFd() { reset(); }

    void reset() noexcept {
        if (fd_ >= 0) close(fd_);
        fd_ = -1;
    }

    /// -1 if there is none.
    [[nodiscard]] int get() const noexcept { return fd_; }

    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

private:
    int fd_ = -1;
};

}  // namespace weir::transport::shm
