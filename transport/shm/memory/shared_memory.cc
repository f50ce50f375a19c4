// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/shared_memory.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010  // Linux 5.1; not in every libc's headers
#endif

namespace weir::transport::shm {

namespace {

Error no_memory(uint64_t length_bytes, std::string_view what_for, int os_error) {
    return {Errc::kNoMemory,
            fmt::format("no shared memory: {} KiB for {}; raise the memory limit of this job or "
                        "container (cgroup memory.max, ulimit -v, ulimit -f, ulimit -n), or use "
                        "fewer or smaller messages per connection",
                        (length_bytes + 1023) / 1024, what_for),
            os_error};
}

}  // namespace

Mapping::Mapping(void* base, size_t base_bytes, std::span<std::byte> bytes) noexcept
    : base_(base), base_bytes_(base_bytes), bytes_(bytes) {}

Mapping::Mapping(Mapping&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      base_bytes_(std::exchange(other.base_bytes_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(base_bytes_, other.base_bytes_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

Mapping::~Mapping() {
    if (base_ != nullptr) munmap(base_, base_bytes_);
}

Result<SharedBlock> make_shared(uint64_t length_bytes, Peers peers, std::string_view what_for) {
    SharedBlock block;
    block.fd = Descriptor(memfd_create("weir", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!block.fd) return no_memory(length_bytes, what_for, errno);
    // fallocate, not ftruncate: a page that cannot be allocated is an error now
    if (fallocate(block.fd.get(), 0, 0, static_cast<off_t>(length_bytes)) != 0) {
        return no_memory(length_bytes, what_for, errno);
    }
    void* const base = mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_POPULATE, block.fd.get(), 0);
    if (base == MAP_FAILED) return no_memory(length_bytes, what_for, errno);
    block.mapping = Mapping(base, length_bytes,
                            {static_cast<std::byte*>(base), static_cast<size_t>(length_bytes)});
    if (peers == Peers::kMayOnlyRead) {
        // Older kernels lack this seal. This process never reads the memory back, so a peer that
        // writes to it can only mislead other peers about which regions are still registered.
        static_cast<void>(fcntl(block.fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    }
    if (fcntl(block.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return Error(Errc::kUnavailable,
                     "this kernel cannot seal shared memory (F_ADD_SEALS): use another transport",
                     errno);
    }
    return block;
}

Result<Mapping> make_private(uint64_t length_bytes, std::string_view what_for) {
    void* const base =
        mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return no_memory(length_bytes, what_for, errno);
    return Mapping(base, length_bytes, {static_cast<std::byte*>(base), length_bytes});
}

bool sealed_against_shrinking(int fd) noexcept {
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

Result<Mapping> map_received(const ReceivedBlock& block) {
    if (!sealed_against_shrinking(block.fd)) {
        return Error(Errc::kProtocol, "it sent memory that is not sealed against shrinking");
    }
    struct stat state = {};
    if (fstat(block.fd, &state) != 0)
        return Error(Errc::kIo, "cannot look at the memory that it sent (fstat)", errno);
    const auto size_bytes = static_cast<uint64_t>(state.st_size);
    if (block.length_bytes == 0 || block.offset_bytes > size_bytes ||
        block.length_bytes > size_bytes - block.offset_bytes) {
        return Error(Errc::kProtocol,
                     fmt::format("it sent memory of {} bytes, although it promised {} at offset {}",
                                 size_bytes, block.length_bytes, block.offset_bytes));
    }
    if (block.populate &&
        fallocate(block.fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(block.offset_bytes),
                  static_cast<off_t>(block.length_bytes)) != 0) {
        return no_memory(block.length_bytes, "a connection that a peer made", errno);
    }
    // The offset for mmap must be a multiple of the page size, which is larger in hugetlb memory.
    const uint64_t page_bytes =
        state.st_blksize > 4096 ? static_cast<uint64_t>(state.st_blksize) : uint64_t{4096};
    const uint64_t before = block.offset_bytes % page_bytes;
    const size_t base_bytes =
        (before + block.length_bytes + page_bytes - 1) / page_bytes * page_bytes;
    const int protection = block.writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* const base =
        mmap(nullptr, base_bytes, protection, MAP_SHARED | (block.populate ? MAP_POPULATE : 0),
             block.fd, static_cast<off_t>(block.offset_bytes - before));
    if (base == MAP_FAILED) return no_memory(block.length_bytes, "a peer's memory", errno);
    return Mapping(base, base_bytes, {static_cast<std::byte*>(base) + before, block.length_bytes});
}

}  // namespace weir::transport::shm
