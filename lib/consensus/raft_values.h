// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Conversions between our values and those of libraft, whose memory is its own.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/consensus/libraft.h"
#include "lib/consensus/log_state.h"
#include "lib/consensus/messages.h"

namespace weir::consensus {

/// A copy that libraft will free. Aborts if there is no memory.
[[nodiscard]] raft_buffer raft_copy(std::span<const std::byte> bytes);
[[nodiscard]] std::span<const std::byte> bytes_of(const raft_buffer& buffer) noexcept;

/// How libraft knows a replica's address: by its id, because addresses change from start to start.
[[nodiscard]] std::string raft_address(uint64_t id);

/// The replicas as libraft holds them. The caller closes it, or gives it to libraft.
[[nodiscard]] raft_configuration raft_members(std::span<const uint64_t> ids);
/// The first entry of a log, of term 1, which names the members, as libraft wants entries that were loaded.
[[nodiscard]] raft_entry* raft_first_entry(std::span<const uint64_t> ids);

/// Entries that share one buffer, as libraft wants those of a message.
[[nodiscard]] raft_entry* raft_batch(std::span<const Entry> entries);

/// Of a snapshot, with `members`, which it takes over.
[[nodiscard]] raft_snapshot* raft_copy(const Snapshot& snapshot, raft_configuration members);
[[nodiscard]] Snapshot snapshot_of(const raft_snapshot& snapshot);

/// nullopt: a message of a kind that is not sent here. Vote::current is not set.
[[nodiscard]] std::optional<Message> message_of(const raft_message& message);
/// False: it is not for libraft. `members`: those of its own that libraft needs with a snapshot.
[[nodiscard]] bool to_raft(const Message& message, uint64_t sender,
                           std::span<const uint64_t> members, raft_message& to);

}  // namespace weir::consensus
