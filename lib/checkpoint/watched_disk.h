// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WatchedDisk: a disk of which is known when it has done something last, and where, so that one that is slow
/// is not taken for one that hangs, and that is named which does.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/checkpoint/disk.h"

namespace weir::checkpoint {

/// When a disk has done something last, and where.
///
/// Thread: any
class DiskMoves {
public:
    explicit DiskMoves(std::shared_ptr<const Clock> clock) : clock_(std::move(clock)) { note(); }

    /// It is asked for something there.
    void begin(std::string_view folder) {
        const std::lock_guard lock(mutex_);
        folder_ = folder;
    }

    /// It has done something, or is given something after it had nothing to do.
    void note() {
        const std::lock_guard lock(mutex_);
        noted_ns_ = clock_->now_ns();
    }

    /// Since it has done something.
    [[nodiscard]] uint64_t since_ns() const {
        const std::lock_guard lock(mutex_);
        return clock_->now_ns() - noted_ns_;
    }

    /// Where it was asked for something last. Empty: nowhere yet.
    [[nodiscard]] std::string folder() const {
        const std::lock_guard lock(mutex_);
        return folder_;
    }

private:
    std::shared_ptr<const Clock> clock_;
    mutable std::mutex mutex_;
    std::string folder_;
    uint64_t noted_ns_ = 0;
};

/// Passes everything on, and notes when it is done: each file that is made, written, synced or closed, and
/// also what fails.
///
/// Thread: as that of the disk
class WatchedDisk final : public Disk {
public:
    WatchedDisk(std::shared_ptr<Disk> disk, std::shared_ptr<DiskMoves> moves)
        : disk_(std::move(disk)), moves_(std::move(moves)) {}

    [[nodiscard]] Result<std::unique_ptr<NewFile>> create(const std::string& path) override;
    [[nodiscard]] Result<std::vector<std::byte>> read(const std::string& path,
                                                      uint64_t bytes_max) override;
    [[nodiscard]] Result<uint64_t> size(const std::string& path) override;
    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& folder) override;
    [[nodiscard]] Status rename(const std::string& from, const std::string& to) override;
    [[nodiscard]] Status remove(const std::string& path) override;
    [[nodiscard]] Status sync_folder(const std::string& folder) override;

private:
    std::shared_ptr<Disk> disk_;
    std::shared_ptr<DiskMoves> moves_;
};

}  // namespace weir::checkpoint
