// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Waking a sleeping peer without a lost wake-up and, mostly, without a fence.
///
/// The sleeper:  armed = 1;     heavy fence;  look into the rings once more;  sleep
/// The sender:   show records;  light fence;  armed? then armed = 0 and ring
///
/// One of the two must see the other's store. Two full fences would do, but the sender's would wait
/// for its store buffer on every flush, a cache miss each time. So the sleeper, who is about to
/// spend microseconds anyway, makes every core that runs one of us execute a barrier (membarrier),
/// and the sender needs none. Where the kernel has no membarrier, both sides use full fences; the
/// handshake says which.

#include <atomic>
#include <cstdint>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/shm/byte_ring.h"

namespace weir::transport::shm {

/// Registers this process for membarrier; false where there is none. May be called often.
[[nodiscard]] bool register_for_membarrier() noexcept;

/// The sleeper's fence.
void heavy_fence(bool have_membarrier) noexcept;

/// The sender's fence; `asymmetric` if both processes are registered.
inline void light_fence(bool asymmetric) noexcept {
    if (asymmetric) {
        // only the compiler must keep the order; the sleeper's membarrier does the rest
        std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
        // store of the header before load of `armed`: the one order that x86 does not keep
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }
}

inline void set_armed(RingControl* control, bool armed) noexcept {
    // relaxed: ordered by heavy_fence()
    std::atomic_ref<uint32_t>(control->armed).store(armed ? 1 : 0, std::memory_order_relaxed);
}

/// Whether the reader sleeps; if so, it is ours to ring, once.
[[nodiscard]] inline bool take_armed(RingControl* control) noexcept {
    // relaxed: ordered by light_fence(); the bell's system call orders the rest
    std::atomic_ref<uint32_t> armed(control->armed);
    if (armed.load(std::memory_order_relaxed) == 0) return false;
    armed.store(0, std::memory_order_relaxed);
    return true;
}

/// What an endpoint sleeps on for peers in its own process. Ringing is allowed from any thread.
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
