// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/checkpoints.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/folder.h"
#include "lib/wire/messages.h"

namespace weir {

using checkpoint::Disk;
using checkpoint::Manifest;

namespace {

/// Since 1970.
uint64_t wall_time_ns() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// A checkpoint that has the tables that nobody has.
struct OldCheckpoint {
    std::string folder;
    uint64_t number = 0;
};

DiskAnswer failed(const Error& why) {
    return {.status = why.code(), .why = why.message()};
}

/// Removes old checkpoints. The new one is there even if that fails.
void remove_old(Disk& disk, const std::string& folder, const checkpoint::Keep& keep) {
    const auto pruned = checkpoint::prune(disk, folder, keep, checkpoint::PruneCheck::kSizes);
    if (!pruned) {
        log(LogLevel::kWarning,
            "checkpoints are written, but old ones in {} are not removed: {} (the job does it with "
            "its next checkpoint)",
            folder, pruned.error().message());
    }
}

/// Removes what was written of checkpoints that failed. The next one may have room even if that fails.
void remove_failed(Disk& disk, const std::string& folder, const checkpoint::Unfinished& failed) {
    const auto removed = checkpoint::remove_unfinished(disk, folder, failed);
    if (!removed) {
        log(LogLevel::kWarning, "what is left of failed checkpoints in {} is not all removed: {}",
            folder, removed.error().message());
    }
}

/// Into another folder, under the same name; its content belongs to that name.
Status copy_chunk(Disk& disk, const std::string& from, const std::string& to,
                  const std::string& name) {
    WEIR_ASSIGN(const std::vector<std::byte> bytes,
                disk.read(checkpoint::path_of(from, name), checkpoint::Chunk::kBytesMax));
    Status written = checkpoint::write_file(disk, to, name, bytes);
    if (written.code() != Errc::kAlreadyExists) return written;
    WEIR_ASSIGN(const std::vector<std::byte> there,
                disk.read(checkpoint::path_of(to, name), checkpoint::Chunk::kBytesMax));
    if (there == bytes) return {};
    return Error(Errc::kAlreadyExists,
                 fmt::format("{} belongs to another checkpoint than that in {}: give the job an "
                             "empty folder for its checkpoints",
                             checkpoint::path_of(to, name), from));
}

/// Adds the chunks of tables that nobody has, as an earlier checkpoint names them.
Status add_chunks_of(Disk& disk, const std::string& folder, const OldCheckpoint& from,
                     const std::vector<uint32_t>& unread, Manifest& manifest) {
    if (unread.empty()) return {};
    WEIR_ASSIGN(const Manifest old, checkpoint::read_manifest(disk, from.folder, from.number));
    for (const uint32_t number : unread) {
        const auto table = std::ranges::find(old.tables, number, &TableSchema::id);
        if (table == old.tables.end()) {
            return Error(Errc::kNotFound,
                         fmt::format("{}: checkpoint {} has no table {}, which nobody has read yet",
                                     from.folder, from.number, number));
        }
        manifest.tables.push_back(*table);
        if (const uint64_t closed = old.closed_of(number); closed != 0)
            manifest.closed[number] = closed;
        const auto chunks = old.chunks_of(number);
        for (const checkpoint::ChunkEntry& chunk : chunks) {
            if (from.folder == folder) break;
            WEIR_TRY(copy_chunk(disk, from.folder, folder, chunk.name));
        }
        manifest.chunks.insert(manifest.chunks.end(), chunks.begin(), chunks.end());
    }
    return {};
}

Status write_whole(Disk& disk, const std::string& folder, const OldCheckpoint& from,
                   const std::vector<uint32_t>& unread, Manifest manifest) {
    WEIR_TRY(add_chunks_of(disk, folder, from, unread, manifest));
    WEIR_TRY(checkpoint::order(manifest));
    WEIR_TRY(checkpoint::check_chunks(disk, folder, manifest));
    return checkpoint::write_manifest(disk, folder, manifest);
}

}  // namespace

void Checkpoints::answer_all(Outbox& outbox, std::vector<Asker>& askers, Errc status,
                             std::span<const std::byte> body) {
    for (const Asker& asker : std::exchange(askers, {}))
        answer(outbox, asker, status, body);
}

void Checkpoints::ask(const Asker& asker) {
    if (const Status has_folder = check_folder(); !has_folder) {
        const Error& why = has_folder.error();
        return answer(outbox_, asker, why.code(), encode_text(why.text()));
    }
    askers_.push_back(asker);
}

Status Checkpoints::want() {
    WEIR_TRY(check_folder());
    is_wanted_ = true;
    return {};
}

Status Checkpoints::check_folder() const {
    if (!options_.folder.empty()) return {};
    return Error(
        Errc::kUnavailable,
        "the job writes no checkpoints: give it a folder for them (`checkpoint_folder` DIR)");
}

void Checkpoints::forget(transport::ConnectionId connection) {
    const auto is_theirs = [&](const Asker& asker) { return asker.connection == connection; };
    std::erase_if(askers_, is_theirs);
    std::erase_if(served_, is_theirs);
}

void Checkpoints::start(const std::vector<ShardPeer>& shards) {
    is_started_ = true;
    begun_ns_ = clock_.now_ns();
    for (const ShardPeer& shard : shards)
        tell(shard);
}

void Checkpoints::tell(const ShardPeer& shard) {
    if (options_.folder.empty() || options_.every_iterations == 0) return;
    CheckpointOrder order{.step = CheckpointOrder::Step::kWatch};
    order.number = std::max<uint64_t>(1, options_.every_iterations / kIterationShare);
    send(shard, order);
}

bool Checkpoints::is_due() {
    if (options_.folder.empty() || !is_started_ || phase_ != Phase::kIdle || is_pruning_)
        return false;
    if (options_.is_asked_for && options_.is_asked_for()) is_wanted_ = true;
    const uint64_t now_ns = clock_.now_ns();
    const bool is_due = is_asked_for() || (is_due_by_itself() && now_ns >= pause_end_ns_);
    if (!is_due) {
        due_since_ns_.reset();
    } else if (!due_since_ns_) {
        due_since_ns_ = now_ns;
    }
    return is_due;
}

bool Checkpoints::needs_no_rest() const noexcept {
    const uint64_t wait_ns = is_asked_for() ? kAskedRestNs : kRestNs;
    return due_since_ns_ && clock_.now_ns() - *due_since_ns_ >= wait_ns;
}

bool Checkpoints::is_due_by_itself() const {
    const bool is_time = options_.every_ns != 0 && clock_.now_ns() - begun_ns_ >= options_.every_ns;
    return is_time || has_iterated_ || is_missed_;
}

bool Checkpoints::put_off() {
    if (is_asked_for()) return false;
    begun_ns_ = clock_.now_ns();
    has_iterated_ = is_missed_ = false;
    due_since_ns_.reset();
    return true;
}

void Checkpoints::enter(Phase phase) {
    switch (phase) {
        case Phase::kNumbering: WEIR_CHECK(phase_ == Phase::kIdle); break;
        case Phase::kFreezing: WEIR_CHECK(phase_ == Phase::kNumbering); break;
        case Phase::kTaking: WEIR_CHECK(phase_ == Phase::kFreezing && awaited_.empty()); break;
        case Phase::kWriting:
            WEIR_CHECK(phase_ == Phase::kTaking && awaited_.empty() && taking_.empty());
            break;
        case Phase::kIdle: WEIR_CHECK(awaited_.empty() && taking_.empty()); break;
    }
    phase_ = phase;
    entered_ns_ = heard_ns_ = clock_.now_ns();
}

void Checkpoints::begin(const std::vector<ShardPeer>& shards, std::vector<TableSchema> tables,
                        std::vector<uint32_t> unread) {
    was_due_ = is_wanted_ || is_due_by_itself();
    enter(Phase::kNumbering);
    is_pruning_ = false;
    begun_ns_ = entered_ns_;
    is_wanted_ = has_iterated_ = is_missed_ = false;
    due_since_ns_.reset();
    served_ = std::exchange(askers_, {});
    shards_ = shards;
    unread_ = std::move(unread);
    manifest_ = {};
    manifest_.tables = std::move(tables);
    highest_.clear();
    choose_number();
}

/// Above those of all that were tried: what a slow server still writes for one of them is not taken for
/// a file of this one. What is left of them goes first, because this one may need the room; nothing of
/// others, which may be writing there by mistake. A manager that led before may do that late: so it
/// removes nothing of one that begins later.
void Checkpoints::choose_number() {
    const auto choose = [folder = options_.folder, first = first_number_, tried = tried_number_,
                         unsure = unsure_numbers_, may_write = options_.may_write](Disk& disk) {
        if (const Status may = may_write ? may_write() : Status(); !may) return failed(may.error());
        if (first) {
            remove_failed(disk, folder, {.lowest = *first, .highest = tried, .spared = unsure});
        }
        const Result<uint64_t> number = checkpoint::next_number(disk, folder);
        return number ? DiskAnswer{.number = std::max(*number, tried + 1)} : failed(number.error());
    };
    disk_->start(choose, kDiskNs);
}

void Checkpoints::leave_out(uint32_t table) {
    if (phase_ != Phase::kNumbering && phase_ != Phase::kFreezing) return;
    std::erase_if(manifest_.tables, [&](const TableSchema& one) { return one.id == table; });
}

size_t Checkpoints::poll() {
    if (waits_for_disk()) {
        if (const std::optional<DiskAnswer> answer = disk_->take()) {
            ended_on_disk(*answer);
            return 1;
        }
    }
    const std::string late = late_text();
    if (late.empty()) return 0;
    const bool hangs = phase_ != Phase::kFreezing && taking_.empty();
    hangs ? fail(Errc::kDeadline, late) : give_up(Error(Errc::kDeadline, late));
    return 1;
}

/// How removing old ones ended, the log has said.
void Checkpoints::ended_on_disk(const DiskAnswer& answer) {
    if (std::exchange(is_pruning_, false)) return;
    if (answer.status != Errc::kOk) return fail(answer.status, answer.why);
    phase_ == Phase::kNumbering ? freeze(answer.number) : complete();
}

/// The disk says itself when it hangs.
std::string Checkpoints::late_text() const {
    if (phase_ == Phase::kIdle) return {};
    const uint64_t now_ns = clock_.now_ns();
    const uint64_t for_ns = now_ns - entered_ns_;
    const bool hears_nothing = now_ns - heard_ns_ > kDiskNs;
    if (phase_ == Phase::kFreezing && for_ns > kFreezeNs) {
        return fmt::format("shard {} did not stop for it within {} s", *awaited_.begin(),
                           kFreezeNs / kSecond);
    }
    if (phase_ != Phase::kTaking) return {};
    if (!taking_.empty() && for_ns > kTakeNs) {
        return fmt::format(
            "shard {} did not come to its instant within {} s: it waits for "
            "workers' parts of an iteration",
            *taking_.begin(), kTakeNs / kSecond);
    }
    if (!hears_nothing) return {};
    return fmt::format(
        "shard {} has written nothing to {} for {} s: its disk, or the network to "
        "it, hangs",
        *awaited_.begin(), options_.folder, kDiskNs / kSecond);
}

void Checkpoints::send(const ShardPeer& shard, const CheckpointOrder& order) {
    outbox_.send(shard.connection, wire::header_of(wire::Kind::kCheckpoint), order.encode());
}

/// Whether the checkpoints in the folder are those that the job goes on with.
bool Checkpoints::goes_on_here() const noexcept {
    return options_.resumed_from && options_.resumed_folder == options_.folder;
}

void Checkpoints::freeze(uint64_t number) {
    if (!first_number_) {
        first_number_ = number;
        if (number > 1 && !goes_on_here()) {
            log(LogLevel::kWarning,
                "{} has checkpoints, or what is left of some, up to number {}, which this job does "
                "not go on from: they stay; `weir checkpoint prune` removes old ones, and with "
                "--unfinished, when no job writes there, what is left of failed ones",
                options_.folder, number - 1);
        }
    }
    manifest_.number = tried_number_ = number;
    manifest_.created_ns = wall_time_ns();
    enter(Phase::kFreezing);
    awaited_.clear();
    CheckpointOrder order{.step = CheckpointOrder::Step::kFreeze};
    order.number = number;
    for (const ShardPeer& shard : shards_) {
        awaited_.insert(shard.number);
        send(shard, order);
    }
}

/// The highest iteration of those tables that have closed one since the last checkpoint: others may be
/// done with.
std::optional<uint64_t> Checkpoints::shown_iteration() const {
    std::optional<uint64_t> highest;
    for (const auto& [table, iteration] : manifest_.closed) {
        const auto before = saved_.find(table);
        if (before == saved_.end() || before->second != iteration)
            highest = std::max(highest.value_or(0), iteration);
    }
    return highest ? highest : last_iteration_;
}

/// All shards stand.
void Checkpoints::order_to_take() {
    enter(Phase::kTaking);
    std::vector<CheckpointOrder> orders;
    for (const TableSchema& table : manifest_.tables) {
        if (orders.empty() || orders.back().tables.size() == CheckpointOrder::kTablesMax) {
            orders.push_back({.step = CheckpointOrder::Step::kTake, .has_more = true});
            orders.back().number = manifest_.number;
        }
        const auto highest = highest_.find(table.id);
        const uint64_t iteration = highest == highest_.end() ? 0 : highest->second;
        orders.back().tables.push_back({table.id, iteration});
        if (iteration == 0) continue;
        manifest_.closed[table.id] = iteration;
    }
    manifest_.iteration = shown_iteration();
    if (orders.empty()) {
        orders.push_back({.step = CheckpointOrder::Step::kTake});
        orders.back().number = manifest_.number;
    }
    orders.back().has_more = false;
    orders.front().folder = options_.folder;
    orders.front().base = base_;
    for (const ShardPeer& shard : shards_) {
        awaited_.insert(shard.number);
        taking_.insert(shard.number);
        for (const CheckpointOrder& order : orders)
            send(shard, order);
    }
}

Status Checkpoints::take(uint32_t shard, const CheckpointReport& report) {
    using Step = CheckpointReport::Step;
    if (report.step == Step::kDue) {
        for (const TableIteration& one : report.tables) {
            if (one.iteration >= saved_[one.table] + options_.every_iterations)
                has_iterated_ = true;
        }
        return {};
    }
    const bool is_of_this = (phase_ == Phase::kFreezing || phase_ == Phase::kTaking) &&
                            report.number == manifest_.number && awaited_.contains(shard);
    if (!is_of_this) return {};  // of one that was given up
    heard_ns_ = clock_.now_ns();
    switch (report.step) {
        case Step::kFrozen:
            if (phase_ != Phase::kFreezing) return Error(Errc::kProtocol, "a second stop");
            for (const TableIteration& one : report.tables)
                highest_[one.table] = std::max(highest_[one.table], one.iteration);
            if (!report.has_more) awaited_.erase(shard);
            if (awaited_.empty()) order_to_take();
            return {};
        case Step::kTaken: taking_.erase(shard); return {};
        case Step::kChunk:
            if (phase_ != Phase::kTaking) return Error(Errc::kProtocol, "a chunk before its time");
            manifest_.chunks.push_back(report.chunk);
            return {};
        case Step::kSaved:
            if (phase_ != Phase::kTaking) return Error(Errc::kProtocol, "an end before its time");
            awaited_.erase(shard);
            taking_.erase(shard);
            if (awaited_.empty()) write_manifest();
            return {};
        case Step::kFailed:
            fail(report.status, fmt::format("shard {}: {}", shard, report.why));
            return {};
        default: return Error(Errc::kProtocol, "a report that belongs to no checkpoint");
    }
}

/// The last checkpoint has the tables that nobody has.
void Checkpoints::write_manifest() {
    enter(Phase::kWriting);
    const bool has_written = last_number_ != 0;
    const OldCheckpoint from =
        has_written ? OldCheckpoint{options_.folder, last_number_}
                    : OldCheckpoint{options_.resumed_folder, options_.resumed_from.value_or(0)};
    const auto write = [folder = options_.folder, from, manifest = manifest_, unread = unread_,
                        may_write = options_.may_write](Disk& disk) mutable {
        if (const Status may = may_write ? may_write() : Status(); !may) return failed(may.error());
        const Status written = write_whole(disk, folder, from, unread, std::move(manifest));
        return written ? DiskAnswer() : failed(written.error());
    };
    disk_->start(write, kManifestNs);
}

/// When all that decide here have agreed that there is a newer one: until then, another manager may go on with
/// one of them. Nobody waits for it. While there are tables that nobody has, the one that the job goes on
/// from stays, however old: whoever opens one of them gets its rows from there.
void Checkpoints::remove_old_ones() {
    checkpoint::Keep keep{.newest = options_.kept_count};
    if (!goes_on_here()) keep.before = *first_number_;
    if (goes_on_here() && options_.keeps_newer)
        keep.others = {*options_.resumed_from + 1, *first_number_ - 1};
    if (!unread_.empty() && goes_on_here()) keep.needed = options_.resumed_from;
    const auto remove = [folder = options_.folder, keep,
                         may_write = options_.may_write](Disk& disk) {
        const Status may = may_write ? may_write() : Status();
        if (may) remove_old(disk, folder, keep);  // else the folder is another job's now
        return DiskAnswer();
    };
    disk_->start(remove, checkpoint::DiskQueue::kHangNs);
    is_pruning_ = true;
}

void Checkpoints::complete() {
    WEIR_CHECK(phase_ == Phase::kWriting && manifest_.number > last_number_);
    enter(Phase::kIdle);
    for (const auto& [table, iteration] : manifest_.closed)
        saved_[table] = iteration;
    // What was reported meanwhile was counted from the one before. Shards soon report again.
    has_iterated_ = false;
    last_iteration_ = manifest_.iteration;
    last_number_ = base_ = manifest_.number;
    last_begun_ns_ = begun_ns_;
    last_duration_ns_ = clock_.now_ns() - begun_ns_;
    last_failure_.clear();
    note_end({});
    remove_old_ones();
    constexpr double kMib = 1024.0 * 1024.0;
    log(LogLevel::kInfo, "checkpoint {} is in {}{}: {:.1f} MiB in {:.2f} s, {:.1f} MiB of it new",
        last_number_, options_.folder,
        manifest_.iteration ? fmt::format(", as of iteration {}", *manifest_.iteration) : "",
        static_cast<double>(manifest_.bytes()) / kMib,
        static_cast<double>(last_duration_ns_) / static_cast<double>(kSecond),
        static_cast<double>(manifest_.new_bytes()) / kMib);
    ByteWriter body;
    body.number(last_number_);
    answer_all(outbox_, served_, Errc::kOk, body.bytes());
}

void Checkpoints::note_end(std::string failure) {
    ++ended_count_;
    ended_.push_front({manifest_.number, clock_.now_ns(), std::move(failure)});
    if (ended_.size() > WrittenMessage::kCheckpointsMax) ended_.pop_back();
}

void Checkpoints::give_up(const Error& why, LogLevel level) {
    if (phase_ == Phase::kIdle) return;
    const bool is_of_servers = why.code() == Errc::kCancelled || why.code() == Errc::kBusy ||
                               why.code() == Errc::kPeerLost;
    // Chunks of it may not be there; or it is the folder, which may come back without its files.
    if (phase_ == Phase::kWriting || !is_of_servers) base_ = 0;
    // Its manifest may still come, from a disk that hangs or a manager that led before.
    if (phase_ == Phase::kWriting && (is_of_servers || why.code() == Errc::kDeadline))
        unsure_numbers_.push_back(manifest_.number);
    if (needs_shards()) {
        CheckpointOrder order{.step = CheckpointOrder::Step::kGiveUp};
        order.number = manifest_.number;
        for (const ShardPeer& shard : shards_)
            send(shard, order);
    }
    awaited_.clear();
    taking_.clear();
    enter(Phase::kIdle);
    last_failure_ = why.text();
    note_end(last_failure_.substr(0, WrittenMessage::kFailureBytesMax));
    pause_end_ns_ = clock_.now_ns() + (is_of_servers ? kShortPauseNs : kPauseNs);
    is_missed_ = was_due_;
    log(level, "there is no new checkpoint, and the job goes on: {}", why.text());
    answer_all(outbox_, served_, why.code(), encode_text(why.text()));
}

/// The disk, or a shard, says so. kDeadline: the disk hangs.
void Checkpoints::fail(Errc status, std::string why) {
    give_up(Error(status, std::move(why)));
    if (status == Errc::kDeadline) pause_end_ns_ = clock_.now_ns() + kDiskNs;
}

void Checkpoints::end(const Error& why) {
    give_up(why, LogLevel::kDebug);
    answer_all(outbox_, askers_, why.code(), encode_text(why.text()));
}

Checkpoints::Report Checkpoints::report() const {
    Report report;
    report.is_on = !options_.folder.empty();
    report.is_under_way = is_under_way();
    report.last_number = last_number_;
    report.last_age_ns = last_number_ == 0 ? 0 : clock_.now_ns() - last_begun_ns_;
    report.last_duration_ns = last_duration_ns_;
    report.last_failure = last_failure_;
    if (due_since_ns_ && !needs_no_rest()) report.rest_wait_ns = clock_.now_ns() - *due_since_ns_;
    return report;
}

std::string Checkpoints::resume_advice() const {
    if (last_number_ != 0)
        return fmt::format(", with `resume` {} (checkpoint {})", options_.folder, last_number_);
    if (!options_.resumed_from) return {};
    return fmt::format(", with `resume` {} `resume_number` {}", options_.resumed_folder,
                       *options_.resumed_from);
}

WrittenMessage Checkpoints::written() const {
    WrittenMessage message;
    message.ended_count = ended_count_;
    for (const Ended& one : ended_)
        message.checkpoints.push_back({one.number, clock_.now_ns() - one.at_ns, one.failure});
    return message;
}

}  // namespace weir
