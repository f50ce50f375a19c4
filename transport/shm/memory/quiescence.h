// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Quiescence: lets deregister_memory() wait until no other thread of this process copies from or
/// to the memory, because its owner may free it right afterwards.
///
///     reader:      turn becomes odd;       checks that the region is registered;  uses it;
///                  turn becomes even
///     deregister:  the region is removed;  waits while a turn that is odd stays the same
///
/// Both first steps and both loads after them are seq_cst, so that at least one side sees the
/// other.

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
            // release: our accesses to the memory come before the waiting thread sees this and
            // frees it
            turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        }

        [[nodiscard]] bool entered() const noexcept {
            return turn_.load(std::memory_order_relaxed) % 2 != 0;  // the owner's own store
        }

    private:
        friend class Quiescence;
        std::atomic<uint64_t> turn_{0};             ///< odd: its owner uses memory
        std::atomic<const void*> thread_{nullptr};  ///< the one inside; it must not wait for itself
    };

    /// Adds the mark of one endpoint. Thread: any.
    [[nodiscard]] std::shared_ptr<Reader> join();
    /// Removes it; its endpoint uses no memory any more. Thread: the endpoint's.
    void part(const std::shared_ptr<Reader>& reader);

    /// Waits until every reader of another thread that uses memory now has left. False: one did
    /// not leave within the time; its thread may have stopped polling while memory is mapped.
    [[nodiscard]] bool wait(uint64_t timeout_ns);

private:
    std::mutex mutex_;
    std::vector<std::shared_ptr<Reader>> readers_;
};

}  // namespace weir::transport::shm
