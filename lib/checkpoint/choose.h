// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which checkpoint of a folder a job goes on from.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/checkpoint/chunk_check.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/manifest.h"

namespace weir::checkpoint {

/// The number of a checkpoint that is there. `number`: that of one, or 0 for the newest.
/// Errors: kNotFound if there is none, or none of that number, naming those that are there; those of Disk
[[nodiscard]] Result<uint64_t> find_checkpoint(Disk& disk, const std::string& folder,
                                               uint64_t number);

/// The manifest of a checkpoint that has all its files, of the sizes that it names. Chunks are not
/// read: whether their bytes are right is seen when they are.
/// Errors: those of read_manifest() and check_chunks()
[[nodiscard]] Result<Manifest> open_checkpoint(Disk& disk, const std::string& folder,
                                               uint64_t number);

/// The same of one that somebody chose; 0: the newest.
/// Errors: as well those of find_checkpoint(). The text of an error ends with other_choice(), if it is there.
[[nodiscard]] Result<Manifest> choose_checkpoint(Disk& disk, const std::string& folder,
                                                 uint64_t number);

/// One that a job cannot go on from.
struct LeftOut {
    uint64_t number = 0;
    Error why;
};

struct Chosen {
    Manifest manifest;
    std::vector<LeftOut> left_out;  ///< newer ones, the newest first
    size_t unread_count = 0;        ///< chunks whose bytes there was no time to read
};

/// The newest one that open_checkpoint() takes, and whose chunks are not damaged, as far as they can be
/// read until `end`.
/// Errors: kNotFound if there is no checkpoint; that of the newest, if none can be taken; kUnavailable
///         for one of another version of Weir, which is not damaged: that version is to go on from it
[[nodiscard]] Result<Chosen> choose_newest_whole(Disk& disk, const std::string& folder,
                                                 const CheckEnd& end);

/// The end of an error of checkpoint `number`, with "; " before it: the newest other one that
/// open_checkpoint() takes, and the flag that goes on from it. `chunk`: a file that it must not name.
[[nodiscard]] std::string other_choice(Disk& disk, const std::string& folder, uint64_t number,
                                       std::string_view chunk = {});

}  // namespace weir::checkpoint
