// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MultiEndpoint: one child endpoint per device. A connection's id is the child's id with the
/// child's index in the lowest bits, so that every call finds its child without a table. Only a
/// connection that could not be made by the first way, and was made by another, keeps its first id
/// in a table.

#include <string>
#include <string_view>
#include <unordered_map>
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
    ~MultiEndpoint() override = default;

    [[nodiscard]] std::string address() const override;
    [[nodiscard]] Capabilities capabilities() const override;
    [[nodiscard]] Capabilities capabilities_of(ConnectionId connection) const override;
    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override;
    void close(ConnectionId connection) override;
    void cut_off(ConnectionId connection) override;
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

    /// A child and the part of the peer's address that is for it.
    struct Way {
        size_t child = 0;
        std::string address;
    };

    /// A connection that is not made yet.
    struct Attempt {
        ConnectionId id = 0;    ///< the caller's
        std::vector<Way> ways;  ///< to be tried if this one fails; the next one last
    };

    /// A connection of a child; no child: there is no such connection.
    struct Inner {
        Endpoint* child = nullptr;
        ConnectionId connection = 0;
    };

    [[nodiscard]] Inner inner_of(ConnectionId id) const;
    [[nodiscard]] std::vector<Way> ways_to(std::string_view address) const;
    /// Passes a child's completion on in the caller's terms. False: it is not for the caller.
    [[nodiscard]] bool translate(Completion& completion, size_t child);
    /// The attempt has failed: tries its other ways. False: none is left.
    [[nodiscard]] bool try_another(Attempt attempt);

    /// The caller closes the connection: if it is not made yet, none of the other ways is tried.
    void forget_other_ways(ConnectionId connection);

    std::vector<Child> children_;
    std::vector<int> watched_;  ///< each child's descriptor once it is in the epoll set
    Descriptor epoll_;
    std::unordered_map<ConnectionId, Attempt> attempts_;  ///< by the current child's joined id
    /// Connections whose first way failed: the caller's id and the current child's joined id.
    std::unordered_map<ConnectionId, ConnectionId> current_;
    std::unordered_map<ConnectionId, ConnectionId> first_ids_;
    size_t first_ = 0;  ///< the child that the next poll() begins with
    mutable EndpointCounters counters_;
};

}  // namespace weir::transport
