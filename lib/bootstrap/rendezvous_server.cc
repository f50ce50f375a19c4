// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous_server.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include "lib/base/log.h"

namespace weir::boot {

using transport::Handshake;

namespace {

constexpr uint64_t kTellEvery = 500 * kMillisecond;
constexpr size_t kRefusalsMax = 4;

}  // namespace

RendezvousServer::RendezvousServer(RendezvousOptions options, const Clock& clock,
                                   Descriptor listener)
    : clock_(clock),
      options_(std::move(options)),
      listener_(std::move(listener)),
      seats_(options_.size) {
    seats_[0].host = options_.host_id;
}

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::open(RendezvousOptions options,
                                                                 const Clock& clock) {
    WEIR_ASSIGN(Descriptor listener, tcp_listen(options.at));
    options.at.port = tcp_port(listener);  // the one that the kernel chose, if 0 was asked for
    if (!options.secret && !is_loopback(options.at.host)) {
        log(LogLevel::kWarning,
            "rendezvous on {} without WEIR_SECRET_FILE: whoever can connect may join, and the "
            "job's "
            "secret travels in the clear",
            options.at.text());
    }
    return std::unique_ptr<RendezvousServer>(
        new RendezvousServer(std::move(options), clock, std::move(listener)));
}

Status RendezvousServer::put(std::string_view key, std::string_view value) {
    WEIR_TRY(check_entry(key, value));
    seats_[0].entries.emplace_back(key, value);
    return {};
}

Result<std::string> RendezvousServer::get(uint32_t rank, std::string_view key) {
    const auto found = values_.find({rank, std::string(key)});
    if (found == values_.end()) {
        return Error(Errc::kNotFound, fmt::format("rank {} put no {}", rank, key));
    }
    return found->second;
}

Status RendezvousServer::finish() {
    over_ = true;
    guests_.clear();
    listener_.reset();
    return {};
}

Status RendezvousServer::exchange(uint64_t deadline_ns) {
    if (over_) return Error(Errc::kCancelled, "rendezvous: used after finish() or after an error");
    seats_[0].committed = true;
    while (!missing().empty()) {
        if (!lost_.empty()) return fail(Errc::kPeerLost, lost_);
        if (clock_.now_ns() >= deadline_ns) return fail(Errc::kDeadline, missing_text());
        poll_once(deadline_ns);
        tell_waiting();
    }
    release();
    flush_all(deadline_ns);
    return {};
}

void RendezvousServer::poll_once(uint64_t deadline_ns) {
    std::vector<pollfd> entries;
    entries.push_back({listener_.get(), POLLIN, 0});
    for (Guest& guest : guests_) {
        const short events = guest.stage == Stage::kLeaving ? 0 : POLLIN;
        entries.push_back({guest.link.fd(),
                           static_cast<short>(events | (guest.link.has_output() ? POLLOUT : 0)),
                           0});
    }
    if (::poll(entries.data(), entries.size(), poll_slice_ms(clock_, deadline_ns)) > 0) {
        auto guest = guests_.begin();
        for (size_t i = 1; i < entries.size(); ++i) {
            const auto here = guest++;
            if (entries[i].revents != 0 && !serve(*here, entries[i].revents)) {
                close(*here);
                guests_.erase(here);
            }
        }
        if (entries[0].revents != 0) accept_guests();
    }
    drop_late_strangers();
    complaints_.look();
}

void RendezvousServer::accept_guests() {
    for (;;) {
        Descriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd) {
            if (errno == EMFILE || errno == ENFILE) {
                complain("descriptors",
                         "rendezvous: out of file descriptors; raise the limit with ulimit -n");
                (void)::poll(nullptr, 0, 10);  // the connection stays in the queue: do not spin
            }
            return;
        }
        Guest& guest =
            guests_.emplace_back(transport::Socket(std::move(fd), kSilenceMsMax), options_.secret);
        guest.greet_by_ns = clock_.now_ns() + kGreetingTimeout;
    }
}

void RendezvousServer::drop_late_strangers() {
    const uint64_t now_ns = clock_.now_ns();
    auto strangers =
        static_cast<size_t>(std::count_if(guests_.begin(), guests_.end(), [](const Guest& guest) {
            return guest.stage != Stage::kJoined;
        }));
    for (auto it = guests_.begin(); it != guests_.end();) {
        const bool crowded = strangers > kStrangersMax;
        if (it->stage == Stage::kJoined || (now_ns < it->greet_by_ns && !crowded)) {
            ++it;
            continue;
        }
        const std::string_view why = crowded ? "too many strangers" : "no greeting in time";
        complain(why, fmt::format("rendezvous: closed the connection from {}: {}", it->link.peer(),
                                  why));
        --strangers;
        it = guests_.erase(it);
    }
}

