// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShardRoom: what every room of a shard has at hand.

#include <string>

#include "lib/base/repeated_log.h"
#include "lib/node/manager_link.h"
#include "lib/replication/replication.h"
#include "lib/server/members/shard_standing.h"
#include "lib/server/requests/replies.h"
#include "lib/server/requests/sessions.h"
#include "lib/server/shard_table.h"
#include "lib/wire/messages.h"
#include "transport/transport.h"

namespace weir {

/// The rooms of a shard derive from it privately: these members are theirs. Each room knows them,
/// and those rooms before it that its constructor names. All outlive it.
///
/// Thread: the shard's
struct ShardRoom {
    using ConnectionId = transport::ConnectionId;

    // Those that each push needs come first: they share a line.
    ShardStanding& standing_;
    ShardTables& tables_;
    Replication& replication_;
    Replies& replies_;
    StatsMessage& counters_;
    Sessions& sessions_;
    transport::Endpoint& endpoint_;
    ManagerLink& to_manager_;
    RepeatedLog& refusals_;
    const ShardOptions& options_ = standing_.options();
    const View& view_ = standing_.view();

    [[nodiscard]] std::string name() const { return standing_.name(); }

    /// Of a list the table finds the rows of keys that are served only.
    [[nodiscard]] bool serves(const ShardTable& table, const Request& request) const {
        return !request.has(wire::kKeysRange) || replication_.serves(table, range_of(request));
    }

    /// What was pushed counts later, or not at all, but keys that were new to the table have rows
    /// now. `row_count`: before.
    void record_made_rows(ShardTable& table, const Request& request, size_t row_count) {
        if (table.rows->row_count() == row_count) [[likely]]
            return;
        table.was_pushed = true;
        if (table.rows->schema().erasable) return;  // they are empty, which copies need not know
        replication_.made_rows(table, keys_of(request));
    }

    void reply_to_manager(uint64_t request, Errc status, std::span<const std::byte> body) {
        wire::FrameHeader header = wire::header_of(wire::Kind::kReply);
        header.request = request;
        header.status = status;
        to_manager_.send(header, body);
    }
};

}  // namespace weir
