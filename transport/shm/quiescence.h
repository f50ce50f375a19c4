// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Quiescence: lets deregister_memory wait until no other thread of this process is still copying
/// from or to the memory, which its owner may free right after.
///
/// A user of memory:   turn becomes odd;  looks whether the region is registered;  uses it;  turn
/// becomes even.   The deregistering:  region is gone;  waits while an odd turn stays the same
///
/// Both first steps and both looks are seq_cst, so one of the two sees the other.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weir::transport::shm {

class Quiescence {
public:
    /// One endpoint's mark, on a cache line of its own. Thread: the endpoint's.
    class alignas(64) Reader {
    public:
        void enter() noexcept;

        void leave() noexcept {
            // release: our uses of the memory come before whoever sees us gone frees it
            turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        }

        [[nodiscard]] bool entered() const noexcept {
            return turn_.load(std::memory_order_relaxed) % 2 != 0;  // our own
        }

    private:
        friend class Quiescence;
        std::atomic<uint64_t> turn_{0};             ///< odd: uses memory
        std::atomic<const void*> thread_{nullptr};  ///< who entered; it must not wait for itself
    };

    [[nodiscard]] std::shared_ptr<Reader> join();
    void part(const std::shared_ptr<Reader>& reader);

    /// Waits until every reader of another thread has left since this call began. False: one did
    /// not within the time; its thread may have stopped polling with memory mapped.
    [[nodiscard]] bool wait(uint64_t timeout_ns);

private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<Reader>> readers_;
};

}  // namespace weir::transport::shm
