// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/job_tables.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/store/rules/collective.h"
#include "lib/store/schema_codec.h"

namespace weir {

void JobTables::resume(const checkpoint::Manifest& from, std::string folder) {
    folder_ = std::move(folder);
    resumed_.checkpoint = from.number;
    for (const TableSchema& table : from.tables) {
        tables_.resize(table.id + size_t{1});
        Entry& entry = tables_.back();
        entry.message = {table.id, table.name, encode_schema(table), from.closed_of(table.id),
                         from.number};
        entry.is_unread = true;
        resumed_.tables.insert(resumed_.tables.begin(), {table.name, entry.message.closed});
    }
}

JobTables::Entry* JobTables::find(std::string_view name) {
    const auto at = std::ranges::find_if(
        tables_, [&](const Entry& entry) { return !name.empty() && entry.message.name == name; });
    return at == tables_.end() ? nullptr : &*at;
}

/// The rule of a table of the checkpoint is that of the program which goes on with it: its author may have
/// mended it since. All servers are to have this one.
void JobTables::take_rule(Entry& entry, const TableMessage& wanted) {
    std::optional<TableSchema> known = decode_schema(entry.message.schema);
    const std::optional<TableSchema> asked = decode_schema(wanted.schema);
    if (!known || !asked || known->rule != asked->rule) return;  // the worker compares the schemas
    if (asked->rule_hash != 0 && known->rule_version != asked->rule_version)
        log(LogLevel::kWarning,
            "table '{}' was written with version {} of its rule '{}', and goes on with version {}",
            known->name, known->rule_version, known->rule, asked->rule_version);
    known->rule_version = asked->rule_version;
    // A worker that wants other rows learns that from the schema.
    const bool is_comparable = known->value_type == asked->value_type &&
                               known->width == asked->width &&
                               known->parameters == asked->parameters;
    known->rule_hash = is_comparable ? asked->rule_hash : 0;
    entry.message.schema = encode_schema(*known);
}

std::optional<uint32_t> JobTables::create(const Asker& asker, TableMessage message,
                                          const JobShards& shards) {
    // If it is there, the worker compares the schemas.
    if (Entry* const entry = find(message.name)) {
        if (entry->is_unread) take_rule(*entry, message);
        return want(*entry, asker, shards);
    }
    if (tables_.size() >= TableMessage::kTablesMax) {
        answer(
            outbox_, asker, Errc::kBusy,
            encode_text(fmt::format("all {} numbers of tables have been given out, also to tables "
                                    "that were refused or dropped since; use fewer tables",
                                    tables_.size())));
        return std::nullopt;
    }
    const auto number = static_cast<uint32_t>(tables_.size());
    Entry& entry = tables_.emplace_back();
    entry.message = std::move(message);
    entry.message.table = number;
    entry.message.closed = entry.message.checkpoint = 0;
    entry.askers.push_back(asker);
    make(entry, shards);
    return number;
}

std::optional<uint32_t> JobTables::open(const Asker& asker, std::string_view name,
                                        const JobShards& shards) {
    if (Entry* const entry = find(name)) return want(*entry, asker, shards);
    answer(outbox_, asker, Errc::kNotFound);
    return std::nullopt;
}

std::optional<uint32_t> JobTables::want(Entry& entry, const Asker& asker, const JobShards& shards) {
    entry.askers.push_back(asker);
    if (std::exchange(entry.is_unread, false)) {
        make(entry, shards);
        return entry.message.table;
    }
    entry.is_refused() ? answer_askers(entry) : answer_if_made(entry);
    return std::nullopt;
}

void JobTables::make(Entry& entry, const JobShards& shards) {
    WEIR_CHECK(!entry.is_made && entry.asked.empty() && !entry.askers.empty());
    entry.shards = shards.live;
    for (const ShardPeer& shard : shards.live) {
        send(entry, shard);
        entry.asked.insert(shard.number);
    }
    if (entry.is_from_checkpoint()) entry.asked.insert(shards.lost.begin(), shards.lost.end());
    answer_if_made(entry);
}

std::optional<uint32_t> JobTables::drop(const Asker& asker, std::string_view name,
                                        const JobShards& shards) {
    Entry* const entry = find(name);
    if (entry == nullptr) {
        answer(outbox_, asker, Errc::kNotFound,
               encode_text(fmt::format("there is no table '{}'", name)));
        return std::nullopt;
    }
    if (entry->is_under_way()) {
        answer(outbox_, asker, Errc::kBusy,
               encode_text(fmt::format("table '{}' is being made or read: try again", name)));
        return std::nullopt;
    }
    const bool is_made = entry->is_made;
    Drop& drop = drops_.emplace_back();
    drop.table = entry->message.table;
    drop.asker = asker;
    forget(*entry);
    const uint32_t table = drop.table;
    if (is_made) {
        refused_.push_back(table);
        dropped_.push_back(table);
        for (const ShardPeer& shard : shards.live) {
            order_drop(table, shard);
            drop.asked.insert(shard.number);
        }
        // They may answer others until they are out of the view.
        drop.asked.insert(shards.lost.begin(), shards.lost.end());
    }
    answer_dropped();
    return is_made ? std::optional(table) : std::nullopt;
}

void JobTables::dropped(uint32_t shard, uint64_t table) {
    for (Drop& drop : drops_) {
        if (drop.table == table) drop.asked.erase(shard);
    }
    answer_dropped();
}

void JobTables::answer_dropped() {
    std::erase_if(drops_, [&](const Drop& drop) {
        if (!drop.asked.empty()) return false;
        answer(outbox_, drop.asker, Errc::kOk, TableMessage{drop.table, {}, {}}.encode());
        return true;
    });
}

void JobTables::forget(Entry& entry) {
    std::erase_if(resumed_.tables,
                  [&](const auto& table) { return table.name == entry.message.name; });
    entry = {};
}

void JobTables::order_drop(uint32_t table, const ShardPeer& shard) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kDropTable);
    header.first = table;
    outbox_.send(shard.connection, header);
}

