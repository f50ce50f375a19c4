// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/raft_values.h"

#include <cstring>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir::consensus {
namespace {

/// The entry 1 names the members, and never another one.
constexpr raft_index kMembersIndex = 1;

template <class T>
T* raft_array(size_t count) {
    // One element more, because no memory at all would be no address.
    void* const memory = raft_calloc(count + 1, sizeof(T));
    WEIR_CHECK(memory != nullptr);
    return static_cast<T*>(memory);
}

raft_tribool raft_flag(bool value) {
    return value ? raft_tribool_true : raft_tribool_false;
}

unsigned short raft_kind(EntryKind kind) {
    switch (kind) {
        case EntryKind::kCommand: return RAFT_COMMAND;
        case EntryKind::kBarrier: return RAFT_BARRIER;
        case EntryKind::kMembers: return RAFT_CHANGE;
    }
    return RAFT_COMMAND;
}

EntryKind kind_of(unsigned short kind) {
    switch (kind) {
        case RAFT_BARRIER: return EntryKind::kBarrier;
        case RAFT_CHANGE: return EntryKind::kMembers;
        default: return EntryKind::kCommand;
    }
}

Entry entry_of(const raft_entry& entry) {
    const std::span<const std::byte> bytes = bytes_of(entry.buf);
    return {entry.term, kind_of(entry.type), {bytes.begin(), bytes.end()}};
}

Append append_of(const raft_append_entries& raft) {
    Append append{raft.term, raft.prev_log_index, raft.prev_log_term, raft.leader_commit, {}};
    append.entries.reserve(raft.n_entries);
    for (const raft_entry& entry : std::span(raft.entries, raft.n_entries))
        append.entries.push_back(entry_of(entry));
    return append;
}

// Messages that libraft is to have.

void fill(raft_message& to, const AskVote& ask, uint64_t sender) {
    to.type = RAFT_IO_REQUEST_VOTE;
    raft_request_vote& raft = to.request_vote;
    raft.term = ask.term;
    raft.candidate_id = sender;
    raft.last_log_index = ask.last_index;
    raft.last_log_term = ask.last_term;
    raft.disrupt_leader = ask.is_named;
    raft.pre_vote = ask.is_trial;
}

void fill(raft_message& to, const Vote& vote) {
    to.type = RAFT_IO_REQUEST_VOTE_RESULT;
    to.request_vote_result = {vote.term, vote.is_granted, raft_flag(vote.is_trial)};
}

void fill(raft_message& to, const Append& append) {
    to.type = RAFT_IO_APPEND_ENTRIES;
    raft_append_entries& raft = to.append_entries;
    raft.term = append.term;
    raft.prev_log_index = append.before;
    raft.prev_log_term = append.before_term;
    raft.leader_commit = append.committed;
    raft.n_entries = static_cast<unsigned>(append.entries.size());
    raft.entries = append.entries.empty() ? nullptr : raft_batch(append.entries);
}

void fill(raft_message& to, const Appended& appended) {
    to.type = RAFT_IO_APPEND_ENTRIES_RESULT;
    to.append_entries_result = {appended.term, appended.rejected, appended.last};
}

void fill(raft_message& to, const Install& install, std::span<const uint64_t> members) {
    to.type = RAFT_IO_INSTALL_SNAPSHOT;
    raft_install_snapshot& raft = to.install_snapshot;
    raft.term = install.term;
    raft.last_index = install.snapshot.index;
    raft.last_term = install.snapshot.term;
    raft.conf = raft_members(members);
    raft.conf_index = kMembersIndex;
    raft.data = raft_copy(install.snapshot.bytes);
}

void fill(raft_message& to, const TakeOver& take_over) {
    to.type = RAFT_IO_TIMEOUT_NOW;
    to.timeout_now = {take_over.term, take_over.last_index, take_over.last_term};
}

}  // namespace

raft_buffer raft_copy(std::span<const std::byte> bytes) {
    raft_buffer buffer{raft_array<std::byte>(bytes.size()), bytes.size()};
    if (!bytes.empty()) std::memcpy(buffer.base, bytes.data(), bytes.size());
    return buffer;
}

std::span<const std::byte> bytes_of(const raft_buffer& buffer) noexcept {
    return {static_cast<const std::byte*>(buffer.base), buffer.len};
}

std::string raft_address(uint64_t id) {
    return fmt::format("{:x}", id);
}

raft_configuration raft_members(std::span<const uint64_t> ids) {
    raft_configuration members{};
    raft_configuration_init(&members);
    for (const uint64_t id : ids)
        WEIR_CHECK(raft_configuration_add(&members, id, raft_address(id).c_str(), RAFT_VOTER) == 0);
    return members;
}

