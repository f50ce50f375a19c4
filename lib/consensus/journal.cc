// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/journal.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxhash reads it
#include <xxhash.h>

#include "lib/base/byte_codec.h"

namespace weir::consensus {
namespace {

constexpr std::string_view kJournalMagic = "WEIRJRNL";
constexpr size_t kFileHeadBytes = 16;
constexpr size_t kRecordHeadBytes = 16;
constexpr size_t kSumBytes = 8;
constexpr uint64_t kSumTopBit = uint64_t{1} << 63;

/// The numbers lie on disks.
enum class Record : uint8_t {
    kOwner = 1,     ///< group, replica
    kPromise = 2,   ///< term, vote
    kSnapshot = 3,  ///< index, term, bytes
    kFirst = 4,     ///< index of the first entry to come
    kEntry = 5,     ///< index, term, kind (1), bytes
    kTruncate = 6,  ///< index
    kBegun = 7,     ///< the state as of when the file was made ends here
};

uint64_t sum_of(uint64_t place, std::span<const std::byte> bytes) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), place) | kSumTopBit;
}

uint64_t number_at(std::span<const std::byte> bytes, size_t place) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + place, sizeof(value));
    return value;
}

bool is_zero(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

enum class Cut : uint8_t { kWhole, kTorn, kDamaged };

/// Looks at the record at the beginning of `rest`, which lies at `place` of the file.
Cut look_at(uint64_t place, std::span<const std::byte> rest, uint32_t& body_bytes) {
    if (rest.size() < kRecordHeadBytes) return Cut::kTorn;
    std::memcpy(&body_bytes, rest.data(), sizeof(body_bytes));
    if (number_at(rest, 8) != sum_of(place, rest.first(8)))
        return is_zero(rest.subspan(kRecordHeadBytes - 1)) ? Cut::kTorn : Cut::kDamaged;
    const uint64_t end = kRecordHeadBytes + uint64_t{body_bytes} + kSumBytes;
    if (rest.size() < end) return Cut::kTorn;
    if (number_at(rest, end - kSumBytes) ==
        sum_of(place, rest.subspan(kRecordHeadBytes, body_bytes)))
        return Cut::kWhole;
    return is_zero(rest.subspan(end - 1)) ? Cut::kTorn : Cut::kDamaged;
}

/// Takes the records of a journal, one after the other, into a state.
class JournalReader {
public:
    JournalReader(uint64_t group, uint64_t replica) : group_(group), replica_(replica) {}

    /// What is wrong with it; empty if nothing is.
    std::string_view take(Record kind, std::span<const std::byte> body) {
        ByteReader from(body);
        if ((kind == Record::kOwner) == has_owner_) return "its records are out of order";
        switch (kind) {
            case Record::kOwner: {
                has_owner_ = true;
                const auto group = from.number<uint64_t>();
                if (from.number<uint64_t>() != replica_ || group != group_)
                    return "it belongs to another job or another replica";
                break;
            }
            case Record::kPromise:
                state_.promise.term = from.number<uint64_t>();
                state_.promise.vote = from.number<uint64_t>();
                break;
            case Record::kSnapshot: {
                Snapshot snapshot{from.number<uint64_t>(), from.number<uint64_t>(), {}};
                const std::span<const std::byte> bytes = from.rest();
                snapshot.bytes.assign(bytes.begin(), bytes.end());
                state_.snapshot = std::move(snapshot);
                break;
            }
            case Record::kFirst:
                state_.first = from.number<uint64_t>();
                if (state_.first == 0 || !state_.entries.empty()) return "its first index is wrong";
                break;
            case Record::kEntry: return take_entry(from);
            case Record::kTruncate: state_.truncate(from.number<uint64_t>()); break;
            case Record::kBegun: {
                if (has_begun_) return "it begins twice";
                has_begun_ = true;
                const uint64_t covered = state_.snapshot ? state_.snapshot->index : 0;
                if (state_.first > covered + 1 || state_.last() < covered)
                    return "its entries do not follow its snapshot";
                break;
            }
            default: return "it has a record of an unknown kind";
        }
        return from.done() ? "" : "a record has a wrong length";
    }

    [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }

    [[nodiscard]] LogState state() && { return std::move(state_); }

private:
    std::string_view take_entry(ByteReader& from) {
        const auto index = from.number<uint64_t>();
        Entry entry{from.number<uint64_t>(), from.number<EntryKind>(), {}};
        const std::span<const std::byte> bytes = from.rest();
        entry.bytes.assign(bytes.begin(), bytes.end());
        const bool is_known =
            entry.kind >= EntryKind::kCommand && entry.kind <= EntryKind::kMembers;
        if (!from.ok() || !is_known || entry.term == 0) return "an entry is malformed";
        if (index != state_.last() + 1) return "an entry is missing";
        state_.entries.push_back(std::move(entry));
        return "";
    }

    uint64_t group_;
    uint64_t replica_;
    LogState state_;
    bool has_owner_ = false;
    bool has_begun_ = false;
};

Error damaged(const std::string& path, uint64_t place, std::string_view what) {
    return {Errc::kParse,
            fmt::format("{}: the journal is damaged at byte {}: {}. This replica cannot start with "
                        "it; move the folder away and start without this replica",
                        path, place, what)};
}

}  // namespace

