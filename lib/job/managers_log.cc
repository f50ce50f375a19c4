// SPDX-License-Identifier: Apache-2.0
#include "lib/job/managers_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/bootstrap/rendezvous/rendezvous.h"
#include "lib/consensus/disk_storage.h"

namespace weir {
namespace {

/// In the place of a manager: locked by the process that has it, which it names for people.
constexpr std::string_view kLockName = "owner";

Error io_failed(const std::string& path, std::string_view what, std::string_view advice) {
    const int reason = errno;
    return {Errc::kIo, fmt::format("{}: {}; {}", path, what, advice), reason};
}

std::string owner_of(const Descriptor& lock) {
    std::array<char, 200> text{};
    const ssize_t got = ::pread(lock.get(), text.data(), text.size(), 0);
    std::string_view line(text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    line = line.substr(0, line.find('\n'));
    return line.empty() ? "another process" : std::string(line);
}

/// It also shows whether the folder takes anything.
Status take_lock(const Descriptor& lock, const std::string& place) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return Error(Errc::kAlreadyExists,
                         fmt::format("{}: the log of a job that runs is there ({} has it); give "
                                     "each job a folder of its own",
                                     place, owner_of(lock)));
        return io_failed(place, "the file 'owner' in it cannot be locked",
                         "choose a folder on a file system with locks, such as a local disk");
    }
    const std::string owner =
        fmt::format("process {} on {}\n", ::getpid(), boot::host_name(boot::this_host_id()));
    const bool is_written =
        ::ftruncate(lock.get(), 0) == 0 &&
        ::pwrite(lock.get(), owner.data(), owner.size(), 0) == static_cast<ssize_t>(owner.size()) &&
        ::fsync(lock.get()) == 0;
    if (is_written) return {};
    return io_failed(place, "the file 'owner' in it cannot be written",
                     "make room there, or choose another folder");
}

}  // namespace

Result<std::unique_ptr<ManagersLog>> ManagersLog::open(const std::string& folder, uint32_t rank) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error))
        return Error(Errc::kNotFound,
                     fmt::format("{}: there is no such folder for the managers' log on host {}; "
                                 "make it, on each host with servers",
                                 folder, boot::host_name(boot::this_host_id())));
    const std::string place = fmt::format("{}/manager-{}", folder, rank);
    // What managers agree on names who is who in the job.
    if (::mkdir(place.c_str(), 0700) != 0 && errno != EEXIST)
        return io_failed(place, "the folder cannot be made",
                         "look at the permissions, or choose another one");
    const std::string path = fmt::format("{}/{}", place, kLockName);
    Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock)
        return io_failed(path, "cannot be created",
                         "look at the permissions, or choose another folder");
    WEIR_TRY(take_lock(lock, place));
    return std::unique_ptr<ManagersLog>(new ManagersLog(place, std::move(lock)));
}

Result<std::unique_ptr<consensus::LogStorage>> ManagersLog::begin(uint64_t group,
                                                                  uint64_t replica) {
    WEIR_ASSIGN(std::unique_ptr<consensus::LogStorage> storage,
                consensus::DiskStorage::create(disk_, place_, group, replica));
    return storage;
}

}  // namespace weir
