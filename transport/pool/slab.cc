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
#include "lib/base/machine/os_limits.h"
#include "lib/base/machine/sys_file.h"
#include "lib/base/machine/topology.h"

namespace weir::transport {
namespace {

constexpr uint64_t kAlignmentMin = 2 * kMiB;  // what transparent huge pages need
constexpr uint64_t kHugePages[] = {kGiB, 2 * kMiB};
/// Touched in one system call. The kernel keeps the process's memory map locked meanwhile: another
/// thread that maps memory, for a connection, waits that long.
constexpr uint64_t kTouchBytes = 4 * kMiB;

uint64_t normal_page_bytes() {
    return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

/// Whether pages of this size are worth it: at most an eighth more than asked for.
bool fits_pages(uint64_t size_bytes, uint64_t page_bytes) {
    return round_up(size_bytes, page_bytes) - size_bytes <= size_bytes / 8;
}

/// What an error about missing memory names.
struct Wanted {
    std::string_view name;  ///< of the pool
    uint64_t bytes = 0;
};

Error shortage(const Wanted& wanted, std::string_view what, int os_error = 0) {
    return {Errc::kNoMemory,
            fmt::format("pool '{}': {} wanted: {}", wanted.name, bytes_text(wanted.bytes), what),
            os_error};
}

/// What helps a pool that has run out of memory.
constexpr std::string_view kNoMemoryCure =
    "stop other programs, raise the memory limit of this job, or use more nodes";

/// Checks before memory is taken: if memory is short, the system may kill this process instead of
/// refusing a request.
Status check_memory(const Wanted& wanted, uint64_t bytes) {
    const uint64_t available_bytes = available_memory_bytes();
    if (bytes <= available_bytes) return {};
    return shortage(wanted, fmt::format("only {} of memory is left on this machine or in this "
                                        "control group; {}",
                                        bytes_text(available_bytes), kNoMemoryCure));
}

/// Checks the limit of file sizes (RLIMIT_FSIZE).
Status check_file_size(const Wanted& wanted, uint64_t size_bytes) {
    rlimit file_size{};
    if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && size_bytes > file_size.rlim_cur) {
        return shortage(
            wanted, fmt::format("shared memory may not be larger than the file size "
                                "limit, {}; run `ulimit -f {}` before the program",
                                bytes_text(file_size.rlim_cur), round_up(size_bytes, 1024) / 1024));
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
        {options.name, options.size_bytes},
        fmt::format("only {} of the {} huge pages of {} are free; set more aside with "
                    "`echo {} > {}/nr_hugepages`, or set WEIR_HUGE_PAGES=auto to do without",
                    free, needed, bytes_text(page_bytes),
                    read_sys_number(folder + "/nr_hugepages").value_or(0) + needed - free, folder));
}

}  // namespace

Result<Slab> Slab::make(const SlabOptions& options) {
    if (options.size_bytes == 0 || options.size_bytes > (uint64_t{1} << 46)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("pool '{}': cannot make a region of {}", options.name,
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
    slab.name_ = options.name;
    slab.page_bytes_ = page_bytes;
    slab.prefault_ = options.prefault;
    const bool huge = page_bytes != normal_page_bytes();
    const bool is_file = options.shared || huge;
    const uint64_t size_bytes = round_up(options.size_bytes, page_bytes);
    const Wanted wanted{options.name, options.size_bytes};
    if (is_file) WEIR_TRY(check_file_size(wanted, size_bytes));
    // check the whole size, even if most of it is taken later: a pool that cannot fit fails now
    if (!huge) WEIR_TRY(check_memory(wanted, size_bytes));
    if (is_file) WEIR_TRY(slab.open(options, size_bytes));
    slab.memory_ = {static_cast<std::byte*>(nullptr), size_bytes};
    WEIR_TRY(slab.map(options));
    if (is_file) WEIR_TRY(slab.seal(options));
    const uint64_t backed_bytes = std::min(options.backed_bytes, size_bytes);
    WEIR_TRY(slab.back(huge ? size_bytes : round_up(backed_bytes, page_bytes)));
    return slab;
}

Status Slab::open(const SlabOptions& options, uint64_t size_bytes) {
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    if (page_bytes_ != normal_page_bytes()) {
        flags |= MFD_HUGETLB;
        flags |= static_cast<unsigned>(std::countr_zero(page_bytes_)) << MFD_HUGE_SHIFT;
    }
    fd_ = memfd_create(fmt::format("weir-{}", options.name).substr(0, 200).c_str(), flags);
    if (fd_ < 0)
        return shortage({options.name, options.size_bytes},
                        "the system refuses to make shared memory (see `ulimit -n`)", errno);
    if (ftruncate(fd_, static_cast<off_t>(size_bytes)) != 0) {
        return shortage({options.name, options.size_bytes},
                        "the system refuses shared memory of this size (see `ulimit -f`); "
                        "set a smaller WEIR_POOL_MIB",
                        errno);
    }
    return {};
}

/// No process that maps it can shrink it while others use it.
Status Slab::seal(const SlabOptions& options) const {
    if (options.others_only_read) {
        // Kernels before 5.1 lack this seal: there, what others promise has to be enough.
        static_cast<void>(fcntl(fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
    }
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
    // Reserve more than needed, map the file at the first aligned address, give back both ends.
    // Private memory stays as it is reserved, without access, and back() makes it accessible.
    void* const space = mmap(nullptr, size_bytes + alignment, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) {
        return shortage({options.name, options.size_bytes},
                        "no address space is left; run `ulimit -v unlimited` before the program",
                        errno);
    }
    auto* const start = static_cast<std::byte*>(space);
    const uint64_t before = round_up(reinterpret_cast<uintptr_t>(space), alignment) -
                            reinterpret_cast<uintptr_t>(space);
    void* memory = start + before;
    if (fd_ >= 0)
        memory = mmap(memory, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0);
    if (memory == MAP_FAILED) {
        const int error = errno;
        munmap(space, size_bytes + alignment);
        return shortage({options.name, options.size_bytes},
                        "the system refuses to map it (see "
                        "`ulimit -v` and /proc/sys/vm/max_map_count)",
                        error);
    }
    if (before > 0) munmap(start, before);
    if (before < alignment) munmap(start + before + size_bytes, alignment - before);
    memory_ = {static_cast<std::byte*>(memory), size_bytes};
    if (page_bytes_ == normal_page_bytes()) {
        // A hint: where the kernel ignores it, as for most shared memory, nothing is lost.
        const bool never = options.huge_pages == HugePagePolicy::kNever;
        static_cast<void>(madvise(memory, size_bytes, never ? MADV_NOHUGEPAGE : MADV_HUGEPAGE));
    }
    if (fd_ < 0) {
        // A child must not share the pages until one of the two writes them: each first write here
        // would then copy a page, and a device would go on with the old one.
        static_cast<void>(madvise(memory, size_bytes, MADV_DONTFORK));
    }
    if (options.numa_node != kAnyNode) {
        const Status bound = bind_memory(memory_, options.numa_node);
        if (!bound) note_ = bound.error().message();
    }
    return {};
}

Status Slab::extend(uint64_t bytes) {
    const uint64_t before = backed_bytes_;
    bytes = std::min(round_up(bytes, page_bytes_), memory_.size() - before);
    WEIR_TRY(check_memory({name_, bytes}, bytes));
    Status extended = back(bytes);
    // What was allocated before the failure stays in the file, and the next attempt finds it.
    if (!extended) backed_bytes_ = before;
    return extended;
}

/// Takes memory from the system for the next `bytes`, at most up to the end of the slab.
Status Slab::back(uint64_t bytes) {
    const uint64_t end = backed_bytes_ + std::min(bytes, memory_.size() - backed_bytes_);
    const Wanted wanted{name_, end - backed_bytes_};
    // In steps, because a signal makes the kernel undo the step that it interrupts.
    while (backed_bytes_ < end) {
        const uint64_t step = std::min(kGiB, end - backed_bytes_);
        const int error = fd_ >= 0 ? back_shared(step) : back_private(step);
        if (error == 0) {
            backed_bytes_ += step;
        } else if (error != EINTR) {
            return shortage(
                wanted,
                fmt::format("no {}memory is left after {}; {}", fd_ >= 0 ? "shared " : "",
                            bytes_text(backed_bytes_), kNoMemoryCure),
                error);
        }
    }
    return {};
}

/// Returns errno, or 0.
int Slab::back_shared(uint64_t bytes) const {
    if (fallocate(fd_, 0, static_cast<off_t>(backed_bytes_), static_cast<off_t>(bytes)) != 0)
        return errno;
    return prefault_ ? touch(bytes) : 0;
}

/// Returns errno, or 0.
int Slab::back_private(uint64_t bytes) const {
    // From here on it counts as used where the system promises no more memory than it has.
    if (mprotect(memory_.data() + backed_bytes_, bytes, PROT_READ | PROT_WRITE) != 0) return errno;
    return touch(bytes);
}

/// Touches every page of the first `bytes` that are not backed yet. Returns errno, or 0.
int Slab::touch(uint64_t bytes) const {
    std::byte* const first = memory_.data() + backed_bytes_;
    const uint64_t step = round_up(kTouchBytes, page_bytes_);
    for (uint64_t done = 0; done < bytes; done += step) {
        if (madvise(first + done, std::min(step, bytes - done), MADV_POPULATE_WRITE) == 0) continue;
        if (errno != EINVAL) return errno;
        volatile std::byte* const pages = first;  // a kernel before 5.14
        for (uint64_t at = 0; at < bytes; at += page_bytes_)
            pages[at] = std::byte{0};
        return 0;
    }
    return 0;
}

Slab::Slab(Slab&& other) noexcept
    : name_(std::move(other.name_)),
      memory_(std::exchange(other.memory_, {})),
      backed_bytes_(std::exchange(other.backed_bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)),
      prefault_(other.prefault_),
      page_bytes_(other.page_bytes_),
      note_(std::move(other.note_)) {}

Slab& Slab::operator=(Slab&& other) noexcept {
    Slab taken(std::move(other));
    std::swap(name_, taken.name_);
    std::swap(memory_, taken.memory_);
    std::swap(backed_bytes_, taken.backed_bytes_);
    std::swap(fd_, taken.fd_);
    std::swap(prefault_, taken.prefault_);
    std::swap(page_bytes_, taken.page_bytes_);
    std::swap(note_, taken.note_);
    return *this;
}

Slab::~Slab() {
    if (!memory_.empty()) munmap(memory_.data(), memory_.size());
    if (fd_ >= 0) close(fd_);
}

}  // namespace weir::transport
