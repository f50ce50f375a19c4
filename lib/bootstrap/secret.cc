// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/secret.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/descriptor.h"

namespace weir {
namespace {

Status check_secret_permissions(int fd, const std::string& path) {
    struct stat info {};

    if (::fstat(fd, &info) != 0) {
        return Error(Errc::kIo, fmt::format("WEIR_SECRET_FILE={}: cannot read its mode", path),
                     errno);
    }
    if (!S_ISREG(info.st_mode)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("WEIR_SECRET_FILE={}: not a regular file", path));
    }
    if ((info.st_mode & 077) == 0) return {};
    // As root puts it there for a group, such as Kubernetes with fsGroup.
    const bool is_roots = info.st_uid == 0;
    if (is_roots && (info.st_mode & 037) == 0) return {};
    return Error(
        Errc::kRefused,
        fmt::format("WEIR_SECRET_FILE={}: mode {:04o} gives other users access; run: chmod "
                    "{} {}",
                    path, info.st_mode & 07777, is_roots ? "0440" : "0600", path));
}

}  // namespace

transport::Secret make_secret() {
    return transport::random_bytes();
}

Result<transport::Secret> read_secret_file(const std::string& path) {
    // non-blocking: opening a FIFO must not hang
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) {
        return Error(Errc::kNotFound, fmt::format("WEIR_SECRET_FILE={}: cannot open it", path),
                     errno);
    }
    WEIR_TRY(check_secret_permissions(fd.get(), path));
    std::string secret(kSecretFileBytesMax + 1, '\0');
    size_t length = 0;
    while (length < secret.size()) {
        const ssize_t got = ::read(fd.get(), secret.data() + length, secret.size() - length);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            return Error(Errc::kIo, fmt::format("WEIR_SECRET_FILE={}: cannot read it", path),
                         errno);
        }
        if (got == 0) break;
        length += static_cast<size_t>(got);
    }
    secret.resize(length);
    if (secret.ends_with('\n')) secret.pop_back();
    if (secret.size() < kSecretFileBytesMin || length > kSecretFileBytesMax) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format(
                "WEIR_SECRET_FILE={}: {} bytes; must be {} to {}; make one with: umask 077; "
                "head -c 32 /dev/urandom | base64 > {}",
                path, secret.size(), kSecretFileBytesMin, kSecretFileBytesMax, path));
    }
    transport::Secret digest{};
    const int done =
        EVP_Digest(secret.data(), secret.size(), reinterpret_cast<unsigned char*>(digest.data()),
                   nullptr, EVP_sha256(), nullptr);
    WEIR_CHECK(done == 1);
    return digest;
}

}  // namespace weir
