// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MemberLinks: the manager's endpoint. It shows a link (link.h) as one connection, whatever becomes
/// of the connections below it, and closes it when the member, or its process, is known to have
/// ended. Other connections are shown as they are.

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/node/link.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

/// Life lines (life_line.h) are answered here. That of a process proves the end of the process when
/// it is closed in order; then what the process had sent is still taken, and its links are closed.
/// A link of a process that has no life line is closed with its connection.
///
/// Thread: one
class MemberLinks final : public transport::Endpoint {
public:
    using ConnectionId = transport::ConnectionId;

    /// Of links and of life lines. Beyond it a connection is closed.
    static constexpr size_t kLinksMax = 65536;

    /// `lease_ns`: as ManagerOptions has it.
    MemberLinks(std::unique_ptr<transport::Endpoint> inner, const Clock& clock, uint64_t lease_ns)
        : inner_(std::move(inner)), clock_(clock), lease_ns_(lease_ns) {}

    /// Since when the process at the other end is out of reach: its life line is broken. Or it lives,
    /// but its member has given the link up: that is broken for longer than a member tries. 0: neither,
    /// or there is no life line.
    [[nodiscard]] uint64_t silent_since_ns(ConnectionId connection) const;

    /// Whether the member's link is whole, as far as is known. Of what is no link: true.
    [[nodiscard]] bool is_connected(ConnectionId connection) const;

    /// The process at the other end of a link; 0 if it has not said that.
    [[nodiscard]] uint64_t process_of(ConnectionId connection) const;

    /// When the process was last heard of: it made its life line, or got a lease. ~0: that cannot be
    /// told, because it has no life line.
    [[nodiscard]] uint64_t heard_ns(uint64_t process) const;

    /// When its lease ends, as counted here; in the past, or 0, if it has none. 0 if its end is proved.
    [[nodiscard]] uint64_t lease_end_ns(uint64_t process) const;

    /// It is proved elsewhere that the process has ended.
    void process_has_ended(uint64_t process) {
        if (lines_.contains(process)) process_ended(process);
    }

    /// The process gets no lease any more.
    void refuse_leases(uint64_t process);

    // Endpoint
    [[nodiscard]] std::string address() const override { return inner_->address(); }

    [[nodiscard]] transport::Capabilities capabilities() const override {
        return inner_->capabilities();
    }

    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override {
        return inner_->connect(address);
    }

    void close(ConnectionId connection) override;
    [[nodiscard]] transport::Post send(ConnectionId connection,
                                       std::span<const std::span<const std::byte>> parts) override;
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
    [[nodiscard]] std::byte* map(ConnectionId connection, const transport::RemoteSpan& span,
                                 transport::Access wanted) override;

    void flush() override { inner_->flush(); }

    [[nodiscard]] size_t poll(std::span<transport::Completion> completions) override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] std::string peer_name(ConnectionId connection) const override;

    [[nodiscard]] const transport::EndpointCounters& counters() const noexcept override {
        return inner_->counters();
    }

private:
    struct MemberLink {
        Link link;
        uint64_t identity = 0;        ///< as in LinkMessage
        uint64_t process = 0;         ///< as in LinkMessage
        ConnectionId connection = 0;  ///< 0: broken
        uint64_t number = 0;          ///< the highest of its connections
        uint64_t broken_ns = 0;       ///< since when, if it is
        size_t added_bytes = 0;       ///< while it was broken, and may be kept beside the others
        /// Its process has ended: when to close it at the latest. 0: it has not.
        uint64_t end_ns = 0;
    };

    struct Line {
        ConnectionId connection = 0;  ///< 0: broken
        uint64_t number = 0;          ///< the highest of its connections
        uint64_t broken_ns = 0;       ///< since when
        uint64_t heard_ns = 0;        ///< when it was made, or the last lease was given
        uint64_t lease_end_ns = 0;    ///< 0: it was never asked for
        bool is_refused = false;      ///< it gets no lease
    };

    /// Whether the caller sees it.
    [[nodiscard]] bool translate(transport::Completion& completion);
    [[nodiscard]] bool receive(transport::Completion& completion);
    [[nodiscard]] bool receive(ConnectionId id, MemberLink& link,
                               transport::Completion& completion);
    [[nodiscard]] bool begin(const wire::Frame& frame, transport::Completion& completion);
    [[nodiscard]] bool resume(ConnectionId id, const wire::Frame& frame, ConnectionId connection);
    [[nodiscard]] bool begin_line(const wire::Frame& frame, ConnectionId connection);
    [[nodiscard]] bool give_lease(const wire::Frame& frame, ConnectionId connection);
    [[nodiscard]] bool closed(transport::Completion& completion);
    void refuse(ConnectionId connection);
    void answer(ConnectionId connection, const MemberLink& link);
    void process_ended(uint64_t process);
    void end(ConnectionId id);
    void post(ConnectionId id, MemberLink& link);
    [[nodiscard]] static bool takes_too_little(MemberLink& link, size_t added_bytes);
    void end_late_ones();

    std::unique_ptr<transport::Endpoint> inner_;
    const Clock& clock_;
    uint64_t lease_ns_;
    std::unordered_map<ConnectionId, MemberLink> links_;  ///< by the id that the caller knows
    std::unordered_map<uint64_t, ConnectionId> by_identity_;
    std::unordered_map<ConnectionId, ConnectionId> by_connection_;
    std::unordered_map<uint64_t, Line> lines_;  ///< by process
    std::unordered_map<ConnectionId, uint64_t> lines_by_connection_;
    std::deque<transport::Completion> own_;  ///< of no endpoint: to be shown by the next poll()
    std::set<ConnectionId> unposted_;        ///< links whose frames wait for room
    std::set<ConnectionId> ending_;          ///< links that have end_ns
    uint64_t last_id_ = 0;
};

}  // namespace weir
