// SPDX-License-Identifier: Apache-2.0
/// \file
/// The number of a shard that joins. A new view: what this shard owns from now on, and who takes
/// part.

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/server/shard.h"

namespace weir {

void Shard::admitted(std::span<const std::byte> body) {
    const auto message = AdmitMessage::decode(body);
    if (!message || !options_.join || is_admitted_) {
        return end(Error(Errc::kProtocol, "the manager admitted a shard that did not ask for it"));
    }
    is_admitted_ = true;
    options_.number = message->number;
    replication_.set_number(message->number);
    options_.rank = message->rank;
}

void Shard::receive_view(std::span<const std::byte> body) {
    if (const Status part = view_parts_.add(body); !part) {
        return end(
            Error(Errc::kProtocol, "the manager sent a malformed view: " + part.error().message()));
    }
    if (!view_parts_.complete()) return;
    const ViewParts parts = std::exchange(view_parts_, {});
    Result<View> view = weir::apply(view_, parts.change());
    if (!view) {
        return end(Error(Errc::kProtocol,
                         "the manager sent an impossible view: " + view.error().message()));
    }
    apply_view(std::move(*view));
}

void Shard::apply_view(View view) {
    const ViewShard* const self = view.shard(options_.number);
    const bool is_first = phase_ == Phase::kJoining;
    if (is_first && self == nullptr) {
        return end(Error(Errc::kProtocol,
                         fmt::format("the manager sent view {}, which has no place for this shard",
                                     view.epoch())));
    }
    replication_.cut_off_the_gone(view);
    if (const Status taken = replication_.apply_roles(view, is_first); !taken) {
        return end(Error(taken.code(), fmt::format("the manager sent view {}: {}", view.epoch(),
                                                   taken.error().message())));
    }
    // A shard that is in no view any more serves nothing until the manager ends it.
    const uint64_t since = self != nullptr ? self->since : view.epoch();
    const bool has_changed = is_first || since != since_;
    view_ = std::move(view);
    since_ = since;
    phase_ = Phase::kServing;
    apply_members();
    checkpoint_.forget_saved();
    if (has_changed && !is_first)
        fail_checkpoint(Error(Errc::kCancelled, "what this shard holds has changed meanwhile"));
    if (has_changed) begin_anew();
    replication_.follow_view();
    look_at_moves();
    for (const EarlyTable& table : std::exchange(early_tables_, {}))
        order_table(table.request, table.body);
    release_iterations();
    retry_ = true;  // what has waited is looked at again, early requests first
    retry_waiting();
    if (has_changed) run_queues();
}

/// What this shard is primary of has changed. Nothing of an open iteration was acknowledged: its
/// parts are replied to, and come again to whoever has their rows now. The chains of pushes begin
/// anew.
void Shard::begin_anew() {
    for (const auto& table : tables_) {
        if (table != nullptr) restart_iterations(*table);
    }
    sessions_.for_each([](Session& session) {
        for (auto& [table, order] : session.orders)
            order.last = 0;
    });
    writes_.forget(holdings_.in_role({Holdings::Role::kLeaving}));
    end_writes();
}

/// Pushes that wait may have been cut by an older view.
void Shard::run_queues() {
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        sessions_.for_each([&](Session& session) { run_queue(session, *table); });
    }
}

std::vector<PositionRange> Shard::primary_ranges() const {
    std::vector<PositionRange> ranges;
    for (const uint32_t segment : view_.segments_of(options_.number))
        ranges.push_back(view_.range(segment));
    return ranges;
}

}  // namespace weir
