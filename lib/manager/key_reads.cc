// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/key_reads.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "lib/wire/messages.h"

namespace weir {

Status KeyReads::begin(const Asker& asker, const TableSchema& schema,
                       const std::vector<uint64_t>& keys, uint64_t now_ns) {
    if (reads_.size() == kReadsMax)
        return Error(Errc::kBusy, "too many commands read values; try again in a moment");
    Read read{.asker = asker, .table = schema.id, .keys = keys, .begun_ns = now_ns};
    read.reply.type = schema.value_type;
    read.reply.width = schema.width;
    const size_t row_bytes = read.reply.row_bytes();
    if (row_bytes > GetLimits::kRowBytesMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("a row of table '{}' has {} KiB, and `weir get` reads rows of at "
                                 "most {} KiB: pull it in a program, or export a checkpoint",
                                 schema.name, row_bytes >> 10, GetLimits::kRowBytesMax >> 10));
    }
    if (schema.layout == Layout::kDense) {
        const auto wrong =
            std::ranges::find_if(keys, [&](uint64_t key) { return key >= schema.key_count; });
        if (wrong != keys.end()) {
            return Error(Errc::kOutOfRange,
                         fmt::format("table '{}' has no key {}: its keys are 0 to {}", schema.name,
                                     *wrong, schema.key_count - 1));
        }
        read.positions = PositionMap::dense(schema.key_count);
    }
    read.keys.resize(std::min(keys.size(), GetLimits::kValueBytesMax / row_bytes));
    read.reply.states.assign(read.keys.size(), KeyState::kUnknown);
    read.reply.values.resize(read.keys.size() * row_bytes);
    read.open.resize(read.keys.size());
    std::iota(read.open.begin(), read.open.end(), 0U);
    reads_.push_back(std::move(read));
    return {};
}

Status KeyReads::take(uint32_t shard, const wire::Frame& frame) {
    silent_.erase(shard);
    for (Read& read : reads_) {
        const auto at = read.questions.find(frame.header.request);
        if (at == read.questions.end() || at->second.shard != shard) continue;
        Question& question = at->second;
        const size_t bytes = question.keys.size() * (1 + read.reply.row_bytes());
        if (frame.header.status == Errc::kOk) {
            const size_t room = bytes - question.answer.size();
            if (frame.header.first != bytes || frame.values.empty() || frame.values.size() > room)
                return Error(Errc::kProtocol, "malformed values of keys");
            question.answer.insert(question.answer.end(), frame.values.begin(), frame.values.end());
            if (frame.values.size() < room) return {};
            for (const std::byte state : std::span(question.answer).first(question.keys.size())) {
                if (static_cast<KeyState>(state) > KeyState::kUnknown)
                    return Error(Errc::kProtocol, "malformed values of keys");
            }
        }
        settle(read, std::exchange(question, {}));
        read.questions.erase(frame.header.request);
        return {};
    }
    return {};  // it is late
}

/// What the shard does not have is asked for again.
void KeyReads::settle(Read& read, const Question& question) {
    const size_t row_bytes = read.reply.row_bytes();
    const size_t key_count = question.keys.size();
    for (size_t i = 0; i < key_count; ++i) {
        const uint32_t index = question.keys[i];
        const KeyState state = question.answer.empty() ? KeyState::kUnknown
                                                       : static_cast<KeyState>(question.answer[i]);
        if (state == KeyState::kUnknown) {
            read.open.push_back(index);
            continue;
        }
        read.reply.states[index] = state;
        std::memcpy(read.reply.values.data() + index * row_bytes,
                    question.answer.data() + key_count + i * row_bytes, row_bytes);
    }
}

void KeyReads::forget_shard(uint32_t shard) {
    silent_.erase(shard);
    for (Read& read : reads_) {
        std::erase_if(read.questions, [&](const auto& entry) {
            if (entry.second.shard != shard) return false;
            const std::vector<uint32_t>& keys = entry.second.keys;
            read.open.insert(read.open.end(), keys.begin(), keys.end());
            return true;
        });
    }
}

void KeyReads::forget(transport::ConnectionId connection) {
    std::erase_if(reads_, [&](const Read& read) { return read.asker.connection == connection; });
}

void KeyReads::forget_table(uint32_t table) {
    std::erase_if(reads_, [&](const Read& read) {
        if (read.table != table) return false;
        answer(outbox_, read.asker, Errc::kNotFound, encode_text("the table was dropped just now"));
        return true;
    });
}

void KeyReads::go_on(uint64_t now_ns, const PrimaryOf& primary_of, bool is_lost,
                     size_t message_bytes_max) {
    std::erase_if(reads_, [&](Read& read) {
        if (!read.open.empty() && now_ns >= read.next_ns) {
            ask(read, primary_of);
            read.next_ns = now_ns + kAgainNs;
        }
        const bool may_come = !read.questions.empty() || (!read.open.empty() && !is_lost);
        if (may_come && now_ns - read.begun_ns <= patience_ns(read)) return false;
        for (const auto& [number, question] : read.questions)
            silent_.insert(question.shard);
        explain(read, primary_of);
        answer_in_parts(outbox_, read.asker, read.reply.encode(), message_bytes_max);
        return true;
    });
}

/// A command with many questions does not wait as long again for each of them.
uint64_t KeyReads::patience_ns(const Read& read) const {
    const bool is_futile =
        read.open.empty() && std::ranges::all_of(read.questions, [&](const auto& one) {
            return silent_.contains(one.second.shard);
        });
    return is_futile ? kSilentNs : kAnswerNs;
}

/// What nobody has stays open.
void KeyReads::ask(Read& read, const PrimaryOf& primary_of) {
    std::map<uint32_t, Question> by_shard;
    std::map<uint32_t, transport::ConnectionId> connections;
    for (const uint32_t index : std::exchange(read.open, {})) {
        const auto primary = primary_of(read.positions.position(read.keys[index]));
        if (!primary) {
            read.open.push_back(index);
            continue;
        }
        connections[primary->number] = primary->connection;
        by_shard[primary->number].keys.push_back(index);
    }
    for (auto& [shard, question] : by_shard) {
        ShardGetMessage message;
        message.table = read.table;
        for (const uint32_t index : question.keys)
            message.keys.push_back(read.keys[index]);
        wire::FrameHeader header = wire::header_of(wire::Kind::kGet);
        header.request = ++number_;
        outbox_.send(connections[shard], header, message.encode());
        question.shard = shard;
        read.questions[number_] = std::move(question);
    }
}

void KeyReads::explain(Read& read, const PrimaryOf& primary_of) {
    const auto unknown = std::ranges::find(read.reply.states, KeyState::kUnknown);
    if (unknown == read.reply.states.end()) return;
    const auto index = unknown - read.reply.states.begin();
    const auto primary = primary_of(read.positions.position(read.keys[index]));
    read.reply.why = primary ? fmt::format("shard {} does not answer", primary->number)
                             : "the server that held it is gone, and nobody has taken over from it";
}

}  // namespace weir
