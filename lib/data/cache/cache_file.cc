// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/cache_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace weir::data {
namespace {

constexpr int kLockTries = 16;

std::string folder_of(const std::string& path) {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    return folder.empty() ? "." : folder;
}

/// Whether `path` still names the open file.
bool is_named(int fd, const std::string& path) {
    struct stat open = {};
    struct stat named = {};
    return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &named) == 0 &&
           open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace

Status make_cache_folder(const std::string& folder, const CacheNames& names) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!error && std::filesystem::is_directory(folder, error)) return {};
    return Error(Errc::kIo,
                 fmt::format("{} {}: the folder cannot be made; give another", names.cache, folder),
                 error.value());
}

Error CacheFile::failed(std::string_view what, int reason, uint64_t needed_bytes) const {
    const std::string folder = folder_of(path_);
    if (reason == ENOSPC || reason == EDQUOT) {
        struct statvfs disk = {};
        struct stat own = {};  // its space is free again soon
        const bool is_known = ::fstatvfs(fd_.get(), &disk) == 0 && ::fstat(fd_.get(), &own) == 0;
        const std::string free =
            reason == ENOSPC && is_known
                ? fmt::format("{} are free",
                              static_cast<uint64_t>(disk.f_bavail) * uint64_t{disk.f_frsize} +
                                  512 * static_cast<uint64_t>(own.st_blocks))
                : std::string("the quota allows fewer");
        return {Errc::kIo,
                fmt::format(
                    "{} {}: no space left: at least {} bytes are needed, {}; make space, or give a "
                    "folder on another disk",
                    names_.cache, folder, needed_bytes, free),
                reason};
    }
    if (reason == EFBIG) {
        return {Errc::kIo,
                fmt::format(
                    "{} {}: a file of at least {} bytes is needed, larger than this process may "
                    "write; allow it (ulimit -f), or give a folder on another disk",
                    names_.cache, folder, needed_bytes),
                reason};
    }
    return {Errc::kIo,
            fmt::format("{}: {}; give another folder with {}", path_, what, names_.cache), reason};
}

Result<CacheFile> CacheFile::open(std::string path, const CacheNames& names) {
    Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const int reason = errno;
    const bool is_open = bool(fd);
    CacheFile file(std::move(fd), std::move(path), names);
    if (is_open) return file;
    if (reason == ENOENT) return Error(Errc::kNotFound, file.path_ + ": does not exist");
    return file.failed("cannot be read", reason);
}

Result<CacheFile> CacheFile::create_locked(std::string path, const CacheNames& names) {
    CacheFile file({}, std::move(path), names);
    for (int i = 0; i < kLockTries; ++i) {
        file.fd_ = Descriptor(::open(file.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
        if (!file.fd_) return file.failed("cannot be written", errno);
        if (::flock(file.fd_.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK) return file.failed("cannot be locked", errno);
            return Error(Errc::kBusy,
                         fmt::format("{}: another job makes its cache here just now; wait for its "
                                     "end, or give another folder with {}",
                                     file.path_, names.cache));
        }
        // Its owner may have finished and renamed it before the lock was free.
        if (!is_named(file.fd_.get(), file.path_)) continue;
        if (::ftruncate(file.fd_.get(), 0) != 0) return file.failed("cannot be written", errno);
        return file;
    }
    return file.failed("cannot be locked", EAGAIN);
}

Result<CacheFile> CacheFile::create_unnamed(const std::string& path, const CacheNames& names) {
    CacheFile file({}, path, names);
    file.fd_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file.fd_ || ::unlink(path.c_str()) != 0) return file.failed("cannot be written", errno);
    return file;
}

Status CacheFile::read(uint64_t place, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t done =
            ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(place));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            return Error(Errc::kIo,
                         fmt::format("{}: cannot be read; remove it, and it is made again, or give "
                                     "another folder with {}",
                                     path_, names_.cache),
                         errno);
        }
        if (done == 0) {
            return Error(Errc::kIo,
                         fmt::format("{}: is cut off; remove it, and it is made again", path_));
        }
        place += static_cast<uint64_t>(done);
        bytes = bytes.subspan(static_cast<size_t>(done));
    }
    return {};
}

Status CacheFile::write(uint64_t place, std::span<const std::byte> bytes) {
    const uint64_t end = place + bytes.size();
    while (!bytes.empty()) {
        const ssize_t done =
            ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(place));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed("cannot be written", errno, end);
        place += static_cast<uint64_t>(done);
        bytes = bytes.subspan(static_cast<size_t>(done));
    }
    return {};
}

Status CacheFile::reserve(uint64_t bytes) {
    if (bytes == 0) return {};
    while (::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
        if (errno == EINTR) continue;
        if (errno == EOPNOTSUPP || errno == ENOSYS) return {};
        return failed("cannot be written", errno, bytes);
    }
    return {};
}

void CacheFile::give_back(uint64_t begin, uint64_t end) noexcept {
    constexpr uint64_t kPage = 4096;
    begin = (begin + kPage - 1) / kPage * kPage;
    end = end / kPage * kPage;
    if (begin >= end) return;
    (void)::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(begin), static_cast<off_t>(end - begin));
}

Status CacheFile::finish(const std::string& path) {
    const uint64_t bytes = size() ? *size() : 0;
    if (::fsync(fd_.get()) != 0) return failed("cannot be written", errno, bytes);
    if (std::rename(path_.c_str(), path.c_str()) != 0) return failed("cannot be renamed", errno);
    path_ = path;
    // Without it, a crash of the machine may lose the name. The file is then made again.
    const Descriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) (void)::fsync(folder.get());
    return {};
}

void CacheFile::remove() noexcept {
    if (fd_ && is_named(fd_.get(), path_)) ::unlink(path_.c_str());
}

Result<uint64_t> CacheFile::size() const {
    struct stat facts = {};
    if (::fstat(fd_.get(), &facts) != 0) return failed("cannot be read", errno);
    return static_cast<uint64_t>(facts.st_size);
}

}  // namespace weir::data
