// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/job_status.h"

#include <utility>

#include "lib/base/byte_codec.h"
#include "lib/wire/filter_traffic_codec.h"
#include "lib/wire/messages.h"
#include "lib/wire/work_share.h"

namespace weir {
namespace {

constexpr size_t kEntriesMax = size_t{1} << 16;  // of any list, in a status that was received

template <class Entry, class Write>
void write_list(ByteWriter& writer, const std::vector<Entry>& list, Write&& write) {
    writer.number(static_cast<uint32_t>(list.size()));
    for (const Entry& entry : list)
        write(entry);
}

/// Grows with what is there, not with what is announced.
template <class Entry, class Read>
bool read_list(ByteReader& reader, size_t& room, std::vector<Entry>& list, Read&& read) {
    const auto count = reader.number<uint32_t>();
    if (count > room) return false;
    room -= count;
    for (uint32_t i = 0; i < count; ++i) {
        if (!read(list.emplace_back())) return false;
    }
    return true;
}

bool read(ByteReader& from, JobStatus::Shard& shard) {
    shard.number = from.number<uint32_t>();
    shard.segments = from.number<uint32_t>();
    shard.backups = from.number<uint32_t>();
    shard.share = from.number<double>();
    if (!from.flag(shard.answered)) return false;
    shard.keys = from.number<uint64_t>();
    shard.bytes = from.number<uint64_t>();
    shard.pushes = from.number<uint64_t>();
    shard.pulls = from.number<uint64_t>();
    return true;
}

void write(ByteWriter& w, const std::optional<LearningProgress>& learning) {
    w.number(static_cast<uint8_t>(learning.has_value()));
    if (!learning) return;
    w.number(learning->copies).number(learning->moves).number(learning->sources);
    w.number(learning->waiting).number(learning->taken).number(learning->since);
}

/// In view `epoch`.
bool read(ByteReader& from, uint64_t epoch, std::optional<LearningProgress>& learning) {
    bool is_learning = false;
    if (!from.flag(is_learning)) return false;
    if (!is_learning) return true;
    LearningProgress& is = learning.emplace();
    is.copies = from.number<uint32_t>();
    is.moves = from.number<uint32_t>();
    is.sources = from.number<uint32_t>();
    is.waiting = from.number<uint32_t>();
    is.taken = from.number<uint32_t>();
    is.since = from.number<uint64_t>();
    return is.is_sound(epoch);
}

bool read(ByteReader& from, JobStatus::Checkpoints& checkpoints) {
    if (!from.flag(checkpoints.is_on) || !from.flag(checkpoints.is_under_way)) return false;
    checkpoints.last_number = from.number<uint64_t>();
    checkpoints.last_age_ms = from.number<uint64_t>();
    checkpoints.last_duration_ms = from.number<uint64_t>();
    checkpoints.resumed_from = from.number<uint64_t>();
    checkpoints.last_failure = from.text(JobStatus::kFailureBytesMax);
    checkpoints.rest_wait_ms = from.number<uint64_t>();
    return true;
}

bool read(ByteReader& from, JobStatus::Work& work) {
    work.on_worker_loss = from.number<OnWorkerLoss>();
    work.round = from.number<uint64_t>();
    work.piece_count = from.number<uint32_t>();
    work.description = from.text(WorkShare::kDescriptionBytesMax);
    return work.on_worker_loss <= OnWorkerLoss::kReassign;
}

void read(ByteReader& r, JobStatus::Managers& managers) {
    managers.count = r.number<uint32_t>();
    managers.rank = r.number<uint32_t>();
    managers.heard = r.number<uint32_t>();
    managers.term = r.number<uint64_t>();
    managers.log_bytes = r.number<uint64_t>();
}

}  // namespace

bool LearningProgress::is_sound(uint64_t epoch) const noexcept {
    return to_come() + waiting > 0 && sources <= to_come() && (sources > 0) == (to_come() > 0) &&
           since > 0 && since <= epoch;
}

std::vector<std::byte> JobStatus::encode() const {
    ByteWriter w;
    const auto number = [&](uint32_t value) { w.number(value); };
    w.number(epoch).number(joining_servers).number(joining_workers).number(tables);
    w.number(segments_to_move).number(segments_complete).number(segments_moved);
    w.number(share_to_move).number(share_complete).number(share_moved);
    w.number(share_lost).number(replicas).number(segments).number(segments_to_copy);
    w.number(segments_copying).number(copies_made).number(lease_ms);
    w.number(managers.count).number(managers.rank).number(managers.heard);
    w.number(managers.term).number(managers.log_bytes);
    w.number(static_cast<uint8_t>(checkpoints.is_on));
    w.number(static_cast<uint8_t>(checkpoints.is_under_way)).number(checkpoints.last_number);
    w.number(checkpoints.last_age_ms).number(checkpoints.last_duration_ms);
    w.number(checkpoints.resumed_from);
    w.text(std::string_view(checkpoints.last_failure).substr(0, kFailureBytesMax));
    w.number(checkpoints.rest_wait_ms);
    write_list(w, dead, [&](const DeadServer& server) {
        w.number(server.number).number(server.rank);
        w.number(static_cast<uint8_t>(server.held_parameters));
    });
    write_list(w, servers, [&](const Server& server) {
        w.number(server.number).number(server.rank).number(server.weight);
        w.number(static_cast<uint8_t>(server.is_leaving)).number(server.silent_ms);
        w.number(server.heard_ms).number(server.lease_left_ms);
        w.text(server.host).number(server.joiner);
        write(w, server.learning);
        write_list(w, server.shards, [&](const Shard& shard) {
            w.number(shard.number).number(shard.segments).number(shard.backups);
            w.number(shard.share);
            w.number(static_cast<uint8_t>(shard.answered)).number(shard.keys).number(shard.bytes);
            w.number(shard.pushes).number(shard.pulls);
        });
    });
    write_list(w, workers, [&](const Worker& worker) {
        w.number(worker.number).number(worker.rank);
        w.number(static_cast<uint8_t>(worker.has_work));
        w.number(worker.heard_ms).number(worker.lease_left_ms).number(worker.rows_held);
        write_list(w, worker.pieces, number);
    });
    w.number(work.on_worker_loss).number(work.round).number(work.piece_count);
    w.text(work.description);
    write_list(w, losers, number);
    write_list(w, open, [&](const OpenIteration& one) {
        w.text(one.table).number(one.iteration).number(one.late_count);
        write_list(w, one.late, number);
    });
    write(w, filters);
    return std::move(w).take();
}

std::optional<JobStatus> JobStatus::decode(std::span<const std::byte> body) {
    ByteReader r(body);
    JobStatus status;
    size_t room = 4 * kEntriesMax;
    const auto number = [&](uint32_t& value) {
        value = r.number<uint32_t>();
        return true;
    };
    status.epoch = r.number<uint64_t>();
    status.joining_servers = r.number<uint32_t>();
    status.joining_workers = r.number<uint32_t>();
    status.tables = r.number<uint32_t>();
    status.segments_to_move = r.number<uint64_t>();
    status.segments_complete = r.number<uint64_t>();
    status.segments_moved = r.number<uint64_t>();
    status.share_to_move = r.number<double>();
    status.share_complete = r.number<double>();
    status.share_moved = r.number<double>();
    status.share_lost = r.number<double>();
    status.replicas = r.number<uint32_t>();
    status.segments = r.number<uint64_t>();
    status.segments_to_copy = r.number<uint64_t>();
    status.segments_copying = r.number<uint64_t>();
    status.copies_made = r.number<uint64_t>();
    status.lease_ms = r.number<uint64_t>();
    read(r, status.managers);
    if (!read(r, status.checkpoints)) return std::nullopt;
    const auto shard = [&](Shard& s) { return read(r, s); };
    const auto server = [&](Server& s) {
        s.number = r.number<uint32_t>();
        s.rank = r.number<uint32_t>();
        s.weight = r.number<uint32_t>();
        if (!r.flag(s.is_leaving)) return false;
        s.silent_ms = r.number<uint64_t>();
        s.heard_ms = r.number<uint64_t>();
        s.lease_left_ms = r.number<uint64_t>();
        s.host = r.text(JoinMessage::kHostNameBytesMax);
        s.joiner = r.number<uint64_t>();
        if (!read(r, status.epoch, s.learning)) return false;
        return read_list(r, room, s.shards, shard);
    };
    const auto worker = [&](Worker& w) {
        w.number = r.number<uint32_t>();
        w.rank = r.number<uint32_t>();
        if (!r.flag(w.has_work)) return false;
        w.heard_ms = r.number<uint64_t>();
        w.lease_left_ms = r.number<uint64_t>();
        w.rows_held = r.number<uint64_t>();
        return read_list(r, room, w.pieces, number);
    };
    const auto dead_server = [&](DeadServer& s) {
        s.number = r.number<uint32_t>();
        s.rank = r.number<uint32_t>();
        return r.flag(s.held_parameters);
    };
    const auto iteration = [&](OpenIteration& one) {
        one.table = r.text(TableMessage::kNameBytesMax);
        one.iteration = r.number<uint64_t>();
        one.late_count = r.number<uint32_t>();
        return read_list(r, room, one.late, number);
    };
    const bool is_whole = read_list(r, room, status.dead, dead_server) &&
                          read_list(r, room, status.servers, server) &&
                          read_list(r, room, status.workers, worker) && read(r, status.work) &&
                          read_list(r, room, status.losers, number) &&
                          read_list(r, room, status.open, iteration);
    if (is_whole) read(r, status.filters);
    if (!is_whole || !r.done()) return std::nullopt;
    return status;
}

}  // namespace weir
