// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the manager says, and what becomes of a shard that has lost it. A new view: what this shard
/// owns from now on, and who takes part.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/node/manager_names.h"
#include "lib/server/shard.h"

namespace weir {

using wire::Kind;
using Phase = ShardStanding::Phase;

size_t Shard::poll_link() {
    const size_t done = to_manager_.poll(name());
    if (const std::optional<Error> end = to_manager_.take_end()) {
        log(LogLevel::kWarning, "{}: {}", name(), end->text());
        lose_manager();
    }
    return done;
}

void Shard::receive_from_manager(const wire::Frame& frame) {
    switch (to_manager_.take(frame)) {
        case ManagerLink::Taken::kFrame: return control(frame);
        case ManagerLink::Taken::kOwn: return;
        case ManagerLink::Taken::kWrong:
            return standing_.end(Error(Errc::kProtocol, "the manager sent a frame out of order"));
    }
}

void Shard::control(const wire::Frame& frame) {
    if (standing_.phase() == Phase::kThrown && frame.header.kind != Kind::kShutdown) return;
    switch (frame.header.kind) {
        case Kind::kAdmit: return receive_number(frame.values);
        case Kind::kPasses: return connections_.receive_passes(frame.values);
        case Kind::kView: return receive_view(frame.values);
        case Kind::kCreateTable: return orders_.order(frame.header.request, frame.values);
        case Kind::kDropTable: orders_.drop(frame.header.first); return look_at_moves();
        case Kind::kStats: return room_.reply_to_manager(frame.header.request, Errc::kOk, stats());
        case Kind::kGet: return reads_.get(frame.header.request, frame.values);
        case Kind::kLeave:
            if (frame.header.status != Errc::kOk) return told_to_stay(frame.values);
            return members_.lose(frame.header.first);
        case Kind::kFirstIteration: return members_.reply_first_iterations(frame.values);
        case Kind::kStopped: return replication_.holdings().let_go();
        case Kind::kWork: return members_.end_iterations(frame.header.first);
        case Kind::kCheckpoint: checkpoints_.order(frame.values); return look_at_moves();
        case Kind::kShutdown:
            if (frame.header.status == Errc::kOk) return standing_.end({});
            return standing_.end(
                Error(frame.header.status,
                      decode_text(frame.values).value_or("the manager ended the job")));
        default:
            log(LogLevel::kWarning, "{}: ignored a frame of kind {} from the manager", name(),
                static_cast<int>(frame.header.kind));
    }
}

void Shard::receive_number(std::span<const std::byte> body) {
    const auto message = AdmitMessage::decode(body);
    if (!message || standing_.has_number()) {
        return standing_.end(
            Error(Errc::kProtocol, "the manager admitted a shard that did not ask for it"));
    }
    standing_.set_number(*message);
    replication_.set_number(message->number);
}

void Shard::receive_view(std::span<const std::byte> body) {
    if (const Status part = view_parts_.add(body); !part) {
        return standing_.end(
            Error(Errc::kProtocol, "the manager sent a malformed view: " + part.error().message()));
    }
    if (!view_parts_.complete()) return;
    const ViewParts parts = std::exchange(view_parts_, {});
    Result<View> view = weir::apply(standing_.view(), parts.change());
    if (!view) {
        return standing_.end(Error(
            Errc::kProtocol, "the manager sent an impossible view: " + view.error().message()));
    }
    apply_view(std::move(*view));
}

void Shard::apply_view(View view) {
    const ViewShard* const self = view.shard(options_.number);
    const bool is_first = standing_.phase() == Phase::kJoining;
    if (is_first && self == nullptr) {
        return standing_.end(
            Error(Errc::kProtocol,
                  fmt::format("the manager sent view {}, which has no place for this shard",
                              view.epoch())));
    }
    replication_.cut_off_the_gone(view);
    if (const Status applied = replication_.apply_roles(view, is_first); !applied) {
        return standing_.end(Error(
            applied.code(),
            fmt::format("the manager sent view {}: {}", view.epoch(), applied.error().message())));
    }
    // A shard that is in no view any more serves nothing until the manager ends it.
    const uint64_t since = self != nullptr ? self->since : view.epoch();
    const bool has_changed = is_first || since != standing_.since();
    standing_.apply(std::move(view), since);
    connections_.apply_view();
    members_.apply_view();
    checkpoints_.forget_saved();
    if (has_changed && !is_first)
        checkpoints_.fail(Error(Errc::kCancelled, "what this shard holds has changed meanwhile"));
    if (has_changed) begin_anew();
    replication_.follow_view();
    look_at_moves();
    orders_.make_early();
    members_.release_iterations();
    (void)requests_.retry();
    if (!has_changed) return;
    for (ShardTable* const table : tables_)
        pushes_.run_queues(*table);  // what waits there may have been cut by an older view
}

/// What this shard is primary of has changed. Nothing of an open iteration was acknowledged: its
/// parts are replied to, and come again to whoever has their rows now. The chains of pushes begin
/// anew.
void Shard::begin_anew() {
    for (ShardTable* const table : tables_)
        parts_.restart(*table);
    sessions_.for_each([](Session& session) {
        for (auto& [table, order] : session.orders)
            order.last = 0;
    });
    reads_.forget(replication_.holdings().in_role({Holdings::Role::kLeaving}));
}

/// Its server was leaving, but the others cannot take over what it holds.
void Shard::told_to_stay(std::span<const std::byte> why) const {
    log(LogLevel::kWarning, "{}; it serves on",
        decode_text(why).value_or("the manager says that this server cannot leave"));
}

/// For good.
void Shard::lose_manager() {
    standing_.lose_manager();
    if (standing_.phase() == Phase::kThrown) return standing_.end({});
    const std::string is_gone = manager_is_gone(options_.link.manager.get());
    checkpoints_.fail(Error(Errc::kPeerLost, "the manager is gone"));
    if (standing_.phase() == Phase::kJoining) {
        return standing_.end(
            Error(Errc::kPeerLost,
                  is_gone + (options_.join
                                 ? "; is the job still running?"
                                 : fmt::format(", before the job began; look for {} output",
                                               manager_possessive(options_.link.manager.get())))));
    }
    const bool has_copies =
        std::ranges::any_of(standing_.view().segments(), [](const ViewSegment& segment) {
            return segment.backup_count() > 0 || segment.has_learner();
        });
    if (has_copies) {
        const ManagerLife* const life = options_.link.manager.get();
        return standing_.end(Error(
            Errc::kPeerLost,
            fmt::format("{}, and without {} no server may answer for what has copies; "
                        "look for {} output{}{}",
                        is_gone, manager_pronoun(life), manager_possessive(life),
                        start_again_text(options_.checkpoint_folder), advice_on_managers(life))));
    }
    log(LogLevel::kWarning, "{}: {}; this shard serves until all workers are gone, too", name(),
        is_gone);
    for (const ViewWorker& worker : standing_.view().workers()) {
        if (!sessions_.is_connected(worker.number)) members_.expect_no_more_parts_of(worker.number);
    }
    connections_.end_if_all_are_gone();
}

}  // namespace weir
