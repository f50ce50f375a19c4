// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MultiEndpoint: one child endpoint per device. A connection's id is the child's id with the
/// child's index in the lowest bits, so that every call finds its child without a table.

#include <string_view>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/multi/multi.h"

namespace weir::transport {

class MultiEndpoint final : public Endpoint {
public:
    struct Child {
        std::unique_ptr<Endpoint> endpoint;
        std::string_view name;
    };

    /// Errors: kIo if the epoll descriptor cannot be made
    [[nodiscard]] static Result<std::unique_ptr<MultiEndpoint>> make(std::vector<Child> children);
    MultiEndpoint(const MultiEndpoint&) = delete;
    MultiEndpoint& operator=(const MultiEndpoint&) = delete;
    MultiEndpoint(MultiEndpoint&&) = delete;
    MultiEndpoint& operator=(MultiEndpoint&&) = delete;
    ~MultiEndpoint() override = default;

    [[nodiscard]] std::string address() const override;
    [[nodiscard]] Capabilities capabilities() const override;
    [[nodiscard]] Capabilities capabilities_of(ConnectionId connection) const override;
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
    /// An epoll descriptor over the children's; -1 if one of them cannot be slept on.
    [[nodiscard]] int arm() override;
    [[nodiscard]] std::string peer_name(ConnectionId connection) const override;
    [[nodiscard]] const EndpointCounters& counters() const noexcept override;

private:
    MultiEndpoint(std::vector<Child> children, Descriptor epoll)
        : children_(std::move(children)),
          watched_(children_.size(), -1),
          epoll_(std::move(epoll)) {}

    /// The connection's child, or nullptr.
    [[nodiscard]] Endpoint* child_of(ConnectionId connection) const;

    std::vector<Child> children_;
    std::vector<int> watched_;  ///< each child's descriptor once it is in the epoll set
    Descriptor epoll_;
    size_t first_ = 0;  ///< the child that the next poll() begins with
    mutable EndpointCounters counters_;
};

}  // namespace weir::transport
