// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DoubtfulEndpoint: closes of connections that peers do not confirm.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/transport.h"

namespace weir::testing {

/// An endpoint whose peers do not confirm the end of their connections: it says so, or waits for them
/// and says nothing.
class DoubtfulEndpoint final : public transport::Endpoint {
    using Completion = transport::Completion;
    using ConnectionId = transport::ConnectionId;
    using Post = transport::Post;
    using RemoteSpan = transport::RemoteSpan;

public:
    explicit DoubtfulEndpoint(std::unique_ptr<Endpoint> inner, bool waits = false)
        : inner_(std::move(inner)), waits_(waits) {}

    [[nodiscard]] std::string address() const override { return inner_->address(); }

    [[nodiscard]] transport::Capabilities capabilities() const override {
        return inner_->capabilities();
    }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override {
        return inner_->connect(address);
    }

    void close(ConnectionId c) override { inner_->close(c); }

    [[nodiscard]] Post send(ConnectionId c,
                            std::span<const std::span<const std::byte>> parts) override {
        return inner_->send(c, parts);
    }

    [[nodiscard]] Result<RemoteSpan> expose(ConnectionId c,
                                            std::span<const std::byte> memory) override {
        return inner_->expose(c, memory);
    }

    [[nodiscard]] Post read(ConnectionId c, std::span<std::byte> into, const RemoteSpan& from,
                            uint64_t context) override {
        return inner_->read(c, into, from, context);
    }

    [[nodiscard]] Post write(ConnectionId c, std::span<const std::byte> from, const RemoteSpan& to,
                             uint64_t context) override {
        return inner_->write(c, from, to, context);
    }

    [[nodiscard]] Post write_immediate(ConnectionId c, std::span<const std::byte> from,
                                       const RemoteSpan& to, uint32_t immediate,
                                       uint64_t context) override {
        return inner_->write_immediate(c, from, to, immediate, context);
    }

    [[nodiscard]] std::byte* map(ConnectionId c, const RemoteSpan& span,
                                 transport::Access wanted) override {
        return inner_->map(c, span, wanted);
    }

    void flush() override { inner_->flush(); }

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        const size_t count = inner_->poll(completions);
        size_t shown = 0;
        for (transport::Completion c : completions.first(count)) {
            c.memory_in_doubt = c.event == transport::Event::kClosed;
            if (c.memory_in_doubt && waits_) continue;
            completions[shown++] = c;
        }
        return shown;
    }

    [[nodiscard]] int arm() override { return inner_->arm(); }

    [[nodiscard]] std::string peer_name(ConnectionId c) const override {
        return inner_->peer_name(c);
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return inner_->counters();
    }

private:
    std::unique_ptr<Endpoint> inner_;
    bool waits_;
};

}  // namespace weir::testing