bool RendezvousServer::serve(Guest& guest, short events) {
    Status status;
    if ((events & ~POLLOUT) != 0 && guest.stage != Stage::kLeaving) {
        status = guest.link.fill();
        while (status && guest.stage != Stage::kLeaving) {
            auto record = guest.link.next();
            if (!record) {
                status = std::move(record).error();
            } else if (!record->has_value()) {
                break;
            } else {
                status = handle(guest, **record);
            }
        }
    }
    if (status) status = guest.link.flush();
    if (status) return guest.stage != Stage::kLeaving || guest.link.has_output();
    const bool expected = guest.stage != Stage::kJoined || round_ > 1;
    if (status.code() == Errc::kPeerLost && expected) {
        log(LogLevel::kDebug, "rendezvous: {} left", guest.link.peer());
    } else {
        const std::string why = status.error().message();
        complain(why, fmt::format("rendezvous: closed the connection from {}: {}",
                                  guest.link.peer(), why));
    }
    return false;
}

Status RendezvousServer::handle(Guest& guest, const transport::RecordView& record) {
    if (!guest.link.handshake().is_open()) return shake(guest, record);
    WEIR_ASSIGN(const RendezvousMessage message, decode_message(record));
    if (message.kind == RendezvousKind::kEntry) return take_entry(guest, message);
    Seat& seat = seats_[guest.hello.rank];
    if (message.kind == RendezvousKind::kCommit && message.round == round_ && !seat.committed) {
        seat.committed = true;
        return {};
    }
    return Error(Errc::kProtocol, "a rendezvous message out of turn");
}

Status RendezvousServer::shake(Guest& guest, const transport::RecordView& record) {
    Handshake& handshake = guest.link.handshake();
    const Result<Handshake::Step> step = handshake.take(record);
    const auto hello = RendezvousHello::decode(handshake.peer_said());
    if (hello) guest.hello = *hello;
    if (step.code() == Errc::kRefused && !handshake.was_refused() && hello) {
        refuse_unproven(guest);
        return {};
    }
    WEIR_TRY(step);
    if (*step != Handshake::Step::kProven) return {};
    if (!hello) return Error(Errc::kProtocol, "a rank that does not say who it is");
    return admit(guest);
}

void RendezvousServer::refuse_unproven(Guest& guest) {
    constexpr const char* kAdvice = "give the same WEIR_SECRET_FILE to all ranks";
    const uint32_t rank = guest.hello.rank;
    if (guest.hello.secured == options_.secret.has_value()) {
        refuse(guest, fmt::format("rank {} has another secret than rank 0: {}", rank, kAdvice));
    } else if (options_.secret) {
        refuse(guest, fmt::format("rank {} has no secret, rank 0 has: {}", rank, kAdvice));
    } else {
        refuse(guest, fmt::format("rank {} has a secret, rank 0 has none: {}", rank, kAdvice));
    }
}

Status RendezvousServer::admit(Guest& guest) {
    const RendezvousHello& hello = guest.hello;
    if (hello.secured != options_.secret.has_value()) {
        refuse_unproven(guest);
    } else if (hello.size != options_.size) {
        refuse(guest, fmt::format("rank {} was started with size {}, rank 0 with size {}: give the "
                                  "same --size to all ranks",
                                  hello.rank, hello.size, options_.size));
    } else if (hello.rank == 0 || hello.rank >= options_.size) {
        refuse(guest,
               fmt::format("rank {} does not exist here: the other ranks of this job are 1 to {}",
                           hello.rank, options_.size - 1));
    } else if (const Guest* const other = seats_[hello.rank].guest; other != nullptr) {
        refuse(guest,
               fmt::format("rank {} is there already, from {}: give each process its own --rank",
                           hello.rank, other->link.peer()));
    } else if (!seats_[hello.rank].host.empty() && round_ > 1) {
        refuse(guest,
               fmt::format("rank {} comes too late: it left after the first exchange", hello.rank));
    } else {
        guest.stage = Stage::kJoined;
        guest.link.trust();
        seats_[hello.rank].guest = &guest;
        seats_[hello.rank].host = hello.host;
        guest.link.handshake().say({});
    }
    return {};
}