raft_entry* raft_first_entry(std::span<const uint64_t> ids) {
    raft_configuration members = raft_members(ids);
    auto* const to = raft_array<raft_entry>(1);
    *to = {1, raft_kind(EntryKind::kMembers), {}, nullptr};
    WEIR_CHECK(raft_configuration_encode(&members, &to->buf) == 0);
    // libraft pads to whole words with whatever was in its memory: version (1), count (8), and for each
    // replica its id (8), its address as a C string, and its role (1).
    size_t used = 9;
    for (const raft_server& server : std::span(members.servers, members.n))
        used += 10 + std::strlen(server.address);
    WEIR_CHECK(used <= to->buf.len);
    std::memset(static_cast<std::byte*>(to->buf.base) + used, 0, to->buf.len - used);
    raft_configuration_close(&members);
    return to;
}

raft_entry* raft_batch(std::span<const Entry> entries) {
    size_t size = 0;
    for (const Entry& entry : entries)
        size += entry.bytes.size();
    auto* const batch = raft_array<std::byte>(size);
    auto* const to = raft_array<raft_entry>(entries.size());
    size_t place = 0;
    for (size_t at = 0; at < entries.size(); ++at) {
        const Entry& entry = entries[at];
        if (!entry.bytes.empty())
            std::memcpy(batch + place, entry.bytes.data(), entry.bytes.size());
        to[at] = {entry.term, raft_kind(entry.kind), {batch + place, entry.bytes.size()}, batch};
        place += entry.bytes.size();
    }
    return to;
}

raft_snapshot* raft_copy(const Snapshot& snapshot, raft_configuration members) {
    auto* const to = raft_array<raft_snapshot>(1);
    to->index = snapshot.index;
    to->term = snapshot.term;
    to->configuration = members;
    to->configuration_index = kMembersIndex;
    to->bufs = raft_array<raft_buffer>(1);
    to->bufs[0] = raft_copy(snapshot.bytes);
    to->n_bufs = 1;
    return to;
}

Snapshot snapshot_of(const raft_snapshot& snapshot) {
    Snapshot ours{snapshot.index, snapshot.term, {}};
    for (const raft_buffer& buffer : std::span(snapshot.bufs, snapshot.n_bufs)) {
        const std::span<const std::byte> bytes = bytes_of(buffer);
        ours.bytes.insert(ours.bytes.end(), bytes.begin(), bytes.end());
    }
    return ours;
}

std::optional<Message> message_of(const raft_message& message) {
    switch (message.type) {
        case RAFT_IO_REQUEST_VOTE: {
            const raft_request_vote& ask = message.request_vote;
            return AskVote{ask.term, ask.last_log_index, ask.last_log_term, ask.pre_vote,
                           ask.disrupt_leader};
        }
        case RAFT_IO_REQUEST_VOTE_RESULT: {
            const raft_request_vote_result& vote = message.request_vote_result;
            return Vote{vote.term, vote.vote_granted, vote.pre_vote == raft_tribool_true, 0};
        }
        case RAFT_IO_APPEND_ENTRIES: return append_of(message.append_entries);
        case RAFT_IO_APPEND_ENTRIES_RESULT: {
            const raft_append_entries_result& result = message.append_entries_result;
            return Appended{result.term, result.rejected, result.last_log_index};
        }
        case RAFT_IO_INSTALL_SNAPSHOT: {
            const raft_install_snapshot& install = message.install_snapshot;
            const std::span<const std::byte> bytes = bytes_of(install.data);
            return Install{install.term,
                           {install.last_index, install.last_term, {bytes.begin(), bytes.end()}}};
        }
        case RAFT_IO_TIMEOUT_NOW: {
            const raft_timeout_now& now = message.timeout_now;
            return TakeOver{now.term, now.last_log_index, now.last_log_term};
        }
        default: return std::nullopt;
    }
}

bool to_raft(const Message& message, uint64_t sender, std::span<const uint64_t> members,
             raft_message& to) {
    to.server_id = sender;
    if (const auto* const ask = std::get_if<AskVote>(&message)) {
        fill(to, *ask, sender);
    } else if (const auto* const vote = std::get_if<Vote>(&message)) {
        fill(to, *vote);
    } else if (const auto* const append = std::get_if<Append>(&message)) {
        fill(to, *append);
    } else if (const auto* const appended = std::get_if<Appended>(&message)) {
        fill(to, *appended);
    } else if (const auto* const install = std::get_if<Install>(&message)) {
        fill(to, *install, members);
    } else if (const auto* const take_over = std::get_if<TakeOver>(&message)) {
        fill(to, *take_over);
    } else {
        return false;
    }
    return true;
}

}  // namespace weir::consensus
