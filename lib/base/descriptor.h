// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Descriptor: owns a file descriptor and closes it when it is destroyed.

#include <utility>

#include <unistd.h>

namespace weir {

class Descriptor {
public:
    Descriptor() = default;

    explicit Descriptor(int fd) noexcept : fd_(fd) {}

    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

    /// Closes the descriptor that it held.
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }

    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    ~Descriptor() { reset(); }

    /// -1 if there is none.
    [[nodiscard]] int get() const noexcept { return fd_; }

    [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

    /// For who must know whether the last writes arrived. Returns 0, or -1 and sets errno.
    [[nodiscard]] int close() noexcept { return ::close(std::exchange(fd_, -1)); }

    void reset() noexcept {
        if (fd_ >= 0) ::close(fd_);
        fd_ = -1;
    }

private:
    int fd_ = -1;
};

}  // namespace weir
