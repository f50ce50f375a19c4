// SPDX-License-Identifier: Apache-2.0
#include "lib/node/job_tables.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace weir {

std::optional<uint32_t> JobTables::create(const Asker& asker, TableMessage message,
                                          const std::vector<ShardPeer>& shards) {
    const auto same_name = [&](const Entry& e) { return e.message.name == message.name; };
    if (auto at = std::ranges::find_if(tables_, same_name); at != tables_.end()) {
        at->askers.push_back(asker);
        answer_if_made(*at);  // the worker compares the schemas
        return std::nullopt;
    }
    if (tables_.size() == TableMessage::kTablesMax) {
        answer(outbox_, asker, Errc::kBusy,
               encode_text(fmt::format("the job has {} tables, which is the most; use fewer",
                                       tables_.size())));
        return std::nullopt;
    }
    const auto number = static_cast<uint32_t>(tables_.size());
    Entry& entry = tables_.emplace_back();
    entry.message = std::move(message);
    entry.message.table = number;
    entry.askers.push_back(asker);
    for (const ShardPeer& shard : shards) {
        send(entry, shard);
        entry.asked.insert(shard.number);
    }
    answer_if_made(entry);
    return number;
}

void JobTables::open(const Asker& asker, std::string_view name) {
    for (Entry& entry : tables_) {
        if (entry.message.name != name) continue;
        entry.askers.push_back(asker);
        return answer_if_made(entry);
    }
    answer(outbox_, asker, Errc::kNotFound);
}

void JobTables::send_all(const ShardPeer& shard) {
    for (Entry& entry : tables_) {
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

void JobTables::forget_shard(uint32_t shard, const Status& loss) {
    for (Entry& entry : tables_) {
        if (entry.asked.erase(shard) == 0) continue;
        if (!loss && !entry.is_made && entry.status == Errc::kOk) {
            entry.status = loss.code();
            entry.why = loss.error().text();
        }
        answer_if_made(entry);
    }
}

void JobTables::send(const Entry& entry, const ShardPeer& shard) {
    wire::FrameHeader header = wire::header_of(wire::Kind::kCreateTable);
    header.request = entry.message.table;
    outbox_.send(shard.connection, header, entry.message.encode());
}

/// A table that is made stays so while a shard that joined later has yet to make it: until then
/// the shard has no view, so nobody asks it for anything.
void JobTables::answer_if_made(Entry& entry) {
    if (!entry.is_made && !entry.asked.empty()) return;
    entry.is_made = entry.status == Errc::kOk;
    const std::vector<std::byte> body =
        entry.is_made ? entry.message.encode() : encode_text(entry.why);
    for (const Asker& asker : std::exchange(entry.askers, {}))
        answer(outbox_, asker, entry.status, body);
}

}  // namespace weir
