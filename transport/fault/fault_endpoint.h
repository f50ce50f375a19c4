// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FaultEndpoint: an endpoint that injects faults into another one; see fault.h.

#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "transport/fault/fault.h"

namespace weir::transport {

class FaultEndpoint final : public Endpoint {
public:
    FaultEndpoint(std::unique_ptr<Endpoint> inner, std::shared_ptr<Faults> faults)
        : inner_(std::move(inner)), faults_(std::move(faults)), fresh_(64) {}

    [[nodiscard]] std::string address() const override { return inner_->address(); }

    [[nodiscard]] Capabilities capabilities() const override { return inner_->capabilities(); }

    [[nodiscard]] Capabilities capabilities_of(ConnectionId connection) const override {
        return inner_->capabilities_of(connection);
    }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override;

    void close(ConnectionId connection) override { inner_->close(connection); }

    void cut_off(ConnectionId connection) override { inner_->cut_off(connection); }

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

    void flush() override { inner_->flush(); }

    [[nodiscard]] size_t poll(std::span<Completion> completions) override;
    [[nodiscard]] int arm() override;

    [[nodiscard]] std::string peer_name(ConnectionId connection) const override {
        return inner_->peer_name(connection);
    }

    [[nodiscard]] const EndpointCounters& counters() const noexcept override {
        return inner_->counters();
    }

private:
    enum class Health : uint8_t { kWell, kBroken };

    struct Held {
        Completion completion;
        std::vector<std::byte> message;
        uint64_t at_poll = 0;
    };

    /// Decides whether a post fails instead of reaching the inner endpoint: kNotNow or kClosed if
    /// it fails, kPosted if it goes on.
    [[nodiscard]] Post interfere(ConnectionId connection);
    [[nodiscard]] bool is_broken(ConnectionId connection) const;
    /// Takes the completions of the inner endpoint, with a copy of every message.
    void take_in();
    void take_in(const Completion& completion);

    std::unique_ptr<Endpoint> inner_;
    std::shared_ptr<Faults> faults_;
    std::unordered_map<ConnectionId, Health> connections_;  ///< opened and not closed yet
    std::unordered_set<ConnectionId> spared_;               ///< those to Faults::spared_address
    std::vector<Completion> fresh_;
    std::deque<Held> held_;
    std::deque<Held> lent_;
    uint64_t polls_ = 0;
};

}  // namespace weir::transport
