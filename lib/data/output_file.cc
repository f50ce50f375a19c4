// SPDX-License-Identifier: Apache-2.0
#include "lib/data/output_file.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weir::data {
namespace {

constexpr size_t kNameBytesMax = 200;  // of a file name's 255: leaves room for the suffix
constexpr int kNameTries = 100;

/// Whether the path names an open descriptor of a process (/dev/stdout, /proc/...). Such a file
/// is written in place and not replaced.
bool is_lent(const std::string& path) {
    return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") ||
           path.starts_with("/proc/");
}

/// Makes a new file beside `target` and sets `part` to its path. Returns its descriptor, or none
/// and sets errno.
Descriptor create_beside(const std::filesystem::path& target, std::string& part) {
    const std::string name = target.filename().string().substr(0, kNameBytesMax);
    for (int i = 0; i < kNameTries; ++i) {
        part = (target.parent_path() / fmt::format("{}.part-{}-{}", name, ::getpid(), i)).string();
        Descriptor fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (fd || errno != EEXIST) return fd;
    }
    return {};
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) {
    if (path == kStandardOutput) {
        Descriptor fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
        const std::string name = "standard output";
        if (!fd) return Error(Errc::kIo, name + ": cannot be written", errno);
        return OutputFile(std::move(fd), name, name, "");
    }
    const auto refused = [&](int reason) {
        return Error(Errc::kIo, fmt::format("{}: cannot be written", path), reason);
    };
    struct stat facts = {};
    const bool exists = ::stat(path.c_str(), &facts) == 0;
    if (!exists && errno != ENOENT) return refused(errno);
    if (exists && (!S_ISREG(facts.st_mode) || is_lent(path))) {
        Descriptor fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
        if (!fd) return refused(errno);
        return OutputFile(std::move(fd), path, path, "");
    }
    if (exists && ::access(path.c_str(), W_OK) != 0) return refused(errno);
    std::error_code error;
    std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
    if (error) return refused(error.value());
    std::string part;
    if (Descriptor fd = create_beside(target, part); fd) {
        if (exists) (void)::fchmod(fd.get(), facts.st_mode & 07777);
        return OutputFile(std::move(fd), path, target.string(), part);
    }
    // The folder cannot be written, but the file may be: then write the file itself.
    const int reason = errno;
    Descriptor fd;
    if (exists) fd = Descriptor(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (!fd) return refused(reason);
    return OutputFile(std::move(fd), path, path, "");
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      written_bytes_(other.written_bytes_),
      part_(std::exchange(other.part_, "")) {}

OutputFile::~OutputFile() {
    if (!part_.empty()) ::unlink(part_.c_str());
}

Error OutputFile::failed(int reason) const {
    return {Errc::kIo, fmt::format("{}: cannot be written", path_), reason};
}

Status OutputFile::write(std::span<const char> bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd_.get(), bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return failed(errno);
        written_bytes_ += static_cast<uint64_t>(done);
        bytes = bytes.subspan(static_cast<size_t>(done));
    }
    return {};
}

Status OutputFile::finish() {
    if (fd_.close() != 0) return failed(errno);
    if (part_.empty()) return {};
    if (std::rename(part_.c_str(), target_.c_str()) != 0) return failed(errno);
    part_.clear();
    return {};
}

bool is_replaceable(const std::string& path) {
    struct stat facts = {};
    if (path == kStandardOutput || is_lent(path)) return false;
    return ::stat(path.c_str(), &facts) == 0 ? S_ISREG(facts.st_mode) : errno == ENOENT;
}

Status check_output(const std::string& path) {
    namespace fs = std::filesystem;
    if (path == kStandardOutput) return {};
    const fs::path folder = fs::absolute(path).parent_path();
    std::error_code error;
    if (fs::is_directory(path, error) || !fs::is_directory(folder, error)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("cannot write {}: the folder {} does not exist, or the name is a "
                                 "folder's; choose another",
                                 path, folder.string()));
    }
    if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return {};
    WEIR_TRY(OutputFile::create(path));  // its destructor removes the new file
    return {};
}

Status write_whole_file(const std::string& path, std::string_view content) {
    WEIR_ASSIGN(OutputFile file, OutputFile::create(path));
    WEIR_TRY(file.write(content));
    return file.finish();
}

}  // namespace weir::data
