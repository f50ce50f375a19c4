// SPDX-License-Identifier: Apache-2.0
#include "transport/pool/slab.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "lib/base/os_limits.h"
#include "lib/base/sys_file.h"
#include "lib/base/topology.h"

namespace weir::transport {
namespace {

constexpr uint64_t kAlignmentMin = 2 * kMiB;  // what transparent huge pages need
constexpr uint64_t kHugePages[] = {kGiB, 2 * kMiB};

uint64_t normal_page_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Whether pages of this size are worth it: at most an eighth more than asked for.
bool fits_pages(uint64_t size_bytes, uint64_t page_bytes) {
    return round_up(size_bytes, page_bytes) - size_bytes <= size_bytes / 8;
}

Error shortage(const SlabOptions& options, std::string_view what, int os_error = 0) {
    return {
        Errc::kNoMemory,
        fmt::format("pool '{}': {} wanted: {}", options.name, bytes_text(options.size_bytes), what),
        os_error};
}

/// The system kills (out of memory, file size) instead of refusing; so it is asked first.
Status check_room(const SlabOptions& options, uint64_t size_bytes, bool huge) {
    rlimit file_size{};
    if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && size_bytes > file_size.rlim_cur) {
        return shortage(options, fmt::format("shared memory may not be larger than the file size "
                                             "limit, {}; run `ulimit -f {}` before the program",
                                             bytes_text(file_size.rlim_cur),
                                             round_up(size_bytes, 1024) / 1024));
    }
    const uint64_t available_bytes = available_memory_bytes();
    if (!huge && size_bytes > available_bytes) {
        return shortage(options, fmt::format("only {} of memory is left on this machine or in this "
                                             "control group; set WEIR_POOL_MIB below {} or stop "
                                             "other programs",
                                             bytes_text(available_bytes),
                                             std::max<uint64_t>(available_bytes / kMiB, 1)));
    }
    return {};
}

Status check_huge_pages(const SlabOptions& options, uint64_t page_bytes) {
    const uint64_t needed = round_up(options.size_bytes, page_bytes) / page_bytes;
    const std::string folder =
        fmt::format("/sys/kernel/mm/hugepages/hugepages-{}kB", page_bytes / 1024);
    const uint64_t free = read_sys_number(folder + "/free_hugepages").value_or(0);
    if (free >= needed) return {};
    return shortage(
        options,
        fmt::format("{} of {} free huge pages of {} are there; set them aside "
                    "with `echo {} > {}/nr_hugepages` or do without "
                    "(WEIR_HUGE_PAGES=auto)",
                    free, needed, bytes_text(page_bytes),
                    read_sys_number(folder + "/nr_hugepages").value_or(0) + needed - free, folder));
}

}  // namespace

Result<Slab> Slab::make(const SlabOptions& options) {
    if (options.size_bytes == 0 || options.size_bytes > (uint64_t{1} << 46)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("pool '{}': {} is no size for a pool", options.name,
                                 bytes_text(options.size_bytes)));
    }
    if (options.huge_pages != HugePagePolicy::kNever) {
        Status refused;
        for (const uint64_t page_bytes : kHugePages) {
            if (page_bytes != kHugePages[1] && !fits_pages(options.size_bytes, page_bytes))
                continue;
            if (options.huge_pages == HugePagePolicy::kAuto &&
                !fits_pages(options.size_bytes, page_bytes)) {
                continue;
            }
            refused = check_huge_pages(options, page_bytes);
            if (!refused) continue;
            Result<Slab> slab = make_with_pages(options, page_bytes);
            if (slab) return slab;
            refused = slab.error();
        }
        if (options.huge_pages == HugePagePolicy::kAlways) return refused.error();
    }
    return make_with_pages(options, normal_page_bytes());
}

Result<Slab> Slab::make_with_pages(const SlabOptions& options, uint64_t page_bytes) {
    Slab slab;
    slab.page_bytes_ = page_bytes;
    const bool huge = page_bytes != normal_page_bytes();
    const uint64_t size_bytes = round_up(options.size_bytes, page_bytes);
    WEIR_TRY(check_room(options, size_bytes, huge));
    WEIR_TRY(slab.open(options, size_bytes));
    slab.memory_ = {static_cast<std::byte*>(nullptr), size_bytes};
    WEIR_TRY(slab.map(options));
    WEIR_TRY(slab.commit(options));
    return slab;
}