/// Others may go on to send it rows of a table that they have not dropped yet.
void JobTables::send_all(const ShardPeer& shard) {
    for (const uint32_t table : dropped_)
        order_drop(table, shard);
    for (Entry& entry : tables_) {
        if (!entry.is_at_shards()) continue;
        if (!entry.is_made) entry.joined.push_back(shard);
        send(entry, shard);
        entry.asked.insert(shard.number);
    }
}

Status JobTables::made(uint32_t shard, std::string_view shard_name, const wire::Frame& frame) {
    if (frame.header.request >= tables_.size()) return {};
    Entry& entry = tables_[frame.header.request];
    if (entry.asked.erase(shard) == 0) return {};  // it has answered before
    Status failed;
    if (frame.header.status != Errc::kOk) {
        std::string why = decode_text(frame.values).value_or("");
        if (why.empty()) why = fmt::format("{}: {}", shard_name, to_string(frame.header.status));
        if (entry.is_made) {
            failed = Error(frame.header.status, std::move(why));
        } else if (entry.status == Errc::kOk) {
            entry.status = frame.header.status;
            entry.why = std::move(why);
        }
    }
    answer_if_made(entry);
    return failed;
}

void JobTables::filled(uint32_t shard, const CheckpointReport& report) {
    if (report.number >= tables_.size()) return;
    Entry& entry = tables_[report.number];
    if (!entry.is_filling || entry.asked.erase(shard) == 0) return;
    if (report.status == Errc::kCancelled) {
        entry.is_void = true;
    } else if (report.status != Errc::kOk && entry.status == Errc::kOk) {
        entry.status = report.status;
        entry.why = report.why;
    }
    answer_if_made(entry);
}

void JobTables::forget_shard(uint32_t shard, const Status& loss) {
    for (Entry& entry : tables_) {
        for (std::vector<ShardPeer>* const peers : {&entry.shards, &entry.joined})
            std::erase_if(*peers, [&](const ShardPeer& peer) { return peer.number == shard; });
        if (entry.asked.erase(shard) == 0) continue;
        entry.is_void |= entry.is_filling;
        if (!loss && !entry.is_made && entry.status == Errc::kOk) {
            entry.status = loss.code();
            entry.why = loss.error().text();
        }
        answer_if_made(entry);
    }
    for (Drop& drop : drops_)
        drop.asked.erase(shard);
    answer_dropped();
}

bool JobTables::wants_fill_again() const noexcept {
    return std::ranges::any_of(tables_, &Entry::waits_for_view);
}

/// Nobody has pushed to it, so what was read before is as it will be.
void JobTables::fill_again() {
    for (Entry& entry : tables_) {
        if (!entry.waits_for_view()) continue;
        entry.is_void = false;
        fill(entry);
    }
}

void JobTables::send(const Entry& entry, const ShardPeer& shard) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kCreateTable);
    header.request = entry.message.table;
    outbox_.send(shard.connection, header, entry.message.encode());
}

/// The shards have made the table, and now read its rows.
void JobTables::fill(Entry& entry) {
    WEIR_CHECK(entry.is_from_checkpoint() && !entry.is_made && entry.asked.empty());
    entry.is_filling = true;
    CheckpointOrder order{.step = CheckpointOrder::Step::kFill};
    order.number = entry.message.checkpoint;
    order.folder = folder_;
    order.tables = {{entry.message.table, entry.message.closed}};
    const std::vector<std::byte> body = order.encode();
    for (const ShardPeer& shard : entry.shards) {
        entry.asked.insert(shard.number);
        outbox_.send(shard.connection, wire::header_of(wire::Kind::kCheckpoint), body);
    }
}

