// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CacheFile: a file in a cache folder, read and written at places, with errors that say what a
/// person can do. It is not mapped: a mapped file that another program cuts off, or a disk that
/// fails, would end the process by SIGBUS; read() returns an Error.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"

namespace weir::data {

/// What messages call the options. A program puts the names of its flags here.
struct CacheNames {
    std::string_view cache = "cache";    ///< the folder
    std::string_view memory = "memory";  ///< the limit of memory for data
};

/// Thread: read() from any; else one.
class CacheFile {
public:
    CacheFile() = default;

    /// Opens an existing file for reading. Errors: kNotFound, kIo
    [[nodiscard]] static Result<CacheFile> open(std::string path, const CacheNames& names);

    /// Opens `path` for writing, empty, and locks it against other processes. What a process left
    /// there that died is taken over.
    ///
    /// Errors: kBusy if another process has the lock; kIo
    [[nodiscard]] static Result<CacheFile> create_locked(std::string path, const CacheNames& names);

    /// A file without a name: it is gone as soon as it is closed, however the process ends.
    ///
    /// path: a free name in its folder
    /// Errors: kIo
    [[nodiscard]] static Result<CacheFile> create_unnamed(const std::string& path,
                                                          const CacheNames& names);

    /// Fills `bytes` from the file. Errors: kIo, also if the file ends before
    [[nodiscard]] Status read(uint64_t place, std::span<std::byte> bytes) const;

    /// Errors: kIo; if there is no space, with the bytes that are needed and free
    [[nodiscard]] Status write(uint64_t place, std::span<const std::byte> bytes);

    /// Reserves space for bytes up to `bytes`, if the file system can. Errors: as write()
    [[nodiscard]] Status reserve(uint64_t bytes);

    /// Gives back the space of [begin, end), if the file system can.
    void give_back(uint64_t begin, uint64_t end) noexcept;

    /// Gives the file its final name, once its bytes have arrived on the disk. Errors: kIo
    [[nodiscard]] Status finish(const std::string& path);

    /// Removes the name of a file that was not finished.
    void remove() noexcept;

    [[nodiscard]] Result<uint64_t> size() const;

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    [[nodiscard]] const CacheNames& names() const noexcept { return names_; }

    [[nodiscard]] explicit operator bool() const noexcept { return bool(fd_); }

private:
    CacheFile(Descriptor fd, std::string path, CacheNames names)
        : fd_(std::move(fd)), path_(std::move(path)), names_(names) {}

    [[nodiscard]] Error failed(std::string_view what, int reason, uint64_t needed_bytes = 0) const;

    Descriptor fd_;
    std::string path_;
    CacheNames names_;
};

/// Makes the folder if it does not exist. Errors: kIo
[[nodiscard]] Status make_cache_folder(const std::string& folder, const CacheNames& names);

}  // namespace weir::data
