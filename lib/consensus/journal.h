// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Journal: the file in which a replica keeps its LogState. It is a row of records, each with a checksum:
/// first the state as of when the file was made, then what was stored since.
///
///   file    magic "WEIRJRNL" (8) | version (4) | zero (4) | records
///   record  body bytes (4) | kind (1) | zero (3) | checksum of these 8 bytes (8) | body | checksum (8)
///
/// A checksum is XXH3-64 of the bytes, seeded with the place of the record in the file, with its highest bit
/// set. So a record that was written whole never ends with a zero byte, and one that was cut off by a crash
/// is told from one that was damaged later: behind what was written of it there are only zeros.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/consensus/log_state.h"

namespace weir::consensus {

/// Encodes a journal. Its owner writes the bytes to a file as it likes: all of them, in order.
class JournalWriter {
public:
    static constexpr uint32_t kVersion = 1;

    /// Begins a journal of the replica `replica` of `group` with `state`.
    JournalWriter(uint64_t group, uint64_t replica, const LogState& state);

    void promise(const Promise& promise);
    void append(uint64_t index, const Entry& entry);
    void truncate(uint64_t index);

    /// What was encoded since the last call.
    [[nodiscard]] std::vector<std::byte> take();

private:
    void record(uint8_t kind, std::span<const std::byte> body);

    std::vector<std::byte> bytes_;
    uint64_t taken_bytes_ = 0;
};

/// Reads a journal. A record that was cut off at the end is left out, and all that were written with it:
/// nobody was told that it is stored.
///
/// Errors: kParse: a record is damaged, or the journal belongs to another group or replica;
///         kUnavailable: a newer version of Weir has written it; each names `path`
[[nodiscard]] Result<LogState> read_journal(const std::string& path, uint64_t group,
                                            uint64_t replica, std::span<const std::byte> bytes);

}  // namespace weir::consensus
