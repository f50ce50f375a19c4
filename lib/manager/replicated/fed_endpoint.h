// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FedEndpoint: the endpoint of a manager that is one of several. It brings what the log says has come, and
/// hands on what is sent; only the manager that leads has the connections.

#include <cstdint>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/manager/replicated/manager_input.h"
#include "transport/transport.h"

namespace weir {

/// Thread: one
class FedEndpoint final : public transport::Endpoint {
public:
    using ConnectionId = transport::ConnectionId;
    using Parts = std::span<const std::span<const std::byte>>;

    /// Where the connections are, if they are here. It must not call the endpoint.
    class Connections {
    public:
        Connections() = default;
        Connections(const Connections&) = delete;
        Connections& operator=(const Connections&) = delete;
        virtual ~Connections() = default;
        virtual void send(ConnectionId connection, Parts parts) = 0;
        virtual void close(ConnectionId connection) = 0;
        [[nodiscard]] virtual std::string name_of(ConnectionId connection) const = 0;
    };

    FedEndpoint(Connections& connections, std::string address)
        : connections_(connections), address_(std::move(address)) {}

    /// The next polls bring these, without those of connections that are closed by now.
    void feed(std::vector<ManagerEvent> events);
    /// All connections have broken. Those that come take messages as long as all so far took.
    void break_all(uint32_t message_bytes_max);

    [[nodiscard]] bool is_drained() const noexcept { return events_.empty(); }

    // Endpoint
    [[nodiscard]] std::string address() const override { return address_; }

    [[nodiscard]] transport::Capabilities capabilities() const override { return capabilities_; }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override;
    void close(ConnectionId connection) override;
    [[nodiscard]] transport::Post send(ConnectionId connection, Parts parts) override;
    [[nodiscard]] Result<transport::RemoteSpan> expose(ConnectionId connection,
                                                       std::span<const std::byte> memory) override;
    [[nodiscard]] transport::Post read(ConnectionId connection, std::span<std::byte> into,
                                       const transport::RemoteSpan& from,
                                       uint64_t context) override;
    [[nodiscard]] transport::Post write(ConnectionId connection, std::span<const std::byte> from,
                                        const transport::RemoteSpan& to, uint64_t context) override;
    [[nodiscard]] transport::Post write_immediate(ConnectionId connection,
                                                  std::span<const std::byte> from,
                                                  const transport::RemoteSpan& to,
                                                  uint32_t immediate, uint64_t context) override;

    void flush() override {}

    [[nodiscard]] size_t poll(std::span<transport::Completion> completions) override;

    [[nodiscard]] int arm() override { return -1; }

    [[nodiscard]] std::string peer_name(ConnectionId connection) const override {
        return connections_.name_of(connection);
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return counters_;
    }

private:
    Connections& connections_;
    std::string address_;
    transport::Capabilities capabilities_{};
    transport::EndpointCounters counters_;
    std::set<ConnectionId> open_;  ///< of those that poll() has brought or will bring
    std::deque<ManagerEvent> events_;
    std::vector<ManagerEvent> shown_;  ///< by the last poll
};

}  // namespace weir
