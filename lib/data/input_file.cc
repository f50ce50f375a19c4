// SPDX-License-Identifier: Apache-2.0
#include "lib/data/input_file.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weir::data {
namespace {

struct Packer {
    std::string_view magic;
    std::string_view name;
    std::string_view unpack;
    std::string_view unpack_stream;
};

constexpr std::array<Packer, 4> kOtherPackers = {{
    {{"\xfd"
      "7zXZ",
      5},
     "xz",
     "xz -dk",
     "xz -dc"},
    {"\x28\xb5\x2f\xfd", "zstd", "zstd -dk", "zstd -dc"},
    {"BZh", "bzip2", "bzip2 -dk", "bzip2 -dc"},
    {"PK\x03\x04", "zip", "unzip", "funzip"},
}};

}  // namespace

std::string input_name(const std::string& path) {
    return path == kStandardInput ? "standard input" : path;
}

Result<uint64_t> read_some(int fd, const std::string& name, std::span<char> into,
                           const StopReading& stop) {
    constexpr int kAskedEveryMs = 50;
    while (true) {
        if (stop) {
            pollfd waited{fd, POLLIN, 0};
            if (::poll(&waited, 1, kAskedEveryMs) <= 0) {
                if (stop()) return Error(Errc::kCancelled, "stopped while files were read");
                continue;
            }
        }
        const ssize_t got = ::read(fd, into.data(), into.size());
        if (got >= 0) return static_cast<uint64_t>(got);
        if (errno == EINTR || errno == EAGAIN) continue;
        return Error(Errc::kIo, fmt::format("{}: cannot be read", name), errno);
    }
}

bool standard_input_is_a_file() {
    struct stat facts = {};
    return ::fstat(STDIN_FILENO, &facts) == 0 && S_ISREG(facts.st_mode) &&
           ::lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
}

Descriptor open_input(const std::string& path) {
    if (path != kStandardInput) return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (standard_input_is_a_file())
        return Descriptor(::open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC));
    return Descriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
}

Status check_unpacked(std::string_view first_bytes, const std::string& path) {
    for (const Packer& packer : kOtherPackers) {
        if (!first_bytes.starts_with(packer.magic)) continue;
        const std::string cure = path == kStandardInput
                                     ? fmt::format("pipe it through {}", packer.unpack_stream)
                                     : fmt::format("unpack it with {} {}", packer.unpack, path);
        return Error(Errc::kInvalidArgument,
                     fmt::format("{} is {}-compressed; {}", input_name(path), packer.name, cure));
    }
    return {};
}

bool is_gzip(std::string_view first_bytes) noexcept {
    return first_bytes.starts_with("\x1f\x8b");
}

}  // namespace weir::data
