// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PassingEndpoint: an endpoint of a test that passes all to another one; its kinds change some of that.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "transport/transport.h"

namespace weir::testing {

class PassingEndpoint : public transport::Endpoint {
public:
    using Completion = transport::Completion;
    using ConnectionId = transport::ConnectionId;
    using Parts = std::span<const std::span<const std::byte>>;
    using Post = transport::Post;
    using RemoteSpan = transport::RemoteSpan;

    [[nodiscard]] std::string address() const override { return inner_->address(); }

    [[nodiscard]] transport::Capabilities capabilities() const override {
        return inner_->capabilities();
    }

    [[nodiscard]] transport::Capabilities capabilities_of(ConnectionId c) const override {
        return inner_->capabilities_of(c);
    }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override {
        return inner_->connect(address);
    }

    void close(ConnectionId c) override { inner_->close(c); }

    void cut_off(ConnectionId c) override { inner_->cut_off(c); }

    [[nodiscard]] Post send(ConnectionId c, Parts parts) override { return inner_->send(c, parts); }

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
        return inner_->poll(completions);
    }

    [[nodiscard]] int arm() override { return inner_->arm(); }

    [[nodiscard]] std::string peer_name(ConnectionId c) const override {
        return inner_->peer_name(c);
    }

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return inner_->counters();
    }

protected:
    explicit PassingEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

    [[nodiscard]] Endpoint& inner() const noexcept { return *inner_; }

private:
    std::unique_ptr<Endpoint> inner_;
};

}  // namespace weir::testing
