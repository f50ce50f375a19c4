// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/doorbell.h"

#include <cerrno>

#include <linux/membarrier.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weir::transport::shm {

bool register_for_membarrier() noexcept {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void heavy_fence(bool have_membarrier) noexcept {
    // on this core, `armed` is stored before any later load...
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // ...and every running sender has either seen it or finished its earlier stores
    if (have_membarrier) {
        static_cast<void>(syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0));
    }
}

Result<Doorbell> Doorbell::make() {
    Descriptor fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!fd) return Error(Errc::kIo, "shm: cannot make an eventfd (see `ulimit -n`)", errno);
    return Doorbell(std::move(fd));
}

void Doorbell::ring() const noexcept {
    const uint64_t one = 1;
    static_cast<void>(!write(fd_.get(), &one, sizeof(one)));  // it fails only if it rings already
}

void Doorbell::drain() const noexcept {
    uint64_t count = 0;
    static_cast<void>(!read(fd_.get(), &count, sizeof(count)));
}

}  // namespace weir::transport::shm
