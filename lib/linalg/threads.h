// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Threads: several threads for one piece of work after the other.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace weir::linalg {

/// Thread: any, one at a time
class Threads {
public:
    /// `count`: threads, with the one that calls; at least 1.
    /// Errors: throws std::system_error if the system has no thread left
    explicit Threads(uint32_t count);
    ~Threads();
    Threads(const Threads&) = delete;
    Threads& operator=(const Threads&) = delete;

    [[nodiscard]] uint32_t count() const noexcept { return count_; }

    /// Calls work(part) for the parts 0 .. count() - 1 at once, and returns when all have returned. `work`
    /// must not throw, nor call this again.
    void run(const std::function<void(uint32_t part)>& work);

    /// Calls work(begin, end, part) for parts of 0 .. size - 1 of nearly one size, in order of their numbers.
    /// With less than `least` for each, for fewer parts.
    template <class Work>
    void split(size_t size, size_t least, const Work& work) {
        const size_t parts = parts_of(size, least);
        if (parts <= 1) return work(size_t{0}, size, uint32_t{0});
        run([&](uint32_t part) {
            if (part < parts) work(size * part / parts, size * (part + 1) / parts, part);
        });
    }

    /// How many parts split() makes.
    [[nodiscard]] size_t parts_of(size_t size, size_t least) const noexcept {
        const size_t most = least == 0 ? count_ : size / least;
        return most < 1 ? 1 : most < count_ ? most : count_;
    }

private:
    class Pool;

    uint32_t count_;
    std::unique_ptr<Pool> pool_;  ///< null: there is one thread
};

/// split() with some threads, or without.
template <class Work>
void split_over(Threads* threads, size_t size, size_t least, const Work& work) {
    if (threads == nullptr) return work(size_t{0}, size, uint32_t{0});
    threads->split(size, least, work);
}

}  // namespace weir::linalg
