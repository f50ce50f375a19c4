// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Wakes a sleeping peer without lost wake-ups and, in most cases, without a fence.
///
/// The sleeper:  armed = 1;     heavy fence;  look into the rings once more;  sleep
/// The sender:   show records;  light fence;  if armed: armed = 0 and ring the bell
///
/// At least one of the two must see the other's store. Two full fences would ensure that, but the
/// sender would then wait for its store buffer on every flush, a cache miss each time. The
/// sleeper is about to spend microseconds anyway. So the sleeper makes every core that runs a
/// registered process execute a barrier (membarrier), and the sender needs none. Where the kernel
/// has no membarrier, both sides use full fences; the handshake decides which.

#include <atomic>
#include <cstdint>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/shm/byte_ring.h"

namespace weir::transport::shm {

/// Registers this process for membarrier. False: the kernel has none. May be called repeatedly.
[[nodiscard]] bool register_for_membarrier() noexcept;

/// The sleeper's fence.
void heavy_fence(bool have_membarrier) noexcept;

/// The sender's fence. `asymmetric`: both processes are registered for membarrier.
inline void light_fence(bool asymmetric) noexcept {
    if (asymmetric) {
        // only the compiler must keep the order; the sleeper's membarrier orders the CPU's
        // accesses
        std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
        // a full fence: even x86 may move the load of `armed` before the store of the header
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
}

inline void set_armed(RingControl* control, bool armed) noexcept {
    // relaxed: ordered by heavy_fence()
    std::atomic_ref<uint32_t>(control->armed).store(armed ? 1 : 0, std::memory_order_relaxed);
}

/// Whether the reader sleeps. If so, clears the mark: the caller must ring, once.
[[nodiscard]] inline bool take_armed(RingControl* control) noexcept {
    // relaxed: ordered by light_fence(); the system call that rings orders the clearing store
    std::atomic_ref<uint32_t> armed(control->armed);
    if (armed.load(std::memory_order_relaxed) == 0) return false;
    armed.store(0, std::memory_order_relaxed);
    return true;
}

/// What an endpoint sleeps on for peers in its own process. Any thread may ring it.
class Doorbell {
public:
    /// Errors: kIo
    [[nodiscard]] static Result<Doorbell> make();

    void ring() const noexcept;
    void drain() const noexcept;

    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

private:
    explicit Doorbell(Descriptor fd) noexcept : fd_(std::move(fd)) {}

    Descriptor fd_;
};

}  // namespace weir::transport::shm
