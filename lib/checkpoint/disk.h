// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Disk: what a checkpoint does with files. Tests put one in its place that fails, forgets and tears.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace weir::checkpoint {

/// A file that is being written. Errors: Errc::kIo, naming the file
class NewFile {
public:
    NewFile() = default;
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    virtual ~NewFile() = default;

    /// Appends all of `bytes`, or fails.
    [[nodiscard]] virtual Status write(std::span<const std::byte> bytes) = 0;
    /// What was written is on the disk when this returns; the name of the file may not be.
    [[nodiscard]] virtual Status sync() = 0;
};

/// Thread: any number, if no two write the same file
class Disk {
public:
    Disk() = default;
    Disk(const Disk&) = delete;
    Disk& operator=(const Disk&) = delete;
    virtual ~Disk() = default;

    /// Makes a file that was not there. Errors: kAlreadyExists; kNotFound: no such folder; kIo
    [[nodiscard]] virtual Result<std::unique_ptr<NewFile>> create(const std::string& path) = 0;
    /// A whole file. Errors: kNotFound, kIo; kOutOfRange if it is longer than `bytes_max`
    [[nodiscard]] virtual Result<std::vector<std::byte>> read(const std::string& path,
                                                              uint64_t bytes_max) = 0;
    /// The size of a file in bytes. Errors: kNotFound, kIo
    [[nodiscard]] virtual Result<uint64_t> size(const std::string& path) = 0;
    /// The names in a folder, in any order. Errors: kNotFound, kIo
    [[nodiscard]] virtual Result<std::vector<std::string>> list(const std::string& folder) = 0;
    /// Never replaces a file. Errors: kAlreadyExists, kIo
    [[nodiscard]] virtual Status rename(const std::string& from, const std::string& to) = 0;
    /// Errors: kNotFound, kIo
    [[nodiscard]] virtual Status remove(const std::string& path) = 0;
    /// The names in a folder are on the disk when this returns. Errors: kIo
    [[nodiscard]] virtual Status sync_folder(const std::string& folder) = 0;
};

/// The files of this machine.
class RealDisk final : public Disk {
public:
    [[nodiscard]] Result<std::unique_ptr<NewFile>> create(const std::string& path) override;
    [[nodiscard]] Result<std::vector<std::byte>> read(const std::string& path,
                                                      uint64_t bytes_max) override;
    [[nodiscard]] Result<uint64_t> size(const std::string& path) override;
    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& folder) override;
    [[nodiscard]] Status rename(const std::string& from, const std::string& to) override;
    [[nodiscard]] Status remove(const std::string& path) override;
    [[nodiscard]] Status sync_folder(const std::string& folder) override;
};

}  // namespace weir::checkpoint
