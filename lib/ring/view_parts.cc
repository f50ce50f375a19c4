// SPDX-License-Identifier: Apache-2.0
/// \file
/// The parts of a ViewChange. A part is a head and then records up to its end. A record is its kind
/// (1 byte) and its fields; kinds ascend through all parts, and so do the keys of one kind.

#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "lib/ring/view_change.h"

namespace weir {
namespace {

enum RecordKind : uint8_t {
    kServerGone = 1,
    kServer,
    kShardGone,
    kShard,
    kSegmentGone,
    kSegment,
    kWorkerGone,
    kWorker,
    kMemberGone,
    kMember,
    kWithdrawalGone,
    kWithdrawal,
};

void write(ByteWriter& to, const ViewServer& server) {
    to.number(server.number).number(server.rank).number(server.host).number(server.weight);
}

void write(ByteWriter& to, const ViewShard& shard) {
    to.number(shard.number).number(shard.server).number(shard.since).text(shard.address);
}

void write(ByteWriter& to, const ViewSegment& segment) {
    to.number(segment.first).number(segment.primary);
    to.number(static_cast<uint8_t>(segment.backup_count()));
    for (size_t i = 0; i < segment.backup_count(); ++i)
        to.number(segment.backups[i]);
    to.number(static_cast<uint8_t>(segment.has_learner() ? 1 : 0));
    if (!segment.has_learner()) return;
    to.number(segment.learner.shard).number(segment.learner.replaces).number(segment.learner.named);
}

void write(ByteWriter& to, const ViewWorker& worker) {
    to.number(worker.number).number(worker.rank).number(worker.first_iteration);
}

void write(ByteWriter& to, const ViewMember& member) {
    to.number(member.worker).number(member.table).number(member.first_iteration);
}

void write(ByteWriter& to, const ViewWithdrawal& withdrawal) {
    to.number(withdrawal.worker).number(withdrawal.table).number(withdrawal.first_iteration);
    to.number(withdrawal.last_iteration);
}

bool read(ByteReader& from, ViewServer& server) {
    server.number = from.number<uint32_t>();
    server.rank = from.number<uint32_t>();
    server.host = from.number<uint64_t>();
    server.weight = from.number<uint32_t>();
    return true;
}

bool read(ByteReader& from, ViewShard& shard) {
    shard.number = from.number<uint32_t>();
    shard.server = from.number<uint32_t>();
    shard.since = from.number<uint64_t>();
    shard.address = from.text(ViewLimits::kAddressBytesMax);
    return true;
}

bool read(ByteReader& from, ViewSegment& segment) {
    segment.first = from.number<uint64_t>();
    segment.primary = from.number<uint32_t>();
    const auto backups = from.number<uint8_t>();
    if (backups > segment.backups.size()) return false;
    for (size_t i = 0; i < backups; ++i) {
        segment.backups[i] = from.number<uint32_t>();
        if (segment.backups[i] == kNoShard) return false;
    }
    const auto has_learner = from.number<uint8_t>();
    if (has_learner == 0) return true;
    segment.learner.shard = from.number<uint32_t>();
    segment.learner.replaces = from.number<uint32_t>();
    segment.learner.named = from.number<uint64_t>();
    return has_learner == 1 && segment.has_learner();
}

bool read(ByteReader& from, ViewWorker& worker) {
    worker.number = from.number<uint32_t>();
    worker.rank = from.number<uint32_t>();
    worker.first_iteration = from.number<uint64_t>();
    return true;
}

bool read(ByteReader& from, ViewMember& member) {
    member.worker = from.number<uint32_t>();
    member.table = from.number<uint32_t>();
    member.first_iteration = from.number<uint64_t>();
    return true;
}

bool read(ByteReader& from, ViewWithdrawal& withdrawal) {
    withdrawal.worker = from.number<uint32_t>();
    withdrawal.table = from.number<uint32_t>();
    withdrawal.first_iteration = from.number<uint64_t>();
    withdrawal.last_iteration = from.number<uint64_t>();
    return true;
}

/// Fills one body after the other.
class PartWriter {
public:
    PartWriter(const ViewChange& change, size_t body_bytes_max)
        : change_(change), body_bytes_max_(body_bytes_max) {
        WEIR_CHECK(body_bytes_max >= kViewPartBytesMin);
    }

    template <class Entry>
    void list(uint8_t gone_kind, const ListChange<Entry>& list) {
        for (const uint64_t key : list.removed)
            add(ByteWriter().number(gone_kind).number(key));
        for (const Entry& entry : list.put) {
            ByteWriter record;
            record.number(static_cast<uint8_t>(gone_kind + 1));
            write(record, entry);
            add(record);
        }
    }

    std::vector<std::vector<std::byte>> finish() {
        records_.push_back(std::move(part_));
        std::vector<std::vector<std::byte>> bodies;
        for (uint32_t i = 0; i < records_.size(); ++i) {
            ByteWriter body;
            body.number(change_.from).number(change_.epoch).number(change_.next_server);
            body.number(change_.next_shard).number(change_.next_worker);
            body.number(static_cast<uint32_t>(records_.size())).number(i);
            WEIR_CHECK(body.bytes().size() == kHeadBytes);
            body.raw(records_[i].bytes());
            bodies.push_back(std::move(body).take());
        }
        return bodies;
    }

private:
    static constexpr size_t kHeadBytes = 36;

