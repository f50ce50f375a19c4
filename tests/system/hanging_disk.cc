// SPDX-License-Identifier: Apache-2.0
/// \file
/// Preloaded into a process, it makes a disk that hangs: in the folder HANG_FOLDER no file is synced, nor the
/// folder itself, while there is a file HANG_WHILE. The first one that waits makes HANG_WHILE.waits.

#include <cerrno>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

namespace {

using Sync = int (*)(int);

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string() : value;
}

std::string path_of(int file) {
    std::string path(4096, '\0');
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
    path.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return path;
}

void hang(int file) {
    constexpr useconds_t kLookUs = 10'000;
    const std::string folder = variable("HANG_FOLDER");
    const std::string path = path_of(file);
    if (folder.empty() || (path != folder && !path.starts_with(folder + "/"))) return;
    const std::string while_there = variable("HANG_WHILE");
    if (::access(while_there.c_str(), F_OK) != 0) return;
    (void)::close(::open((while_there + ".waits").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    while (::access(while_there.c_str(), F_OK) == 0)
        ::usleep(kLookUs);
}

int sync(const char* name, int file) {
    hang(file);
    const auto real = reinterpret_cast<Sync>(::dlsym(RTLD_NEXT, name));
    if (real != nullptr) return real(file);
    errno = ENOSYS;
    return -1;
}

}  // namespace

extern "C" int fsync(int file) {
    return sync("fsync", file);
}

extern "C" int fdatasync(int file) {
    return sync("fdatasync", file);
}
