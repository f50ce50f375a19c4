// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RawWorker: a worker of a SimCluster whose frames the test makes, valid and invalid ones.

#include <algorithm>
#include <array>
#include <vector>

#include "tests/cluster/sim_cluster.h"
#include "tests/frames.h"

namespace weir::test {

class RawWorker {
public:
    struct Answer {
        transport::ConnectionId connection = 0;
        wire::FrameHeader header;
        std::vector<std::byte> body;
    };

    RawWorker(SimCluster& cluster, transport::sim::HostId host,
              const transport::EndpointOptions& options = {})
        : cluster_(cluster),
          device_(cluster.network.make_device(host)),
          memory_(*device_, transport::Access::kRemote),
          endpoint_(std::move(device_->make_endpoint(options)).value()) {}

    /// Runs the cluster until the connection is open. 0: it was closed.
    [[nodiscard]] transport::ConnectionId connect(const std::string& address) {
        const transport::ConnectionId connection = *endpoint_->connect(address);
        const auto is_in = [connection](const std::vector<transport::ConnectionId>& list) {
            return std::find(list.begin(), list.end(), connection) != list.end();
        };
        (void)run_until([&] { return is_in(connected_) || is_in(closed_); });
        return is_in(connected_) ? connection : 0;
    }

    /// Tells the manager that this is worker `number`, whose place in the cluster must be empty.
    transport::ConnectionId join(uint32_t number) {
        JoinMessage message{JoinMessage::Role::kWorker, number, number, {}};
        message.pass = testing::kPass;
        const transport::ConnectionId connection = connect(cluster_.manager->address());
        send(connection, testing::frame_header(wire::Kind::kJoin), message.encode());
        return connection;
    }

    /// Connects to the manager as a command does.
    transport::ConnectionId join_as_operator() {
        JoinMessage message;
        message.role = JoinMessage::Role::kOperator;
        const transport::ConnectionId connection = connect(cluster_.manager->address());
        send(connection, testing::frame_header(wire::Kind::kJoin), message.encode());
        return connection;
    }

    /// Connects to a shard and says that this is worker `number`.
    /// `connection_number`: among the worker's connections to this shard.
    [[nodiscard]] transport::ConnectionId hello(const Shard& shard, uint64_t number,
                                                uint64_t connection_number = 0,
                                                uint64_t pass = testing::kPass) {
        const transport::ConnectionId connection = connect(shard.address());
        wire::FrameHeader header = testing::frame_header(wire::Kind::kHello, connection_number);
        header.first = number;
        send(connection, header, HelloMessage{pass}.encode());
        return connection;
    }

    /// A push without a time gets the next one, and names the push before it, as a client's does.
    void send(transport::ConnectionId connection, wire::FrameHeader header,
              std::span<const std::byte> body = {}) {
        const bool is_ordered = header.kind == wire::Kind::kPush && header.time == 0 &&
                                (header.flags & wire::kAggregate) == 0;
        if (is_ordered) set_order(connection, header);
        (void)testing::send_frame(*endpoint_, connection, header, body);
    }

    /// Sends `message` as it is.
    void send_bytes(transport::ConnectionId connection, std::span<const std::byte> message) {
        const std::array parts{message};
        (void)endpoint_->send(connection, parts);
        endpoint_->flush();
    }

    [[nodiscard]] bool is_closed(transport::ConnectionId connection) const {
        return std::find(closed_.begin(), closed_.end(), connection) != closed_.end();
    }

    /// The answer to a request, if it has come.
    [[nodiscard]] const Answer* answer(uint64_t request) const {
        const auto found = std::find_if(answers_.begin(), answers_.end(), [&](const Answer& a) {
            return a.header.kind == wire::Kind::kReply && a.header.request == request;
        });
        return found == answers_.end() ? nullptr : &*found;
    }

    [[nodiscard]] const std::vector<Answer>& answers() const { return answers_; }

    /// In which all answers came.
    [[nodiscard]] size_t messages() const { return messages_; }

    /// The immediates that came with the values of pulls.
    [[nodiscard]] const std::vector<uint32_t>& immediates() const { return immediates_; }

    [[nodiscard]] Memory& memory() { return memory_; }

    [[nodiscard]] transport::Endpoint& endpoint() { return *endpoint_; }

    void poll() {
        std::array<transport::Completion, 16> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            switch (c.event) {
                case transport::Event::kConnected: connected_.push_back(c.connection); break;
                case transport::Event::kClosed: closed_.push_back(c.connection); break;
                case transport::Event::kImmediate: immediates_.push_back(c.immediate); break;
                case transport::Event::kReceived: {
                    ++messages_;
                    wire::Frame frame;
                    for (std::span<const std::byte> rest = c.message; !rest.empty();) {
                        if (wire::decode_next(rest, frame) != Errc::kOk) break;
                        answers_.push_back({c.connection,
                                            frame.header,
                                            {frame.values.begin(), frame.values.end()}});
                    }
                    break;
                }
                default: break;
            }
        }
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over, size_t idle_max = 5000) {
        return cluster_.run_until(
            [&] {
                poll();
                return over();
            },
            idle_max);
    }

    /// Runs the cluster until it has had nothing to do for 20 milliseconds.
    void run() {
        (void)run_until([] { return false; }, 20);
    }

private:
    struct Push {
        transport::ConnectionId connection = 0;
        uint32_t table = 0;
        uint64_t request = 0;
    };

    void set_order(transport::ConnectionId connection, wire::FrameHeader& header) {
        uint32_t number = 0;
        uint32_t predecessor = 0;
        for (const Push& push : pushes_) {
            if (push.connection != connection || push.table != header.table) continue;
            ++number;
            const Answer* const had = answer(push.request);
            if (had == nullptr || had->header.status == Errc::kOk) predecessor = number;
        }
        header.time = ++time_;
        header.set_predecessor(predecessor);
        pushes_.push_back({connection, header.table, header.request});
    }

    std::vector<Push> pushes_;
    uint32_t time_ = 0;
    SimCluster& cluster_;
    std::unique_ptr<transport::Device> device_;
    RegisteredMemory memory_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::vector<transport::ConnectionId> connected_;
    std::vector<transport::ConnectionId> closed_;
    std::vector<Answer> answers_;
    std::vector<uint32_t> immediates_;
    size_t messages_ = 0;
};

}  // namespace weir::test
