// SPDX-License-Identifier: Apache-2.0
/// \file
/// Meeting: how connections are set up. meeting_accept.cc takes those that peers begin.

#include "transport/verbs/setup/meeting.h"

#include <fmt/core.h>

#include "lib/base/log.h"
#include "transport/verbs/queue_pair.h"

namespace weir::transport::verbs {

VerbsConnection& Meeting::begin(const SocketAddress& to) {
    VerbsConnection& c =
        connections_.add(Side::kConnecting, device_.options().secret, random_bytes());
    c.is_known_to_caller = true;
    c.target = to;
    c.peer_name = to.text();
    host_.enter(c, State::kMeeting);
    dial(c);
    return c;
}

void Meeting::update_place(const VerbsConnection& c) {
    if (c.side != Side::kAccepting) return;
    if (c.state == State::kJoining) {
        acceptor_.prove(c.id);
    } else if (!c.is_coming()) {
        acceptor_.leave(c.id);
    }
}

void Meeting::dial(VerbsConnection& c) {
    if (const Status dialled =
            c.side_channel.dial(c.target, device_.options().silence_ms_max, watcher_, c.id);
        !dialled) {
        host_.fail(c, Errc::kPeerLost, dialled.error().message());
    }
}

void Meeting::serve(VerbsConnection& c) {
    if (c.is_ending()) return;  // it failed after the watcher reported it
    if (const Status connected = c.side_channel.finish_connect(); !connected) {
        host_.fail(c, Errc::kPeerLost, connected.error().message());
        return;
    }
    send_output(c);
    while (!c.is_ending()) {
        const auto got = c.side_channel.receive();
        if (got == SideChannel::Got::kNothing) return;
        if (got == SideChannel::Got::kSome) {
            advance_handshake(c);
        } else if (c.is_coming()) {
            if (c.side == Side::kAccepting) ++counters_.refused;
            host_.fail(c, Errc::kPeerLost,
                       "it closed the connection before the handshake was complete");
        } else {
            c.peer_ended = c.peer_ended || got == SideChannel::Got::kEnd;
            host_.take_peer_close(c);
        }
    }
}

void Meeting::send_output(VerbsConnection& c) {
    if (const Status sent = c.side_channel.send(); !sent) {
        host_.fail(c, sent.code(), sent.error().message());
    }
}

void Meeting::advance_handshake(VerbsConnection& c) {
    while (!c.is_ending()) {
        const Result<ClaimHandshake::Step> step = c.side_channel.handshake().next();
        if (!step && c.side == Side::kConnecting && step.code() == Errc::kDeadline) {
            // The peer has no place for us now. If it is gone, the kernel reports that at the
            // next attempt.
            log(LogLevel::kDebug, "verbs: {} has no place for a connection now; it is tried again",
                c.peer_name);
            c.side_channel.reset(device_.options().secret, random_bytes());
            dial(c);
            return;
        }
        if (!step) {
            ++counters_.refused;
            // A peer without the secret learns no more than that. An error that the peer sent
            // needs no answer.
            if (c.side == Side::kAccepting && step.code() == Errc::kRefused) {
                c.side_channel.handshake().refuse(Errc::kRefused, "wrong secret");
            }
            host_.fail(c, step.code(), step.error().text());
            return;
        }
        if (*step == ClaimHandshake::Step::kWait) break;
        if (const Status taken = take_step(c, *step); !taken) {
            refuse(c, taken.error());
            return;
        }
    }
    if (!c.is_ending()) send_output(c);
}

Status Meeting::take_step(VerbsConnection& c, ClaimHandshake::Step step) {
    switch (step) {
        case ClaimHandshake::Step::kWait: return {};
        case ClaimHandshake::Step::kMakeClaim:
            if (c.queue_pair == QueuePairState::kNone) {  // a second attempt has one
                WEIR_TRY(equip(c));
                if (device_.options().connect_by == ConnectBy::kRdmaCm) WEIR_TRY(cm_.prepare(c));
            }
            c.side_channel.handshake().claim(c.own);
            return {};
        case ClaimHandshake::Step::kProven: return take_proof(c);
        case ClaimHandshake::Step::kOpen:
            if (c.queue_pair < QueuePairState::kUp) {
                return Error(Errc::kProtocol,
                             "it says that it is ready before its queue pair is connected");
            }
            // Its first message may have come before its Ready.
            if (c.is_coming()) host_.open(c);
            return {};
        case ClaimHandshake::Step::kBye:
            if (c.is_coming()) host_.open(c);
            host_.take_bye(c, c.side_channel.handshake().peer_messages());
            return {};
    }
    return {};
}

Status Meeting::equip(VerbsConnection& c) {
    const uint32_t others = connections_.count() - acceptor_.coming();
    if (others >= options_.connections_max) {
        return Error(
            Errc::kBusy,
            fmt::format("{} has {} connections, its limit; use more shards or fewer workers",
                        acceptor_.address(), others));
    }
    WEIR_TRY(supplies_.equip(c, VerbsConnectionTable::slot_of(c.id)));
    connections_.add_queue_pair(c);
    return {};
}

Status Meeting::check_peer(const VerbsConnection& c) const {
    const bool ethernet = device_.hardware().is_ethernet();
    if (c.peer.link_layer != (ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND)) {
        return Error(Errc::kInvalidArgument,
                     "one side is on Ethernet (RoCE) and the other on InfiniBand: choose devices "
                     "of one kind with "
                     "WEIR_RDMA_DEVICE");
    }
    if (c.peer.message_bytes_max != options_.message_bytes_max) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("one side has messages of at most {} bytes and the other of {}: "
                                 "give all ranks the same "
                                 "WEIR_EAGER_BYTES",
                                 options_.message_bytes_max, c.peer.message_bytes_max));
    }
    return {};
}

