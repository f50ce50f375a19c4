// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagersLog: the place of this process's manager in the folder in which the managers of a job keep their log:
/// FOLDER/manager-RANK, with its journals. No other process uses it as long as this one lives.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"
#include "lib/consensus/log_storage.h"

namespace weir {

/// The place is this process's for as long as it lives, or until the object is destroyed.
///
/// Thread: one
class ManagersLog {
public:
    /// Takes the place of `rank`, and makes it if there is none. What is there stays.
    ///
    /// Errors: kNotFound: no such folder; kAlreadyExists: a manager of a running job has it; kIo. Each names the
    ///         folder
    [[nodiscard]] static Result<std::unique_ptr<ManagersLog>> open(const std::string& folder,
                                                                   uint32_t rank);

    /// Begins the log of a job's manager. Journals of an earlier job, which has ended, are removed.
    /// The storage must not outlive this.
    /// Errors: kIo
    [[nodiscard]] Result<std::unique_ptr<consensus::LogStorage>> begin(uint64_t group,
                                                                       uint64_t replica);

private:
    ManagersLog(std::string place, Descriptor lock)
        : place_(std::move(place)), lock_(std::move(lock)) {}

    std::string place_;
    Descriptor lock_;
    checkpoint::RealDisk disk_{checkpoint::DiskUse::kLog};
};

}  // namespace weir
