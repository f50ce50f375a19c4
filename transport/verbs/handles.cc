// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/handles.h"

#include <cerrno>
#include <fstream>
#include <string>

#include <sys/mman.h>
#include <sys/resource.h>

#include "lib/base/log.h"

namespace weir::transport::verbs {

namespace {

constexpr uint64_t kPageBytes = 4096;

/// The bytes that this process has pinned for devices (VmPin of /proc/self/status). The kernel
/// counts these, not VmLck, against the limit for registered memory.
uint64_t pinned_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word != "VmPin:") continue;
        uint64_t kib = 0;
        status >> kib;
        return kib * 1024;
    }
    return 0;
}

Error no_memory(uint64_t wanted_bytes, int code) {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    const uint64_t pages_bytes = (wanted_bytes + 2 * kPageBytes - 1) / kPageBytes * kPageBytes;
    const uint64_t needed_bytes = pinned_bytes() + pages_bytes;
    if (limit.rlim_cur == RLIM_INFINITY || needed_bytes <= limit.rlim_cur) {
        return {Errc::kNoMemory,
                fmt::format("cannot register {} bytes with the RDMA device, although the limit of "
                            "locked memory allows it: the machine or the device has no more",
                            wanted_bytes),
                code};
    }
    return {Errc::kNoMemory,
            fmt::format("cannot register {} bytes with the RDMA device: the limit of locked memory "
                        "is {} KiB and {} KiB of it are in use; set `ulimit -l {}` or more (or "
                        "`ulimit -l unlimited`) before the start",
                        wanted_bytes, limit.rlim_cur / 1024, pinned_bytes() / 1024,
                        (needed_bytes + 1023) / 1024),
            code};
}

}  // namespace

void log_failed_release(const char* what, int code) noexcept {
    const Error error(Errc::kIo, fmt::format("verbs: {} could not be released", what),
                      code > 0 ? code : errno);
    log(LogLevel::kWarning, "{}", error.message());
}

Result<MrPtr> register_pages(ibv_pd* pd, std::span<std::byte> bytes, int access) {
    MrPtr mr(ibv_reg_mr(pd, bytes.data(), bytes.size(), access));
    if (mr != nullptr) return mr;
    const int code = errno;
    if (code == ENOMEM) return no_memory(bytes.size(), code);
    return Error(Errc::kInvalidArgument,
                 fmt::format("cannot register {} bytes at {} with the RDMA device: they must be "
                             "mapped and writable",
                             bytes.size(), static_cast<const void*>(bytes.data())),
                 code);
}

Result<RegisteredPages> RegisteredPages::make(ibv_pd* pd, size_t length_bytes) {
    void* const at = ::mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) {
        return Error(Errc::kNoMemory,
                     fmt::format("no memory for {} bytes of message buffers", length_bytes), errno);
    }
    // A forked child has no use for them. With it, the first of both that writes to a page would get
    // a copy, and this process may then have another page than the device.
    static_cast<void>(::madvise(at, length_bytes, MADV_DONTFORK));
    RegisteredPages pages;
    pages.bytes_ = {static_cast<std::byte*>(at), length_bytes};
    if (pd == nullptr) return pages;
    WEIR_ASSIGN(pages.mr_, register_pages(pd, pages.bytes_, IBV_ACCESS_LOCAL_WRITE));
    return pages;
}

RegisteredPages::~RegisteredPages() {
    mr_.reset();
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace weir::transport::verbs