JournalWriter::JournalWriter(uint64_t group, uint64_t replica, const LogState& state) {
    ByteWriter head;
    head.raw(std::as_bytes(std::span(kJournalMagic))).number(kVersion).number(uint32_t{0});
    bytes_.assign(head.bytes().begin(), head.bytes().end());
    ByteWriter owner;
    record(static_cast<uint8_t>(Record::kOwner), owner.number(group).number(replica).bytes());
    promise(state.promise);
    if (state.snapshot) {
        ByteWriter snapshot;
        snapshot.number(state.snapshot->index).number(state.snapshot->term);
        record(static_cast<uint8_t>(Record::kSnapshot),
               snapshot.raw(state.snapshot->bytes).bytes());
    }
    ByteWriter first;
    record(static_cast<uint8_t>(Record::kFirst), first.number(state.first).bytes());
    for (size_t at = 0; at < state.entries.size(); ++at)
        append(state.first + at, state.entries[at]);
    record(static_cast<uint8_t>(Record::kBegun), {});
}

void JournalWriter::record(uint8_t kind, std::span<const std::byte> body) {
    const uint64_t place = taken_bytes_ + bytes_.size();
    ByteWriter head;
    head.number(static_cast<uint32_t>(body.size())).number(kind).raw(std::array<std::byte, 3>{});
    head.number(sum_of(place, head.bytes()));
    bytes_.insert(bytes_.end(), head.bytes().begin(), head.bytes().end());
    bytes_.insert(bytes_.end(), body.begin(), body.end());
    const uint64_t sum = sum_of(place, body);
    const auto sum_bytes = std::as_bytes(std::span(&sum, 1));
    bytes_.insert(bytes_.end(), sum_bytes.begin(), sum_bytes.end());
}

void JournalWriter::promise(const Promise& promise) {
    ByteWriter body;
    record(static_cast<uint8_t>(Record::kPromise),
           body.number(promise.term).number(promise.vote).bytes());
}

void JournalWriter::append(uint64_t index, const Entry& entry) {
    ByteWriter body;
    body.number(index).number(entry.term).number(entry.kind).raw(entry.bytes);
    record(static_cast<uint8_t>(Record::kEntry), body.bytes());
}

void JournalWriter::truncate(uint64_t index) {
    ByteWriter body;
    record(static_cast<uint8_t>(Record::kTruncate), body.number(index).bytes());
}

std::vector<std::byte> JournalWriter::take() {
    taken_bytes_ += bytes_.size();
    return std::exchange(bytes_, {});
}

Result<LogState> read_journal(const std::string& path, uint64_t group, uint64_t replica,
                              std::span<const std::byte> bytes) {
    if (bytes.size() < kFileHeadBytes ||
        std::memcmp(bytes.data(), kJournalMagic.data(), kJournalMagic.size()) != 0)
        return damaged(path, 0, "it does not begin as a journal does");
    const auto version = static_cast<uint32_t>(number_at(bytes, 8));
    if (version != JournalWriter::kVersion) {
        return Error(
            Errc::kUnavailable,
            fmt::format("{}: the journal has version {}, and this program reads version {}; "
                        "use the version of Weir that has written it",
                        path, version, JournalWriter::kVersion));
    }
    JournalReader reader(group, replica);
    size_t place = kFileHeadBytes;
    while (place < bytes.size()) {
        uint32_t body_bytes = 0;
        const Cut cut = look_at(place, bytes.subspan(place), body_bytes);
        if (cut == Cut::kDamaged) return damaged(path, place, "the checksum of a record is wrong");
        if (cut == Cut::kTorn) break;
        const auto kind = static_cast<Record>(bytes[place + 4]);
        const std::string_view fault =
            reader.take(kind, bytes.subspan(place + kRecordHeadBytes, body_bytes));
        if (!fault.empty()) return damaged(path, place, fault);
        place += kRecordHeadBytes + body_bytes + kSumBytes;
    }
    // It had its name only once all of its beginning was on the disk.
    if (!reader.has_begun()) return damaged(path, place, "its beginning is not complete");
    return std::move(reader).state();
}

}  // namespace weir::consensus
