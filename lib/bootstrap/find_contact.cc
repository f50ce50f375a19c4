// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/find_contact.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/rendezvous/rendezvous_call.h"
#include "lib/bootstrap/secret.h"

namespace weir {
namespace {

/// Of what is no address. A contact file may have any name, also one with colons.
bool is_meant_as_address(const std::string& where) {
    return where.find(':') != std::string::npos && where.find('/') == std::string::npos &&
           ::access(where.c_str(), F_OK) != 0;
}

}  // namespace

Result<Contact> find_contact(const std::string& where, const Config& config, const Clock& clock) {
    if (where.empty()) {
        return Error(Errc::kInvalidArgument,
                     "the address of the job is empty; give the HOST:PORT of its --rendezvous, or "
                     "the file that --contact made it write");
    }
    const Result<HostPort> at = HostPort::parse(where);
    if (!at && is_meant_as_address(where)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{}; or give the file that --contact made the job write (there is "
                                 "no file of that name)",
                                 at.error().text()));
    }
    if (!at || where.find('/') != std::string::npos) return read_contact_file(where);
    std::optional<transport::Secret> secret;
    if (const std::string path(config.text("WEIR_SECRET_FILE")); !path.empty()) {
        WEIR_ASSIGN(secret, read_secret_file(path));
    }
    WEIR_ASSIGN(const uint64_t deadline_ns, join_deadline_ns(config, clock));
    return boot::ask_for_contact(*at, secret, clock, deadline_ns);
}

namespace boot {
namespace {

constexpr int kRetryMs = 50;

/// Nobody has answered in time. Whoever connects finds a listener also if its process is stopped.
Error no_answer(const RendezvousCall& call) {
    return {Errc::kDeadline,
            fmt::format("rendezvous: rank 0 at {} took the connection, and does not answer; if its "
                        "process is stopped (by SIGSTOP, Ctrl-Z or a debugger), let it go on; if "
                        "its host is very busy, set a longer WEIR_JOIN_TIMEOUT_S",
                        call.at())};
}

/// Connects; again if rank 0 had no place.
Status connect(RendezvousCall& call, const Clock& clock, uint64_t deadline_ns) {
    for (;;) {
        Status done = call.connect({.role = RendezvousHello::Role::kNewcomer}, deadline_ns);
        if (done.code() == Errc::kPeerLost) {
            return Error(Errc::kUnavailable,
                         fmt::format("{}; is the job running, and was its rank 0 started with "
                                     "--rendezvous {}?",
                                     done.error().message(), call.at()));
        }
        if (done.code() != Errc::kDeadline) return done;
        if (clock.now_ns() >= deadline_ns) return no_answer(call);
        (void)::poll(nullptr, 0, kRetryMs);
    }
}

}  // namespace

Result<Contact> ask_for_contact(const HostPort& at, const std::optional<transport::Secret>& secret,
                                const Clock& clock, uint64_t deadline_ns) {
    RendezvousCall call(at, secret, clock);
    WEIR_TRY(connect(call, clock, deadline_ns));
    const Result<transport::RecordView> record = call.receive(deadline_ns);
    if (record.code() == Errc::kDeadline) return no_answer(call);
    if (!record) return record.error();
    WEIR_ASSIGN(RendezvousMessage message, decode_message(*record));
    // A rendezvous with a secret sends none, and one without a secret sends the job's.
    if (message.kind != RendezvousKind::kContact ||
        message.secret.has_value() == secret.has_value())
        return Error(Errc::kProtocol,
                     fmt::format("rendezvous: rank 0 at {} sent what is not expected now; use the "
                                 "same version of Weir everywhere",
                                 call.at()));
    return Contact{std::move(message.text), message.secret ? *message.secret : *secret};
}

}  // namespace boot
}  // namespace weir