Status RendezvousServer::take_entry(Guest& guest, const RendezvousMessage& entry) {
    Seat& seat = seats_[guest.hello.rank];
    if (entry.rank != guest.hello.rank || seat.committed) {
        return Error(Errc::kProtocol, "a rendezvous message out of turn");
    }
    WEIR_TRY(check_entry(entry.key, entry.text));
    seat.entry_bytes += entry.key.size() + entry.text.size();
    if (seat.entry_bytes > kSeatBytesMax) {
        return Error(Errc::kOutOfRange, fmt::format("rank {} put more than {} bytes",
                                                    guest.hello.rank, kSeatBytesMax));
    }
    seat.entries.emplace_back(entry.key, entry.text);
    return {};
}

void RendezvousServer::refuse(Guest& guest, const std::string& reason) {
    complain(reason, fmt::format("rendezvous: refused {}: {}", guest.link.peer(), reason));
    if (refusals_.size() < kRefusalsMax) refusals_.push_back(reason);
    guest.link.handshake().refuse(Errc::kRefused, reason);
    guest.stage = Stage::kLeaving;
}

void RendezvousServer::close(Guest& guest) {
    if (guest.stage != Stage::kJoined) return;
    Seat& seat = seats_[guest.hello.rank];
    seat = Seat{.host = std::move(seat.host)};
    if (round_ > 1) {
        lost_ = fmt::format("rank {} ({}) left after the first exchange", guest.hello.rank,
                            guest.link.peer());
    }
}

void RendezvousServer::complain(std::string_view reason, std::string_view line) {
    complaints_.log(LogLevel::kWarning, reason, line);
}

std::vector<uint32_t> RendezvousServer::missing() const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
        if (!seats_[rank].committed) ranks.push_back(rank);
    }
    return ranks;
}

std::string RendezvousServer::missing_text() const {
    std::string text = fmt::format(
        "{} of {} did not come to {} in time: start them with the same --rendezvous and --size, or "
        "raise WEIR_JOIN_TIMEOUT_S",
        rank_list(missing()), options_.size, options_.at.text());
    for (const std::string& refusal : refusals_)
        text += fmt::format("; refused: {}", refusal);
    return text;
}

void RendezvousServer::tell_waiting() {
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns < tell_at_ns_) return;
    tell_at_ns_ = now_ns + kTellEvery;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(
        encode({.kind = RendezvousKind::kWaiting, .text = missing_text()}));
    for (const Seat& seat : seats_) {
        if (seat.committed && seat.guest != nullptr && !seat.guest->link.has_output()) {
            seat.guest->link.queue(bytes);
        }
    }
}

void RendezvousServer::release() {
    std::vector<std::byte> all;
    for (uint32_t rank = 0; rank < seats_.size(); ++rank) {
        for (auto& [key, value] : seats_[rank].entries) {
            const std::vector<std::byte> entry =
                encode({.kind = RendezvousKind::kEntry, .rank = rank, .key = key, .text = value});
            all.insert(all.end(), entry.begin(), entry.end());
            values_[{rank, std::move(key)}] = std::move(value);
        }
    }
    const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(all));
    std::map<std::string, uint32_t> ranks_on_host;
    for (Seat& seat : seats_) {
        const uint32_t local_rank = ranks_on_host[seat.host]++;
        if (seat.guest != nullptr) {
            if (!bytes->empty()) seat.guest->link.queue(bytes);
            seat.guest->link.queue(
                {.kind = RendezvousKind::kRelease, .round = round_, .local_rank = local_rank});
        }
        seat.committed = false;
        seat.entries.clear();
        seat.entry_bytes = 0;
    }
    ++round_;
}

void RendezvousServer::flush_all(uint64_t deadline_ns) {
    const auto busy = [](Guest& guest) { return guest.link.has_output(); };
    while (std::any_of(guests_.begin(), guests_.end(), busy) && clock_.now_ns() < deadline_ns) {
        poll_once(deadline_ns);
    }
}

Error RendezvousServer::fail(Errc code, const std::string& reason) {
    for (const Seat& seat : seats_) {
        if (seat.guest == nullptr) continue;
        seat.guest->link.queue({.kind = RendezvousKind::kFailed, .text = reason});
    }
    flush_all(clock_.now_ns() + kTellEvery);
    (void)finish();
    return {code, fmt::format("rendezvous: {}", reason)};
}

}  // namespace weir::boot
