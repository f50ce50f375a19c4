// SPDX-License-Identifier: Apache-2.0
#include "lib/server/members/connections.h"

#include <fmt/core.h>

#include "lib/node/manager_names.h"

namespace weir {

void Connections::hello(Session& session, const wire::Frame& frame) {
    const auto message = HelloMessage::decode(frame.values);
    if (!message) return refuse(session.connection, "a malformed hello");
    act_on(session,
           sessions_.hello(session, {frame.header.first, frame.header.request, message->pass}));
}

void Connections::act_on(const Session& session, Sessions::Hello verdict) {
    switch (verdict) {
        case Sessions::Hello::kWelcome:
            if (!session.is_proven) return;
            for (const ConnectionId older : sessions_.others(session))
                close(older);
            return;
        case Sessions::Hello::kNoSuchWorker: return refuse_worker(session.connection);
        case Sessions::Hello::kGone: return close(session.connection);
        case Sessions::Hello::kOld:
            return refuse(session.connection,
                          "a hello with the number of a worker that is connected already");
        case Sessions::Hello::kFalse:
            return refuse(session.connection, "a hello in the name of a worker that it is not");
    }
}

void Connections::receive_passes(std::span<const std::byte> body) {
    const auto message = PassesMessage::decode(body);
    if (!message) return standing_.end(Error(Errc::kProtocol, "the manager sent malformed passes"));
    for (const PassesMessage::Pass& pass : message->passes) {
        if (pass.is_shard) {
            replication_.receive_pass(pass.number, pass.pass);
            continue;
        }
        for (const Sessions::Judged& judged : sessions_.receive_pass(pass.number, pass.pass)) {
            const Session* const session = sessions_.find(judged.connection);
            if (session != nullptr) act_on(*session, judged.verdict);
        }
    }
}

void Connections::far_time(Session& session, const wire::Frame& frame) {
    const auto message = FarTimeMessage::decode(frame.values);
    if (!message || message->table >= tables_.size()) {
        return refuse(session.connection, "a frame that workers do not send to a shard");
    }
    session.order(message->table).base_time = message->time;
}

void Connections::apply_view() {
    const ViewData& view = view_.data();
    for (const ConnectionId connection : sessions_.apply_view(view.workers, view.next_worker)) {
        const Session* const session = sessions_.find(connection);
        if (session == nullptr) continue;
        if (sessions_.is_gone(session->worker)) {
            close(connection);
        } else {
            refuse_worker(connection);
        }
    }
}

void Connections::refuse(ConnectionId connection, std::string_view why) {
    const Session* const session = sessions_.find(connection);
    const bool is_worker = session != nullptr && session->known;
    refusals_.log(LogLevel::kWarning,
                  fmt::format("{}: {}", is_worker ? "worker" : "unknown peer", why),
                  fmt::format("{}: closing the connection to {}: it sent {}", name(),
                              endpoint_.peer_name(connection), why));
    close(connection);
}

void Connections::refuse_worker(ConnectionId connection) {
    refuse(connection, "a hello with the number of a worker that this job does not have");
}

void Connections::close(ConnectionId connection) {
    endpoint_.close(connection);
    closed(connection);
}

void Connections::closed(ConnectionId connection, bool memory_in_doubt) {
    replies_.forget(connection);
    waiting_.fetcher().forget(connection);
    if (!replication_.closed(connection, memory_in_doubt)) {
        if (Session* const session = sessions_.find(connection)) pushes_.forget(*session);
        const std::optional<uint32_t> worker = sessions_.close(connection);
        waiting_.forget(connection);
        reads_.forget(connection);
        // A connection may break between processes that live: the manager says who is dead.
        const bool is_over = worker && !sessions_.is_connected(*worker) &&
                             (standing_.has_lost_manager() || sessions_.is_leaving(*worker));
        if (is_over) members_.expect_no_more_parts_of(*worker);
    }
    end_if_all_are_gone();
}

void Connections::end_if_all_are_gone() {
    if (!standing_.has_lost_manager() || !sessions_.empty() || !standing_.is_serving()) return;
    standing_.end(Error(Errc::kPeerLost, manager_is_gone(options_.link.manager.get()) +
                                             ", and so are all workers; look for their output" +
                                             start_again_text(options_.checkpoint_folder)));
}

}  // namespace weir