/// A table that is made stays so while a shard that joined later has yet to make it: until then
/// the shard has no view, so nobody asks it for anything.
void JobTables::answer_if_made(Entry& entry) {
    if (!entry.is_made && !entry.asked.empty()) return;
    const bool is_to_fill = entry.is_from_checkpoint() && !entry.is_made && !entry.is_filling &&
                            entry.status == Errc::kOk;
    if (is_to_fill) fill(entry);
    if (entry.is_under_way()) return;
    WEIR_CHECK(entry.is_made || entry.asked.empty());
    const bool was_filling = std::exchange(entry.is_filling, false);
    entry.is_made = entry.status == Errc::kOk;
    answer_askers(entry);
    if (!entry.is_made) refuse(entry, was_filling);
}

void JobTables::answer_askers(Entry& entry) {
    const std::vector<std::byte> body =
        entry.is_made ? entry.message.encode() : encode_text(entry.why);
    for (const Asker& asker : std::exchange(entry.askers, {}))
        answer(outbox_, asker, entry.status, body);
}

/// The table cannot be made or read. `is_for_good`: nor if somebody asks for it again.
void JobTables::refuse(Entry& entry, bool is_for_good) {
    WEIR_CHECK(!entry.is_made && entry.askers.empty());
    for (const std::vector<ShardPeer>* const peers : {&entry.shards, &entry.joined}) {
        for (const ShardPeer& shard : *peers)
            order_drop(entry.message.table, shard);
    }
    refused_.push_back(entry.message.table);
    Entry left;
    if (entry.is_from_checkpoint()) {
        left.message = std::move(entry.message);
        left.is_unread = !is_for_good;
    }
    if (is_for_good) {
        left.status = entry.status;
        left.why = std::move(entry.why);
    }
    entry = std::move(left);
}

size_t JobTables::count() const noexcept {
    return static_cast<size_t>(std::ranges::count_if(
        tables_, [](const Entry& entry) { return entry.is_unread || entry.is_at_shards(); }));
}

bool JobTables::is_making() const noexcept {
    return std::ranges::any_of(tables_, &Entry::is_under_way);
}

bool JobTables::is_filling() const noexcept {
    return std::ranges::any_of(tables_, [](const Entry& entry) {
        return entry.is_from_checkpoint() && entry.is_under_way();
    });
}

std::vector<TableSchema> JobTables::made_tables() const {
    std::vector<TableSchema> made;
    for (const Entry& entry : tables_) {
        if (!entry.is_made) continue;
        std::optional<TableSchema> schema = decode_schema(entry.message.schema);
        if (!schema) continue;
        schema->id = entry.message.table;
        made.push_back(*std::move(schema));
    }
    return made;
}

TableListMessage JobTables::list(uint64_t first, size_t bytes_max) const {
    TableListMessage listed;
    size_t bytes = sizeof listed.next;
    for (uint64_t i = first; i < tables_.size(); ++i) {
        const Entry& entry = tables_[i];
        const TableMessage& table = entry.message;
        const bool can_be_opened = entry.is_made || entry.is_unread;
        if (!can_be_opened || table.name.starts_with(rules::kWeirsOwn)) continue;
        bytes += 3 * sizeof(uint32_t) + table.name.size() + table.schema.size();
        if (bytes > bytes_max && !listed.tables.empty()) {
            listed.next = static_cast<uint32_t>(i);
            break;
        }
        listed.tables.push_back(table);
    }
    return listed;
}

Result<TableSchema> JobTables::made_table(std::string_view name) const {
    constexpr size_t kNamedMax = 16;
    std::string others;
    size_t count = 0;
    for (const Entry& entry : tables_) {
        if (entry.message.name.empty() || entry.is_refused()) continue;
        if (entry.message.name != name) {
            if (count++ < kNamedMax) others += (others.empty() ? "" : ", ") + entry.message.name;
            continue;
        }
        std::optional<TableSchema> schema = decode_schema(entry.message.schema);
        if (entry.is_unread || !entry.is_made || !schema) {
            return Error(Errc::kUnavailable,
                         fmt::format("table '{}' {}", name,
                                     entry.is_unread
                                         ? "is in the checkpoint only that the job goes on from: "
                                           "no worker has asked for it yet"
                                         : "is being made: try again in a moment"));
        }
        schema->id = entry.message.table;
        return *std::move(schema);
    }
    if (count > kNamedMax) others += fmt::format(" and {} more", count - kNamedMax);
    return Error(Errc::kNotFound, fmt::format("the job has no table '{}'; {}", name,
                                              count == 0 ? "it has none yet" : "it has " + others));
}

void JobTables::forget_unread() {
    for (Entry& entry : tables_) {
        if (entry.is_unread) forget(entry);
    }
}

ResumedMessage JobTables::resumed() const {
    return resumed_;
}

std::vector<uint32_t> JobTables::unread_tables() const {
    std::vector<uint32_t> unread;
    for (const Entry& entry : tables_) {
        if (entry.is_from_checkpoint() && !entry.is_at_shards())
            unread.push_back(entry.message.table);
    }
    return unread;
}

}  // namespace weir
