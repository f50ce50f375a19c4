// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/os_limits.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/bytes.h"
#include "lib/base/machine/sys_file.h"

namespace weir {
namespace {

constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};

uint64_t from_rlim(rlim_t limit) noexcept {
    return limit == RLIM_INFINITY ? kUnlimited : limit;
}

bool has_ipc_lock() noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    if (syscall(SYS_capget, &header, data) != 0) return false;
    return (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

/// The path of this process's control group: the text after `marker` in /proc/self/cgroup, or
/// "/".
std::string cgroup_path(std::string_view root, std::string_view marker) {
    const std::string text = read_sys_text(fmt::format("{}/proc/self/cgroup", root)).value_or("");
    std::string_view rest = text;
    while (!rest.empty()) {
        const size_t end = rest.find('\n');
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        const size_t found = line.find(marker);
        if (found != std::string_view::npos) return std::string(line.substr(found + marker.size()));
    }
    return "/";
}

/// The names of the memory files in one version of control groups.
struct CgroupFiles {
    std::string_view limit;
    std::string_view usage;
    std::string_view reclaimable;  ///< in memory.stat: file pages that count as used
};

/// Of a group's limit: for what is not asked for beforehand, such as the heap.
constexpr uint64_t kLeftOverPart = 16;
constexpr uint64_t kLeftOverBytesMax = 64 * kMiB;

/// The least of limit minus use over the groups from `folder` up to `top`; kUnlimited if none has
/// a limit.
uint64_t cgroup_room(const std::string& top, std::string folder, const CgroupFiles& files) {
    uint64_t room = kUnlimited;
    for (;;) {
        const std::string here = top + folder;
        const auto limit = read_sys_number(fmt::format("{}/{}", here, files.limit));  // not "max"
        const auto usage = read_sys_number(fmt::format("{}/{}", here, files.usage));
        if (limit && usage) {
            const std::string stat = read_sys_text(here + "/memory.stat").value_or("");
            const uint64_t cached = sys_field(stat, files.reclaimable).value_or(0);
            const uint64_t used = *usage - std::min(*usage, cached);
            const uint64_t left_over = std::min(*limit / kLeftOverPart, kLeftOverBytesMax);
            room = std::min(room, *limit - std::min(*limit, used + left_over));
        }
        const size_t slash = folder.find_last_of('/');
        if (folder.empty() || slash == std::string::npos) return room;
        folder.resize(slash);
    }
}

}  // namespace

uint64_t LockedMemoryLimit::room_bytes() const noexcept {
    if (may_lock_all || soft_bytes == kUnlimited) return kUnlimited;
    return soft_bytes - std::min(soft_bytes, pinned_bytes);
}

LockedMemoryLimit locked_memory_limit() {
    LockedMemoryLimit result;
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        result.soft_bytes = from_rlim(limit.rlim_cur);
        result.hard_bytes = from_rlim(limit.rlim_max);
    }
    result.may_lock_all = has_ipc_lock();
    const std::string status = read_sys_text("/proc/self/status").value_or("");
    result.pinned_bytes = sys_field(status, "VmPin").value_or(0);
    return result;
}

std::string locked_memory_advice(const LockedMemoryLimit& limit, uint64_t wanted_bytes) {
    const uint64_t needed_bytes = limit.pinned_bytes + wanted_bytes;
    const uint64_t needed_kib = needed_bytes / kKiB + (needed_bytes % kKiB != 0 ? 1 : 0);
    if (limit.hard_bytes == kUnlimited || needed_bytes <= limit.hard_bytes) {
        return fmt::format("run `ulimit -l {}` (or `ulimit -l unlimited`) before the program",
                           needed_kib);
    }
    return fmt::format(
        "raise the hard limit, which is {}: `* hard memlock {}` and the same with `soft` in "
        "/etc/security/limits.conf and a new login (a service: LimitMEMLOCK=infinity), then "
        "`ulimit -l {}`",
        bytes_text(limit.hard_bytes), needed_kib, needed_kib);
}

OpenFilesLimit open_files_limit() {
    OpenFilesLimit result;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        result.soft_count = from_rlim(limit.rlim_cur);
        result.hard_count = from_rlim(limit.rlim_max);
    }
    std::error_code error;
    const std::filesystem::directory_iterator files("/proc/self/fd", error);
    if (!error) {
        const auto count = std::distance(begin(files), end(files));
        result.open_count = static_cast<uint64_t>(std::max<std::ptrdiff_t>(count - 1, 0));
    }
    return result;
}

Status reserve_open_files(uint64_t needed, uint64_t spare) {
    const OpenFilesLimit now = open_files_limit();
    const uint64_t least = now.open_count + needed;
    if (least > now.hard_count) {
        return Error(
            Errc::kUnavailable,
            fmt::format("this process needs {} open files, and may have {}: run `ulimit -n "
                        "{}` before the program; if that is refused, put `* hard nofile "
                        "{}` into /etc/security/limits.conf and log in again (a service: "
                        "LimitNOFILE={}; a container: --ulimit nofile={})",
                        least, now.hard_count, least, least, least, least));
    }
    const uint64_t wanted = std::min(least + spare, now.hard_count);
    const rlimit limit{static_cast<rlim_t>(wanted), now.hard_count == kUnlimited
                                                        ? RLIM_INFINITY
                                                        : static_cast<rlim_t>(now.hard_count)};
    if (now.soft_count >= wanted || setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
    return Error(Errc::kIo, "cannot raise the limit of open files (see `ulimit -n`)", errno);
}

void open_standard_streams() noexcept {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(standard, F_GETFD) >= 0 || errno != EBADF) continue;
        // It gets the lowest number that is free. Without O_CLOEXEC: programs started from here need
        // it as well.
        if (::open("/dev/null", O_RDWR) < 0) return;  // NOLINT(android-cloexec-open)
    }
}

uint64_t machine_memory_bytes(std::string_view root) {
    const std::string info = read_sys_text(fmt::format("{}/proc/meminfo", root)).value_or("");
    return sys_field(info, "MemTotal").value_or(0);
}

uint64_t available_memory_bytes(std::string_view root) {
    const std::string info = read_sys_text(fmt::format("{}/proc/meminfo", root)).value_or("");
    const uint64_t machine = sys_field(info, "MemAvailable").value_or(kUnlimited);
    const uint64_t unified =
        cgroup_room(fmt::format("{}/sys/fs/cgroup", root), cgroup_path(root, "0::"),
                    {"memory.max", "memory.current", "inactive_file"});
    const uint64_t old =
        cgroup_room(fmt::format("{}/sys/fs/cgroup/memory", root), cgroup_path(root, ":memory:"),
                    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"});
    return std::min({machine, unified, old});
}

uint64_t dev_shm_free_bytes() {
    struct statvfs info {};

    if (statvfs("/dev/shm", &info) != 0) return 0;
    return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

std::string bytes_text(uint64_t bytes) {
    size_t unit = 0;
    uint64_t scale = 1;
    while (unit + 1 < std::size(kUnits) && bytes / scale >= kKiB) {
        scale *= kKiB;
        ++unit;
    }
    if (bytes % scale == 0) return fmt::format("{} {}", bytes / scale, kUnits[unit]);
    return fmt::format("{:.1f} {}", static_cast<double>(bytes) / static_cast<double>(scale),
                       kUnits[unit]);
}

}  // namespace weir
