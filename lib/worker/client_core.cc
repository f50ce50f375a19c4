// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/client_core.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/base/secret_seed.h"
#include "lib/store/rules/rule_codec.h"
#include "lib/wire/fault.h"
#include "lib/wire/messages.h"

namespace weir {

using transport::Completion;
using transport::Event;
using wire::Kind;
using Phase = Standing::Phase;

namespace {

constexpr uint32_t kPollsPerClock = 64;     // poll() checks deadlines once in so many calls
constexpr uint64_t kLookNs = kMillisecond;  // poll_seldom() checks them at most this often

}  // namespace

ClientCore::ClientCore(ClientCoreOptions options, std::unique_ptr<transport::Endpoint> endpoint,
                       const Clock& clock, Memory& memory, const RuleRegistry& rules)
    : clock_(clock),
      endpoint_(std::move(endpoint)),
      memory_(memory),
      rules_(&rules),
      events_(clock),
      standing_(std::move(options), clock, calls_),
      deadlines_(standing_.options().deadline_ns),
      tasks_(standing_.options().worker, calls_),
      peers_(standing_, *endpoint_, clock),
      requests_(calls_),
      sender_(peers_, requests_, calls_, deadlines_, tables_, *endpoint_, clock, memory_,
              standing_.options(), counters_),
      control_(standing_, peers_, requests_, sender_, calls_, tasks_, deadlines_, tables_, rules_,
               clock),
      filters_(clock, rules_,
               standing_.options().secret_seed
                   ? mix64(*standing_.options().secret_seed + standing_.options().worker)
                   : secret_seed()),
      operations_(standing_, peers_, requests_, sender_, calls_, tasks_, control_, tables_, rules_,
                  filters_, memory_, counters_),
      reductions_(standing_, peers_, calls_, tasks_, control_, sender_, tables_, memory_, clock_),
      replies_(standing_, peers_, requests_, sender_, calls_, tasks_, tables_, clock, counters_),
      lost_errors_(standing_, calls_, tables_, counters_),
      watch_(standing_, peers_, requests_, calls_, tasks_, control_, deadlines_, tables_),
      outages_(standing_, peers_, requests_, sender_, replies_, control_, calls_, deadlines_,
               tables_, *endpoint_, clock),
      views_(standing_, peers_, requests_, sender_, operations_, outages_, calls_, events_,
             *endpoint_, counters_) {
    memory_.add(operations_.routes());
    peers_.begin();
}

ClientCore::~ClientCore() {
    peers_.link().end();
    endpoint_.reset();  // first: servers may write to memory until connections are closed
    if (requests_.count() > 0) memory_.stop_giving_back();
}

size_t ClientCore::poll() {
    sender_.note_poll();
    const size_t count = endpoint_->poll(completions_);
    for (const Completion& completion : std::span(completions_).first(count))
        handle(completion);
    size_t sent = sender_.has_waiting() ? sender_.send_waiting() : 0;
    views_.poll();
    if (peers_.has_broken()) peers_.connect_again(clock_.now_ns());
    if (peers_.link().must_poll()) sent += poll_link();
    if (replies_.holds_failures()) sent += replies_.end_held_failures();
    if (count + sent > 0) endpoint_->flush();
    if (++polls_ % kPollsPerClock == 0) watch_.look(clock_.now_ns());
    if (reductions_.has_open()) sent += reductions_.poll();
    if (tasks_.has_work()) sent += run_tasks();
    if (standing_.phase() == Phase::kLeft && open_requests() == 0) peers_.leave_shards();
    return count + sent;
}

size_t ClientCore::poll_seldom() {
    const uint64_t now_ns = clock_.now_ns();
    if (now_ns - last_look_ns_ >= kLookNs) {
        last_look_ns_ = now_ns;
        (void)arm();  // makes poll() check the deadlines
    }
    return poll();
}

int ClientCore::arm() {
    polls_ = kPollsPerClock - 1;  // after a sleep, look at the deadlines
    const bool may_sleep = !tasks_.has_work() && sleep_ns_max() > 0;
    return may_sleep ? endpoint_->arm() : -1;
}

uint64_t ClientCore::sleep_ns_max() const noexcept {
    constexpr uint64_t kNever = ~uint64_t{0};
    const ManagerLink& link = peers_.link();
    uint64_t end_ns = std::min(replies_.due_ns(), link.must_poll() ? link.due_ns() : kNever);
    if (peers_.has_broken()) end_ns = std::min(end_ns, peers_.connect_at_ns());
    if (sender_.has_waiting()) end_ns = std::min(end_ns, sender_.due_ns());
    if (end_ns == kNever) return kNever;
    const uint64_t now_ns = clock_.now_ns();
    return end_ns > now_ns ? end_ns - now_ns : 0;
}

void ClientCore::handle(const Completion& completion) {
    const transport::ConnectionId connection = completion.connection;
    switch (completion.event) {
        case Event::kConnected: return peers_.connected(connection);
        case Event::kReceived: return receive(connection, completion.message);
        case Event::kImmediate:
            if (!replies_.receive_immediate(connection, completion.immediate))
                peers_.refuse(connection, "an immediate for a request that expects none from it");
            return;
        case Event::kClosed:
            return outages_.closed(connection, {completion.status, completion.memory_in_doubt});
        case Event::kAccepted: return endpoint_->close(connection);
        case Event::kRead:
        case Event::kWritten: return;
    }
}

void ClientCore::receive(transport::ConnectionId connection, std::span<const std::byte> message) {
    wire::Frame frame;
    const Peer& manager = peers_.manager();
    const bool is_manager = connection == manager.connection;
    std::span<const std::byte> rest = message;
    const bool is_well_formed =
        wire::decode_next(rest, frame) == Errc::kOk && (rest.empty() || !is_manager);
    if (!is_well_formed) {
        const std::string_view fault = wire::fault_of(message);
        if (is_manager && !standing_.has_begun())
            standing_.fail(Error(Errc::kProtocol, fmt::format("the manager sent {}", fault)));
        return peers_.refuse(connection, fault);
    }
    if (peers_.link().owns(connection)) {
        const ManagerLink::Taken taken = peers_.link().take(frame);
        if (taken == ManagerLink::Taken::kOwn) return;
        if (taken == ManagerLink::Taken::kWrong)
            return peers_.refuse(connection, "a frame out of order");
    }
    bool is_expected = false;
    if (!rest.empty()) [[unlikely]] {
        is_expected = receive_replies(connection, frame, rest);
    } else if (frame.header.kind == Kind::kReply) {
        is_expected = replies_.receive(connection, frame);
    } else if (is_manager && manager.state() != Peer::State::kLost) {
        is_expected = receive_from_manager(frame);
    } else {
        is_expected = frame.header.kind == Kind::kShutdown;  // of a manager that is lost
    }
    if (!is_expected)
        peers_.refuse(connection, "a frame that workers do not take, or from the wrong peer");
}

/// Several replies in one message. False: they are not, or one is not expected.
bool ClientCore::receive_replies(transport::ConnectionId connection, wire::Frame& frame,
                                 std::span<const std::byte> rest) {
    while (true) {
        const bool is_reply = frame.header.kind == Kind::kReply;
        if (!is_reply || !replies_.receive(connection, frame)) return false;
        if (rest.empty()) return true;
        if (wire::decode_next(rest, frame) != Errc::kOk) return false;
    }
}

/// False: managers do not send this.
bool ClientCore::receive_from_manager(const wire::Frame& frame) {
    const wire::FrameHeader& header = frame.header;
    switch (header.kind) {
        case Kind::kView: views_.receive(frame.values); return true;
        case Kind::kAdmit: admitted(frame.values); return true;
        case Kind::kHeld: {
            wire::FrameHeader held = wire::header_of(Kind::kHeld);
            held.first = filters_.held_count();
            peers_.link().send(held);
            return true;
        }
        case Kind::kLeave:
            outages_.shard_died(header.first, decode_text(frame.values).value_or(""));
            return true;
        case Kind::kShutdown:
            if (header.first == wire::kAsksToStop) standing_.stop();
            if (header.status != Errc::kOk) {
                job_failed(Error(header.status,
                                 decode_text(frame.values).value_or("the manager ended the job")));
            }
            return true;
        default: return false;
    }
}

Status ClientCore::take_rule(CallId call) {
    WEIR_ASSIGN(const std::vector<std::byte> body, control_.take_body(call));
    const std::optional<std::string> bytes = decode_text(body);
    const std::optional<RuleEntry> rule = bytes ? decode_rule(*bytes) : std::nullopt;
    if (!rule) return Error(Errc::kProtocol, "the manager sent a malformed update rule");
    return rules_.find(rule->name) ? Status() : rules_.add(*rule);
}

/// The number of a worker that joins a running job.
void ClientCore::admitted(std::span<const std::byte> body) {
    const auto message = AdmitMessage::decode(body);
    const bool is_expected = standing_.options().joiner != 0 && !standing_.is_admitted() &&
                             standing_.phase() == Phase::kJoining;
    if (!message || !is_expected) {
        return standing_.fail(
            Error(Errc::kProtocol, "the manager admitted a worker that did not ask for it"));
    }
    standing_.admit(*message);
    tasks_.set_client(message->number);
}

void ClientCore::job_failed(Status why) {
    if (standing_.has_failed()) return;
    views_.stop();
    outages_.job_failed(std::move(why));
}

size_t ClientCore::poll_link() {
    ManagerLink& link = peers_.link();
    const size_t done = link.poll(name());
    peers_.manager().connection = link.connection();
    if (const auto leader = link.take_new_leader())
        events_.note({JobEvent::Kind::kManagerLeads, *leader});
    const std::optional<Error> end = link.take_end();
    if (end && peers_.manager().state() != Peer::State::kLost) outages_.lose_manager(*end);
    return done;
}

TaskId ClientCore::name_task(CallId id) {
    Call* const call = calls_.find(id);
    return call == nullptr ? kNoTask : tasks_.name(id, *call);
}

Status ClientCore::on_finished(CallId id, CallTasks::Handler handler) {
    Call* const call = calls_.find(id);
    if (call == nullptr) {
        return Error(Errc::kInvalidArgument,
                     "a handler for a task whose outcome was taken: attach it before wait()");
    }
    tasks_.on_finished(id, *call, std::move(handler));
    return {};
}

bool ClientCore::cancel_waiting(CallId id) {
    const Call* const call = calls_.find(id);
    if (call == nullptr) return false;
    return tasks_.cancel(*call,
                         Error(Errc::kCancelled,
                               fmt::format("task {} of client {} was destroyed in a handler before "
                                           "it had started",
                                           call->task, worker())));
}

/// The last thing in a poll(): handlers may poll.
size_t ClientCore::run_tasks() {
    tasks_.advance();
    const size_t done = tasks_.run_handlers();
    endpoint_->flush();
    return done;
}

void ClientCore::close() {
    if (open_requests() == 0) return;
    standing_.fail(Error(Errc::kCancelled, "the client was destroyed, with this call still open"));
    outages_.cut_off_requests();
}

}  // namespace weir
