// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LogState: a replica's newest snapshot, and the terms of the entries in its log.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace weir::consensus {

/// The numbers travel on the wire: add at the end, never reuse.
enum class EntryKind : uint8_t {
    kCommand = 1,  ///< what was proposed
    kBarrier = 2,  ///< a new leader's first entry; nothing is applied
    kMembers = 3,  ///< who the replicas are; only the entry with index 1 is one
};

struct Entry {
    uint64_t term = 0;  ///< of the leader that made it
    EntryKind kind = EntryKind::kCommand;
    std::vector<std::byte> bytes;

    friend bool operator==(const Entry&, const Entry&) = default;
};

/// The state of what the log drives, after the entry `index`.
struct Snapshot {
    uint64_t index = 0;
    uint64_t term = 0;  ///< of that entry
    std::vector<std::byte> bytes;

    friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

/// Terms and indices count from 1 and stay below this: peers that name others are wrong.
inline constexpr uint64_t kNumberMax = uint64_t{1} << 62;
inline constexpr size_t kEntryBytesMax = size_t{64} << 10;
inline constexpr size_t kSnapshotBytesMax = size_t{128} << 20;

/// Entries have the indices first, first + 1, and so on, without a gap. A log begins with the entry that
/// names the members, of term 1. Thread: one
struct LogState {
    std::optional<Snapshot> snapshot;
    uint64_t first = 1;  ///< at most snapshot->index + 1
    std::deque<uint64_t> terms{1};

    /// The index of the last entry, or of the snapshot if no entry is behind it; 0: none.
    [[nodiscard]] uint64_t last() const noexcept { return first + terms.size() - 1; }

    /// The term of an entry or of the snapshot; 0 if neither is here.
    [[nodiscard]] uint64_t term_of(uint64_t index) const noexcept;

    /// Removes the entry `index` and all behind it.
    void truncate(uint64_t index);
    /// Replaces the snapshot and drops the entries up to it, except the last `kept` of them. kept == 0:
    /// drops all entries; the snapshot is another replica's.
    void put_snapshot(Snapshot newer, uint64_t kept);
};

}  // namespace weir::consensus