Status Slab::open(const SlabOptions& options, uint64_t size_bytes) {
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    if (page_bytes_ != normal_page_bytes()) {
        flags |= MFD_HUGETLB;
        flags |= static_cast<unsigned>(std::countr_zero(page_bytes_)) << MFD_HUGE_SHIFT;
    }
    fd_ = memfd_create(fmt::format("weir-{}", options.name).substr(0, 200).c_str(), flags);
    if (fd_ < 0) return shortage(options, "the system gave no shared memory", errno);
    if (ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) {
        return shortage(options, "shared memory of this size is refused", errno);
    }
    // nobody who maps it, we included, can make it shorter under the others' feet
    if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        return Error(Errc::kIo, fmt::format("pool '{}': cannot seal its memory", options.name),
                     errno);
    }
    return {};
}

Status Slab::map(const SlabOptions& options) {
    const uint64_t size_bytes = memory_.size();
    memory_ = {};
    const uint64_t alignment = std::max(page_bytes_, kAlignmentMin);
    // reserve more than needed, put the file at the first aligned address, give back both ends
    void* const space = mmap(nullptr, size_bytes + alignment, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        return shortage(options, "no address space is left (`ulimit -v unlimited`)", errno);
    }
    auto* const start = static_cast<std::byte*>(space);
    const uint64_t before = round_up(reinterpret_cast<uintptr_t>(space), alignment) -
                            reinterpret_cast<uintptr_t>(space);
    void* const memory =
        mmap(start + before, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0);
    if (memory == MAP_FAILED) {
        const int error = errno;
        munmap(space, size_bytes + alignment);
        return shortage(options, "the memory cannot be mapped", error);
    }
    if (before > 0) munmap(start, before);
    if (before < alignment) munmap(start + before + size_bytes, alignment - before);
    memory_ = {static_cast<std::byte*>(memory), size_bytes};
    if (page_bytes_ == normal_page_bytes() && options.huge_pages != HugePagePolicy::kNever) {
        // only a wish: where the kernel does not do it for shared memory, nothing is lost
        static_cast<void>(madvise(memory, size_bytes, MADV_HUGEPAGE));
    }
    if (options.numa_node != kAnyNode) {
        const Status bound = bind_memory(memory_, options.numa_node);
        if (!bound) note_ = bound.error().message();
    }
    return {};
}

Status Slab::commit(const SlabOptions& options) {
    // in steps: a signal makes the kernel undo and repeat the step that it interrupts
    for (uint64_t done = 0; done < memory_.size();) {
        const uint64_t step = std::min(kGiB, memory_.size() - done);
        if (fallocate(fd_, 0, static_cast<off_t>(done), static_cast<off_t>(step)) == 0) {
            done += step;
        } else if (errno != EINTR) {
            return shortage(options,
                            fmt::format("no shared memory is left after {}; stop other programs "
                                        "or set a smaller WEIR_POOL_MIB",
                                        bytes_text(done)),
                            errno);
        }
    }
    if (!options.prefault) return {};
    if (madvise(memory_.data(), memory_.size(), MADV_POPULATE_WRITE) == 0) return {};
    volatile std::byte* const bytes = memory_.data();  // a kernel before 5.14
    for (uint64_t at = 0; at < memory_.size(); at += page_bytes_)
        bytes[at] = std::byte{0};
    return {};
}

Slab::Slab(Slab&& other) noexcept
    : memory_(std::exchange(other.memory_, {})),
      fd_(std::exchange(other.fd_, -1)),
      page_bytes_(other.page_bytes_),
      note_(std::move(other.note_)) {}

Slab& Slab::operator=(Slab&& other) noexcept {
    Slab taken(std::move(other));
    std::swap(memory_, taken.memory_);
    std::swap(fd_, taken.fd_);
    std::swap(page_bytes_, taken.page_bytes_);
    std::swap(note_, taken.note_);
    return *this;
}

Slab::~Slab() {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
    if (fd_ >= 0) close(fd_);
}

}  // namespace weir::transport