Status Meeting::take_proof(VerbsConnection& c) {
    c.peer = c.side_channel.handshake().peer();
    host_.enter(c, State::kJoining);
    WEIR_TRY(check_peer(c));
    const bool accepts = c.side == Side::kAccepting;
    if (accepts) WEIR_TRY(equip(c));
    const bool by_cm =
        accepts ? c.peer.cm_token != CmToken{} : device_.options().connect_by == ConnectBy::kRdmaCm;
    if (by_cm) {
        WEIR_TRY(accepts ? cm_.offer(c) : cm_.begin(c));
    } else {
        WEIR_TRY(bring_up(device_.hardware(), c.qp.get(), c.own, c.peer,
                          {device_.options().retry_timeout, device_.options().retry_count}));
        note_up(c);
    }
    if (accepts) {
        c.side_channel.handshake().claim(c.own);
    } else if (!by_cm) {
        c.side_channel.handshake().ready();
        host_.open(c);
    }
    return {};
}

void Meeting::take_cm_events() {
    for (const CmEvent& event : cm_.poll()) {
        if (event.what == CmEvent::What::kRequest) {
            take_cm_request(event);
            continue;
        }
        VerbsConnection* const c = connections_.find(event.connection);
        if (c == nullptr || c->state != State::kJoining) continue;
        if (event.what == CmEvent::What::kFailed) {
            refuse(*c, {Errc::kPeerLost, event.text});
        } else if (const Status up = cm_.finish(*c); !up) {
            refuse(*c, up.error());
        } else {
            note_up(*c);
            c->side_channel.handshake().ready();
            host_.open(*c);
            send_output(*c);
        }
    }
}

void Meeting::take_cm_request(const CmEvent& request) {
    VerbsConnection* meant = nullptr;
    connections_.for_each([&](VerbsConnection& c) {
        if (CmWay::is_meant(c, request)) meant = &c;
    });
    if (meant == nullptr) {
        ++counters_.refused;
        cm_.reject(request);
    } else if (const Status up = cm_.accept(request, *meant); !up) {
        refuse(*meant, up.error());
    } else {
        note_up(*meant);
    }
}

void Meeting::note_up(VerbsConnection& c) {
    c.queue_pair = QueuePairState::kUp;
    c.credits = Credits(c.peer.window, c.grant.window);
}

/// Ends a connection with a peer that knows the secret but cannot be served, and tells it why.
void Meeting::refuse(VerbsConnection& c, const Error& error) {
    c.side_channel.handshake().refuse(error.code(), error.message());
    host_.fail(c, error.code(), error.message());
}

}  // namespace weir::transport::verbs
