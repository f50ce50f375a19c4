// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerRecord: everything that a manager hears and does at its endpoint, poll by poll, with the time. A
/// second manager that hears the same must do the same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/clock.h"
#include "lib/manager/manager.h"
#include "tests/messages_only_endpoint.h"
#include "transport/transport.h"

namespace weir::test {

struct ManagerRecord {
    /// What one poll() has brought. The messages are in `messages`, in order.
    struct Poll {
        uint64_t now_ns = 0;
        std::vector<transport::Completion> completions = {};
        std::vector<std::vector<std::byte>> messages = {};
        size_t call_count = 0;  ///< that were made before it
    };

    /// A message that was sent, or a connection that was closed.
    struct Call {
        transport::ConnectionId connection = 0;
        bool is_close = false;
        transport::Post answer = transport::Post::kPosted;
        std::vector<std::byte> message = {};
    };

    /// Manager::leave_server() was called after so many polls.
    struct Leave {
        size_t poll_count = 0;
        uint32_t server = 0;
    };

    ManagerOptions options;
    uint64_t started_ns = 0;
    std::string address;
    transport::Capabilities capabilities;
    std::vector<Poll> polls;
    std::vector<Call> calls;
    std::vector<Leave> leaves;
};

/// Managers connect to nobody.
class ManagersEndpoint : public testing::MessagesOnlyEndpoint {
public:
    [[nodiscard]] Result<ConnectionId> connect(std::string_view /*address*/) override {
        return Error(Errc::kUnavailable, "a manager connects to nobody");
    }
};

/// Writes the record.
class RecordingEndpoint final : public ManagersEndpoint {
public:
    RecordingEndpoint(std::unique_ptr<Endpoint> inner, const Clock& clock, ManagerOptions options,
                      std::shared_ptr<ManagerRecord> record)
        : inner_(std::move(inner)), clock_(clock), record_(std::move(record)) {
        record_->options = std::move(options);
        record_->started_ns = clock.now_ns();
        record_->address = inner_->address();
        record_->capabilities = inner_->capabilities();
    }

    [[nodiscard]] std::string address() const override { return inner_->address(); }

    [[nodiscard]] transport::Capabilities capabilities() const override {
        return inner_->capabilities();
    }

    void close(ConnectionId connection) override {
        record_->calls.push_back({connection, true});
        inner_->close(connection);
    }

    [[nodiscard]] transport::Post send(ConnectionId connection, Parts parts) override {
        const transport::Post answer = inner_->send(connection, parts);
        record_->calls.push_back({connection, false, answer, joined(parts)});
        return answer;
    }

    void flush() override { inner_->flush(); }

    [[nodiscard]] size_t poll(std::span<transport::Completion> completions) override {
        const size_t count = inner_->poll(completions);
        ManagerRecord::Poll& poll = record_->polls.emplace_back();
        poll.now_ns = clock_.now_ns();
        poll.call_count = record_->calls.size();
        for (const transport::Completion& completion : completions.first(count)) {
            poll.completions.push_back(completion);
            poll.messages.emplace_back(completion.message.begin(), completion.message.end());
        }
        return count;
    }

    [[nodiscard]] int arm() override { return inner_->arm(); }

    [[nodiscard]] std::string peer_name(ConnectionId connection) const override {
        return inner_->peer_name(connection);
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return inner_->counters();
    }

private:
    std::unique_ptr<Endpoint> inner_;
    const Clock& clock_;
    std::shared_ptr<ManagerRecord> record_;
};

/// Brings what the record says, and compares what is done with it. Names of peers are not in it: they are for
/// the log only.
class ReplayingEndpoint final : public ManagersEndpoint {
public:
    /// `fault` becomes the first difference. Both must outlive it.
    ReplayingEndpoint(const ManagerRecord& record, std::string& fault)
        : record_(record), fault_(fault) {}

    [[nodiscard]] std::string address() const override { return record_.address; }

    [[nodiscard]] transport::Capabilities capabilities() const override {
        return record_.capabilities;
    }

    void close(ConnectionId connection) override { (void)compare({connection, true}); }

    [[nodiscard]] transport::Post send(ConnectionId connection, Parts parts) override {
        return compare({connection, false, transport::Post::kPosted, joined(parts)});
    }

    void flush() override {}

    [[nodiscard]] size_t poll(std::span<transport::Completion> completions) override {
        if (next_poll_ == record_.polls.size()) return 0;
        const ManagerRecord::Poll& poll = record_.polls[next_poll_++];
        if (next_call_ != poll.call_count) differ("it made another number of calls");
        if (completions.size() < poll.completions.size()) {
            differ("it polls for less");
            return 0;
        }
        std::ranges::copy(poll.completions, completions.begin());
        for (size_t i = 0; i < poll.completions.size(); ++i)
            completions[i].message = poll.messages[i];
        return poll.completions.size();
    }

    [[nodiscard]] int arm() override { return -1; }

    [[nodiscard]] std::string peer_name(ConnectionId /*connection*/) const override {
        return "a peer";
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return counters_;
    }

private:
    transport::Post compare(const ManagerRecord::Call& call) {
        if (next_call_ == record_.calls.size()) {
            differ("it makes one more call");
            return transport::Post::kPosted;
        }
        const ManagerRecord::Call& recorded = record_.calls[next_call_++];
        if (call.connection != recorded.connection || call.is_close != recorded.is_close ||
            call.message != recorded.message)
            differ(fmt::format("call {}: on connection {:x} and not {:x}, {} and not {} bytes",
                               next_call_ - 1, call.connection, recorded.connection,
                               call.message.size(), recorded.message.size()));
        return recorded.answer;
    }

    void differ(const std::string& how) {
        if (fault_.empty()) fault_ = fmt::format("poll {}: {}", next_poll_, how);
    }

    const ManagerRecord& record_;
    std::string& fault_;
    size_t next_poll_ = 0;
    size_t next_call_ = 0;
    transport::EndpointCounters counters_;
};

/// A second manager goes through the record. Returns its view at the end; `fault` becomes the first
/// difference, and stays empty if there is none.
[[nodiscard]] inline View replay(const ManagerRecord& record, std::string& fault) {
    ManualClock clock;
    clock.set(record.started_ns);
    Manager manager(record.options, std::make_unique<ReplayingEndpoint>(record, fault), clock);
    auto leave = record.leaves.begin();
    for (size_t i = 0; i < record.polls.size() && fault.empty(); ++i) {
        for (; leave != record.leaves.end() && leave->poll_count == i; ++leave)
            (void)manager.leave_server(leave->server);
        clock.set(record.polls[i].now_ns);
        (void)manager.poll();
    }
    return manager.view();
}

}  // namespace weir::test
