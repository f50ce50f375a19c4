// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// SimEndpoint: posts packets to the Core and returns from poll() what the Core delivers.

#include <deque>
#include <vector>

#include "transport/sim/core.h"
#include "transport/sim/device.h"

namespace weir::transport::sim {

class SimEndpoint final : public Endpoint {
public:
    SimEndpoint(Core& core, SimDevice& device, const EndpointOptions& options);
    SimEndpoint(const SimEndpoint&) = delete;
    SimEndpoint& operator=(const SimEndpoint&) = delete;
    ~SimEndpoint() override;

    [[nodiscard]] std::string address() const override;
    [[nodiscard]] Capabilities capabilities() const override;
    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override;
    void close(ConnectionId connection) override;
    [[nodiscard]] Post send(ConnectionId connection,
                            std::span<const std::span<const std::byte>> parts) override;
    [[nodiscard]] Result<RemoteSpan> expose(ConnectionId connection,
                                            std::span<const std::byte> memory) override;
    [[nodiscard]] Post read(ConnectionId connection, std::span<std::byte> into,
                            const RemoteSpan& from, uint64_t context) override;
    [[nodiscard]] Post write(ConnectionId connection, std::span<const std::byte> from,
                             const RemoteSpan& to, uint64_t context) override;
    [[nodiscard]] Post write_immediate(ConnectionId connection, std::span<const std::byte> from,
                                       const RemoteSpan& to, uint32_t immediate,
                                       uint64_t context) override;
    [[nodiscard]] std::byte* map(ConnectionId connection, const RemoteSpan& span,
                                 Access wanted) override;
    void flush() override;
    [[nodiscard]] size_t poll(std::span<Completion> completions) override;

    [[nodiscard]] int arm() override { return -1; }

    [[nodiscard]] std::string peer_name(ConnectionId connection) const override;

    [[nodiscard]] const EndpointCounters& counters() const noexcept override { return counters_; }

    // For the Core.
    [[nodiscard]] SimDevice& device() { return device_; }

    [[nodiscard]] HostId host() const { return device_.host(); }

    [[nodiscard]] const EndpointOptions& options() const { return options_; }

    [[nodiscard]] uint64_t number() const { return number_; }

    [[nodiscard]] EndpointCounters& count() { return counters_; }

    [[nodiscard]] bool is_full() const { return connections_ >= options_.connections_max; }

    void began() { ++connections_; }

    void ended() { --connections_; }

    /// Adds a completion for poll() to return.
    void arrive(const Completion& completion, Buffer message = {});
    /// From now on this endpoint sends and reports nothing.
    void kill();

private:
    struct Arrived {
        Completion completion;
        Buffer message;
    };

    [[nodiscard]] Post post(ConnectionId id, const Operation& operation, Packet packet);
    void put(SimConnection& connection, uint32_t side, Packet packet);

    Core& core_;
    SimDevice& device_;
    const EndpointOptions options_;
    const uint64_t number_;
    size_t connections_ = 0;
    EndpointCounters counters_;
    std::deque<Arrived> arrived_;
    std::vector<Buffer> lent_;
    std::vector<ConnectionId> held_;  ///< connections with packets that wait for flush()
};

}  // namespace weir::transport::sim
