// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DiskStorage: a LogStorage in the journals of a folder (journal.h). There is one journal, "journal-" and
/// its number in hex. Each snapshot and each start begins the next one: it is written under a name that ends
/// in ".part", synced and renamed, and then the one before is removed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/checkpoint/disk.h"
#include "lib/consensus/journal.h"
#include "lib/consensus/log_storage.h"

namespace weir::consensus {

/// Each call syncs the journal before it returns.
class DiskStorage final : public LogStorage {
public:
    static constexpr uint64_t kJournalBytesMax = uint64_t{1} << 30;

    /// Reads the newest journal in `folder`, if there is one, and begins the next. The folder must be there,
    /// and no other process may use it. `disk` must outlive the storage.
    /// Errors:  kIo; kNotFound: no such folder; kParse, kUnavailable: as read_journal()
    [[nodiscard]] static Result<std::unique_ptr<DiskStorage>> open(checkpoint::Disk& disk,
                                                                   const std::string& folder,
                                                                   uint64_t group,
                                                                   uint64_t replica);

    /// Begins a journal with nothing in it, and removes what is in `folder` of earlier replicas, of any group. The
    /// rest as open().
    /// Errors:  kIo; kNotFound: no such folder
    [[nodiscard]] static Result<std::unique_ptr<DiskStorage>> create(checkpoint::Disk& disk,
                                                                     const std::string& folder,
                                                                     uint64_t group,
                                                                     uint64_t replica);

    [[nodiscard]] const LogState& state() const noexcept override { return state_; }

    [[nodiscard]] Status promise(const Promise& promise) override;
    [[nodiscard]] Status append(std::vector<Entry> entries) override;
    [[nodiscard]] Status truncate(uint64_t index) override;
    [[nodiscard]] Status put_snapshot(Snapshot snapshot, uint64_t kept) override;

private:
    DiskStorage(checkpoint::Disk& disk, std::string folder, uint64_t group, uint64_t replica)
        : disk_(disk), folder_(std::move(folder)), group_(group), replica_(replica) {}

    /// Finds the journals in the folder.
    [[nodiscard]] Status look();
    [[nodiscard]] Status load();
    /// Begins the next journal with state_.
    [[nodiscard]] Status begin_journal();
    /// Writes what the writer has encoded, and syncs it.
    [[nodiscard]] Status write();
    /// Remembers the first error.
    [[nodiscard]] Status note(Status status);

    checkpoint::Disk& disk_;
    std::string folder_;
    uint64_t group_;
    uint64_t replica_;
    LogState state_;
    uint64_t number_ = 0;             ///< of the journal; 0: none yet
    std::vector<std::string> stale_;  ///< files that are in the folder and of no use
    std::unique_ptr<JournalWriter> writer_;
    std::unique_ptr<checkpoint::NewFile> file_;
    Status failure_;
};

}  // namespace weir::consensus
