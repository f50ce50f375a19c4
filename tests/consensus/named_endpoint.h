// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// NamedEndpoint: an endpoint of a replica, whose peers are known by their numbers ("replica:2") whatever
/// addresses they have since they were started last, and whose messages to a peer may be lost or held back in
/// that direction only.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace weir::testing {

enum class Way : uint8_t {
    kOpen,
    kLosing,   ///< what is sent is lost
    kHolding,  ///< what is sent arrives once the way is open again
};

/// What all endpoints of a group know.
struct Ways {
    std::map<std::string, std::string> addresses;  ///< by name
    std::map<std::pair<std::string, std::string>, Way> ways;

    [[nodiscard]] Way between(const std::string& from, const std::string& to) const {
        const auto found = ways.find({from, to});
        return found == ways.end() ? Way::kOpen : found->second;
    }
};

class NamedEndpoint final : public transport::Endpoint {
public:
    using ConnectionId = transport::ConnectionId;
    using Parts = std::span<const std::span<const std::byte>>;

    NamedEndpoint(std::unique_ptr<Endpoint> inner, std::string own, const Ways& ways)
        : inner_(std::move(inner)), own_(std::move(own)), ways_(ways) {}

    [[nodiscard]] std::string address() const override { return inner_->address(); }

    [[nodiscard]] transport::Capabilities capabilities() const override {
        return inner_->capabilities();
    }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view name) override {
        const auto found = ways_.addresses.find(std::string(name));
        if (found == ways_.addresses.end())
            return Error(Errc::kUnavailable, "nobody has that name yet");
        Result<ConnectionId> begun = inner_->connect(found->second);
        if (begun) targets_[*begun].name = name;
        return begun;
    }

    void close(ConnectionId connection) override { inner_->close(connection); }

    [[nodiscard]] transport::Post send(ConnectionId connection, Parts parts) override {
        Target& target = targets_[connection];
        const Way way = ways_.between(own_, target.name);
        if (way == Way::kLosing) return transport::Post::kPosted;
        if (way == Way::kOpen && target.held.empty()) return inner_->send(connection, parts);
        std::vector<std::byte> message;
        for (const auto part : parts)
            message.insert(message.end(), part.begin(), part.end());
        target.held.push_back(std::move(message));
        return transport::Post::kPosted;
    }

    [[nodiscard]] size_t poll(std::span<transport::Completion> completions) override {
        for (auto& [connection, target] : targets_) {
            if (ways_.between(own_, target.name) != Way::kOpen) continue;
            while (!target.held.empty()) {
                const std::span<const std::byte> part = target.held.front();
                if (inner_->send(connection, Parts(&part, 1)) == transport::Post::kNotNow) break;
                target.held.pop_front();
            }
        }
        return inner_->poll(completions);
    }

    void flush() override { inner_->flush(); }

    [[nodiscard]] int arm() override { return inner_->arm(); }

    [[nodiscard]] std::string peer_name(ConnectionId connection) const override {
        return inner_->peer_name(connection);
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return inner_->counters();
    }

    // A log only sends.
    [[nodiscard]] Result<transport::RemoteSpan> expose(ConnectionId,
                                                       std::span<const std::byte>) override {
        return Error(Errc::kUnavailable, "not here");
    }

    [[nodiscard]] transport::Post read(ConnectionId, std::span<std::byte>,
                                       const transport::RemoteSpan&, uint64_t) override {
        return transport::Post::kInvalid;
    }

    [[nodiscard]] transport::Post write(ConnectionId, std::span<const std::byte>,
                                        const transport::RemoteSpan&, uint64_t) override {
        return transport::Post::kInvalid;
    }

    [[nodiscard]] transport::Post write_immediate(ConnectionId, std::span<const std::byte>,
                                                  const transport::RemoteSpan&, uint32_t,
                                                  uint64_t) override {
        return transport::Post::kInvalid;
    }

    [[nodiscard]] std::byte* map(ConnectionId, const transport::RemoteSpan&,
                                 transport::Access) override {
        return nullptr;
    }

private:
    struct Target {
        std::string name;
        std::deque<std::vector<std::byte>> held;
    };

    std::unique_ptr<Endpoint> inner_;
    std::string own_;
    const Ways& ways_;
    std::map<ConnectionId, Target> targets_;
};

}  // namespace weir::testing
