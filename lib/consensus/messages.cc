// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/messages.h"

#include <string>
#include <utility>

#include "lib/base/byte_codec.h"

namespace weir::consensus {
namespace {

/// The numbers travel on the wire: add at the end, never reuse. 6 and 7 are spent.
enum class MessageKind : uint8_t {
    kAskVote = 1,
    kVote = 2,
    kAppend = 3,
    kAppended = 4,
    kInstall = 5,
    kTakeOver = 8,
};

// Bodies: what write_body() writes, read_body() reads; it returns false if that cannot be right.

void write_body(ByteWriter& to, const AskVote& ask) {
    to.number(MessageKind::kAskVote).number(ask.term).number(ask.last_index).number(ask.last_term);
    to.number(static_cast<uint8_t>(ask.is_trial)).number(static_cast<uint8_t>(ask.is_named));
}

void write_body(ByteWriter& to, const Vote& vote) {
    to.number(MessageKind::kVote).number(vote.term).number(static_cast<uint8_t>(vote.is_granted));
    to.number(static_cast<uint8_t>(vote.is_trial)).number(vote.current);
}

void write_body(ByteWriter& to, const Append& append) {
    to.number(MessageKind::kAppend).number(append.term).number(append.before);
    to.number(append.before_term).number(append.committed);
    to.number(static_cast<uint32_t>(append.entries.size()));
    for (const Entry& entry : append.entries) {
        to.number(entry.term).number(entry.kind);
        to.number(static_cast<uint32_t>(entry.bytes.size())).raw(entry.bytes);
    }
}

void write_body(ByteWriter& to, const Appended& appended) {
    to.number(MessageKind::kAppended).number(appended.term);
    to.number(appended.rejected).number(appended.last);
}

void write_body(ByteWriter& to, const Install& install) {
    to.number(MessageKind::kInstall).number(install.term);
    to.number(install.snapshot.index).number(install.snapshot.term).raw(install.snapshot.bytes);
}

void write_body(ByteWriter& to, const TakeOver& take_over) {
    to.number(MessageKind::kTakeOver).number(take_over.term);
    to.number(take_over.last_index).number(take_over.last_term);
}

bool is_term(uint64_t term) {
    return term > 0 && term < kNumberMax;
}

/// A place in a log and the term of its entry; 0 and 0 before the first.
bool is_place(uint64_t index, uint64_t term) {
    return index < kNumberMax && (index == 0 ? term == 0 : is_term(term));
}

bool read_body(ByteReader& from, AskVote& ask) {
    ask.term = from.number<uint64_t>();
    ask.last_index = from.number<uint64_t>();
    ask.last_term = from.number<uint64_t>();
    return from.flag(ask.is_trial) && from.flag(ask.is_named) && !(ask.is_trial && ask.is_named) &&
           is_term(ask.term) && is_place(ask.last_index, ask.last_term);
}

bool read_body(ByteReader& from, Vote& vote) {
    vote.term = from.number<uint64_t>();
    if (!from.flag(vote.is_granted) || !from.flag(vote.is_trial)) return false;
    vote.current = from.number<uint64_t>();
    return is_term(vote.term) && is_term(vote.current);
}

bool read_entry(ByteReader& from, uint64_t index, Entry& entry) {
    entry.term = from.number<uint64_t>();
    entry.kind = from.number<EntryKind>();
    const std::string text = from.text(kEntryBytesMax);
    if (!from.ok() || !is_term(entry.term)) return false;
    if (entry.kind < EntryKind::kCommand || entry.kind > EntryKind::kMembers) return false;
    if ((entry.kind == EntryKind::kMembers) != (index == 1)) return false;
    const auto bytes = std::as_bytes(std::span(text));
    entry.bytes.assign(bytes.begin(), bytes.end());
    return true;
}

bool read_body(ByteReader& from, Append& append) {
    append.term = from.number<uint64_t>();
    append.before = from.number<uint64_t>();
    append.before_term = from.number<uint64_t>();
    append.committed = from.number<uint64_t>();
    if (!is_term(append.term) || !is_place(append.before, append.before_term)) return false;
    if (append.committed >= kNumberMax || append.before_term > append.term) return false;
    uint64_t index = append.before;
    uint64_t term = append.before_term;
    for (auto count = from.number<uint32_t>(); count > 0; --count) {
        Entry entry;
        if (!read_entry(from, ++index, entry) || entry.term < term) return false;
        term = entry.term;
        append.entries.push_back(std::move(entry));
    }
    return term <= append.term;
}

bool read_body(ByteReader& from, Appended& appended) {
    appended.term = from.number<uint64_t>();
    appended.rejected = from.number<uint64_t>();
    appended.last = from.number<uint64_t>();
    return is_term(appended.term) && appended.rejected < kNumberMax && appended.last < kNumberMax;
}

bool read_body(ByteReader& from, Install& install) {
    install.term = from.number<uint64_t>();
    install.snapshot.index = from.number<uint64_t>();
    install.snapshot.term = from.number<uint64_t>();
    const std::span<const std::byte> bytes = from.rest();
    install.snapshot.bytes.assign(bytes.begin(), bytes.end());
    return is_term(install.term) && install.snapshot.index > 0 &&
           install.snapshot.term <= install.term &&
           is_place(install.snapshot.index, install.snapshot.term) &&
           bytes.size() <= kSnapshotBytesMax;
}

bool read_body(ByteReader& from, TakeOver& take_over) {
    take_over.term = from.number<uint64_t>();
    take_over.last_index = from.number<uint64_t>();
    take_over.last_term = from.number<uint64_t>();
    return is_term(take_over.term) && is_place(take_over.last_index, take_over.last_term) &&
           take_over.last_term <= take_over.term;
}

template <class T>
std::optional<Message> read_message(ByteReader& from) {
    T message;
    if (!read_body(from, message) || !from.done()) return std::nullopt;
    return message;
}

}  // namespace

std::vector<std::byte> encode_message(const Message& message) {
    ByteWriter to;
    std::visit([&](const auto& body) { write_body(to, body); }, message);
    return std::move(to).take();
}

std::optional<Message> decode_message(std::span<const std::byte> bytes) {
    ByteReader from(bytes);
    switch (from.number<MessageKind>()) {
        case MessageKind::kAskVote: return read_message<AskVote>(from);
        case MessageKind::kVote: return read_message<Vote>(from);
        case MessageKind::kAppend: return read_message<Append>(from);
        case MessageKind::kAppended: return read_message<Appended>(from);
        case MessageKind::kInstall: return read_message<Install>(from);
        case MessageKind::kTakeOver: return read_message<TakeOver>(from);
    }
    return std::nullopt;
}

}  // namespace weir::consensus