    void add(const ByteWriter& record) {
        const size_t bytes = kHeadBytes + part_.bytes().size() + record.bytes().size();
        if (bytes > body_bytes_max_) records_.push_back(std::exchange(part_, ByteWriter()));
        part_.raw(record.bytes());
    }

    const ViewChange& change_;
    size_t body_bytes_max_;
    ByteWriter part_;
    std::vector<ByteWriter> records_;  // of each part
};

/// Reads one record into its list. The text is empty, or says what is wrong.
template <class Entry>
std::string_view read_record(ByteReader& from, bool is_removal, size_t count_max,
                             ListChange<Entry>& list) {
    if (is_removal) {
        const auto key = from.number<uint64_t>();
        if (!from.ok()) return "a record is cut off";
        if (list.removed.size() == count_max) return "too many removals";
        if (!list.removed.empty() && list.removed.back() >= key) return "removals out of order";
        list.removed.push_back(key);
        return {};
    }
    Entry entry;
    if (!read(from, entry)) return "a record has an impossible value";
    if (!from.ok()) return "a record is cut off";
    if (list.put.size() == count_max) return "too many entries";
    if (!list.put.empty() && view_key(list.put.back()) >= view_key(entry)) {
        return "entries out of order";
    }
    list.put.push_back(std::move(entry));
    return {};
}

std::string_view read_record(ByteReader& from, uint8_t kind, ViewChange& change) {
    using L = ViewLimits;
    switch (kind) {
        case kServerGone:
        case kServer: return read_record(from, kind == kServerGone, L::kServersMax, change.servers);
        case kShardGone:
        case kShard: return read_record(from, kind == kShardGone, L::kShardsMax, change.shards);
        case kSegmentGone:
        case kSegment:
            return read_record(from, kind == kSegmentGone, L::kSegmentsMax, change.segments);
        case kWorkerGone:
        case kWorker: return read_record(from, kind == kWorkerGone, L::kWorkersMax, change.workers);
        case kMemberGone:
        case kMember: return read_record(from, kind == kMemberGone, L::kMembersMax, change.members);
        case kWithdrawalGone:
        case kWithdrawal:
            return read_record(from, kind == kWithdrawalGone, L::kWithdrawalsMax,
                               change.withdrawals);
        default: return "a record of an unknown kind";
    }
}

Error malformed(uint64_t epoch, std::string_view what) {
    return Error(Errc::kProtocol, fmt::format("the change to view {}: {}", epoch, what));
}

}  // namespace

std::vector<std::vector<std::byte>> encode_parts(const ViewChange& change, size_t body_bytes_max) {
    PartWriter writer(change, body_bytes_max);
    writer.list(kServerGone, change.servers);
    writer.list(kShardGone, change.shards);
    writer.list(kSegmentGone, change.segments);
    writer.list(kWorkerGone, change.workers);
    writer.list(kMemberGone, change.members);
    writer.list(kWithdrawalGone, change.withdrawals);
    return writer.finish();
}

Status ViewParts::add(std::span<const std::byte> body) {
    ByteReader reader(body);
    ViewChange head;
    head.from = reader.number<uint64_t>();
    head.epoch = reader.number<uint64_t>();
    head.next_server = reader.number<uint32_t>();
    head.next_shard = reader.number<uint32_t>();
    head.next_worker = reader.number<uint32_t>();
    const auto part_count = reader.number<uint32_t>();
    const auto part = reader.number<uint32_t>();
    if (!reader.ok()) return malformed(head.epoch, "a part is too short");
    if (complete()) return malformed(head.epoch, "a part after the last one");
    if (parts_here_ == 0) {
        if (part_count == 0)
            return malformed(head.epoch, "its first part gives a count of 0 parts");
        if (head.epoch <= head.from) return malformed(head.epoch, "the epoch does not go up");
        part_count_ = part_count;
        change_ = head;
    }
    const bool is_same = part_count == part_count_ && head.from == change_.from &&
                         head.epoch == change_.epoch && head.next_server == change_.next_server &&
                         head.next_shard == change_.next_shard &&
                         head.next_worker == change_.next_worker;
    if (!is_same || part != parts_here_) return malformed(head.epoch, "a part is missing");
    // Only the only part may be empty: else a peer could send parts without end.
    if (reader.done() && part_count != 1) return malformed(head.epoch, "a part is empty");
    while (!reader.done()) {
        const auto kind = reader.number<uint8_t>();
        if (kind < last_kind_) return malformed(head.epoch, "lists out of order");
        last_kind_ = kind;
        const std::string_view error = read_record(reader, kind, change_);
        if (!error.empty()) return malformed(head.epoch, error);
    }
    ++parts_here_;
    return {};
}

}  // namespace weir
