// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/disk.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/descriptor.h"
#include "lib/base/machine/pages.h"

namespace weir::checkpoint {
namespace {

constexpr std::string_view kRoomAdvice =
    "; make room there (`weir checkpoint prune` removes old checkpoints, and with --unfinished, "
    "when no job writes there, what is left of failed ones), or choose another folder";

Error failed(const std::string& path, std::string_view what, int reason) {
    const Errc code = reason == EEXIST   ? Errc::kAlreadyExists
                      : reason == ENOENT ? Errc::kNotFound
                                         : Errc::kIo;
    const std::string_view advice =
        reason == ENOSPC || reason == EDQUOT || reason == EFBIG ? kRoomAdvice
        : reason == ENOENT  ? "; check the name, and that this host sees the folder"
        : reason == EEXIST  ? "; give each job a folder of its own"
        : reason == ENOTDIR ? ", because it is no folder; name the folder of the checkpoints"
                            : "; look at the disk and at the permissions";
    return {code, fmt::format("{}: {}{}", path, what, advice), reason};
}

/// A smaller write is not worth the wait for the disk.
constexpr size_t kDirectBytesMin = size_t{256} << 10;

class RealFile final : public NewFile {
public:
    RealFile(Descriptor fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    [[nodiscard]] Status write(std::span<const std::byte> bytes) override {
        if (bytes.size() >= kDirectBytesMin) write_directly(bytes);
        while (!bytes.empty()) {
            const ssize_t done = ::write(fd_.get(), bytes.data(), bytes.size());
            if (done < 0 && errno == EINTR) continue;
            if (done < 0) return failed(path_, "cannot be written", errno);
            bytes = bytes.subspan(static_cast<size_t>(done));
            size_ += static_cast<uint64_t>(done);
        }
        // The disk begins now, and not when the file is synced. An error is seen then, too.
        (void)::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
        return {};
    }

    [[nodiscard]] Status sync() override {
        if (::fsync(fd_.get()) != 0) return failed(path_, "cannot be written", errno);
        return {};
    }

private:
    /// Whole pages, past the kernel's page cache: its pages would have to be found, filled and dropped
    /// again, by this thread, which shares the processors with those that answer workers, and nobody
    /// reads them. Takes off `bytes` what is written. A folder that cannot do so, a full disk and an
    /// error leave the rest to write(), which names the error if it is still there.
    void write_directly(std::span<const std::byte>& bytes) {
        const auto address = reinterpret_cast<uintptr_t>(bytes.data());
        if (address % kPageBytes != 0 || size_ % kPageBytes != 0) return;
        const int flags = ::fcntl(fd_.get(), F_GETFL);
        if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) != 0) return;
        for (ssize_t done = 1; done > 0 && size_ % kPageBytes == 0 && bytes.size() >= kPageBytes;) {
            done = ::write(fd_.get(), bytes.data(), bytes.size() / kPageBytes * kPageBytes);
            if (done < 0 && errno == EINTR)
                done = 1;
            else if (done > 0) {
                bytes = bytes.subspan(static_cast<size_t>(done));
                size_ += static_cast<uint64_t>(done);
            }
        }
        (void)::fcntl(fd_.get(), F_SETFL, flags);  // fails no more than before
    }

    Descriptor fd_;
    std::string path_;
    uint64_t size_ = 0;
};

struct OpenFile {
    Descriptor fd;
    uint64_t size = 0;
};

/// To read it. A network file system asks its server for the size of a file when it is opened.
Result<OpenFile> open_file(const std::string& path) {
    OpenFile file{Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC))};
    struct stat facts = {};
    if (!file.fd || ::fstat(file.fd.get(), &facts) != 0)
        return failed(path, "cannot be read", errno);
    if (!S_ISREG(facts.st_mode)) return failed(path, "is not a file of a checkpoint", 0);
    file.size = static_cast<uint64_t>(facts.st_size);
    return file;
}

}  // namespace

Result<std::unique_ptr<NewFile>> RealDisk::create(const std::string& path) {
    Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!fd) return failed(path, "cannot be created", errno);
    return std::unique_ptr<NewFile>(std::make_unique<RealFile>(std::move(fd), path));
}

Result<std::vector<std::byte>> RealDisk::read(const std::string& path, uint64_t bytes_max) {
    WEIR_ASSIGN(const OpenFile file, open_file(path));
    const auto& [fd, size] = file;
    if (size > bytes_max)
        return Error(Errc::kOutOfRange,
                     fmt::format("{}: {} bytes are too many; at most {} were expected", path, size,
                                 bytes_max));
    std::vector<std::byte> bytes(size);
    for (size_t have = 0; have < bytes.size();) {
        const ssize_t done = ::read(fd.get(), bytes.data() + have, bytes.size() - have);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed(path, "cannot be read", errno);
        if (done == 0) bytes.resize(have);  // it became shorter
        have += static_cast<size_t>(done);
    }
    return bytes;
}

Result<uint64_t> RealDisk::size(const std::string& path) {
    WEIR_ASSIGN(const OpenFile file, open_file(path));
    return file.size;
}

Result<std::vector<std::string>> RealDisk::list(const std::string& folder) {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entries(folder, error);
    while (!error && entries != std::filesystem::directory_iterator()) {
        names.push_back(entries->path().filename().string());
        entries.increment(error);
    }
    if (error) return failed(folder, "the folder cannot be read", error.value());
    return names;
}

Status RealDisk::rename(const std::string& from, const std::string& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return failed(to, "cannot be created", errno);
    // A network file system that cannot do that: a second name is never given to two files either.
    if (::link(from.c_str(), to.c_str()) != 0) return failed(to, "cannot be created", errno);
    return remove(from);
}

Status RealDisk::remove(const std::string& path) {
    if (::unlink(path.c_str()) != 0) return failed(path, "cannot be removed", errno);
    return {};
}

Status RealDisk::sync_folder(const std::string& folder) {
    const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd || ::fsync(fd.get()) != 0) return failed(folder, "the folder cannot be written", errno);
    return {};
}

}  // namespace weir::checkpoint
