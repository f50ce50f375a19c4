// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Rank 0's side of the rendezvous: admits the other ranks, collects their entries, and sends all
/// entries to all ranks.

#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/bootstrap/rendezvous.h"
#include "lib/bootstrap/rendezvous_link.h"
#include "transport/net/half_open.h"

namespace weir::boot {

/// Thread: one. Works only inside exchange(); between exchanges connections wait in the kernel.
class RendezvousServer final : public Bootstrap {
public:
    /// How many connections may be open that are not a rank's; see HalfOpenPlaces.
    static constexpr uint32_t kUnadmittedMax = transport::kHalfOpenPlacesMax;
    static constexpr uint64_t kHandshakeTimeoutNs = 5 * kSecond;
    static constexpr size_t kRoundBytesMax =
        size_t{256} * 1024;  ///< what a rank may put in one round

    /// Errors:  those of tcp_listen
    [[nodiscard]] static Result<std::unique_ptr<RendezvousServer>> open(RendezvousOptions options,
                                                                        const Clock& clock);

    [[nodiscard]] uint32_t rank() const noexcept override { return 0; }

    [[nodiscard]] uint32_t size() const noexcept override { return options_.size; }

    [[nodiscard]] uint32_t local_rank() const noexcept override { return 0; }

    [[nodiscard]] std::string_view name() const noexcept override { return "rendezvous"; }

    /// The port it listens on: the port asked for, or the one that the kernel chose for 0.
    [[nodiscard]] uint16_t port() const noexcept { return options_.at.port; }

    Status put(std::string_view key, std::string_view value) override;
    Status exchange(uint64_t deadline_ns) override;
    Result<std::string> get(uint32_t rank, std::string_view key) override;
    Status finish() override;

private:
    enum class Stage : uint8_t {
        kHandshake,  ///< in the handshake
        kJoined,     ///< admitted as a rank
        kLeaving,    ///< refused; closed once the reason is sent
    };

    /// A connection: not yet admitted at first, then that of a rank.
    struct Connection {
        Connection(transport::Socket socket, const std::optional<transport::Secret>& secret)
            : link(std::move(socket), transport::Side::kAccepting, secret) {}

        RendezvousLink link;
        uint64_t id = 0;
        Stage stage = Stage::kHandshake;
        RendezvousHello hello;
    };

    using Entries = std::vector<std::pair<std::string, std::string>>;

    /// A rank of the job, whether connected or not.
    struct RankState {
        Connection* connection = nullptr;
        std::string host = {};
        bool committed = false;
        Entries entries = {};  // of this round
        size_t entry_bytes = 0;
    };

    RendezvousServer(RendezvousOptions options, const Clock& clock, Descriptor listener);

    /// Waits for events for a short time and handles them.
    void poll_once(uint64_t deadline_ns);
    void accept_connections();
    void drop_late();
    void free_a_place();
    [[nodiscard]] std::list<Connection>::iterator find(uint64_t id);
    /// Reads and writes; false if the connection is to be closed.
    bool serve(Connection& connection, short events);
    [[nodiscard]] Status handle(Connection& connection, const transport::RecordView& record);
    [[nodiscard]] Status shake(Connection& connection, const transport::RecordView& record);
    void refuse_unproven(Connection& connection);
    [[nodiscard]] Status admit(Connection& connection);
    [[nodiscard]] Status take_entry(Connection& connection, const RendezvousMessage& entry);
    void refuse(Connection& connection, const std::string& reason);
    void close(Connection& connection);
    /// Logs a line that peers can cause any number of times: a connection that was closed or could
    /// not be accepted. Later lines of the same `reason` are counted and summed up.
    void warn_repeatable(std::string_view reason, std::string_view line);

    [[nodiscard]] std::vector<uint32_t> missing() const;
    [[nodiscard]] std::string missing_text() const;
    void tell_waiting();
    void release();
    void flush_all(uint64_t deadline_ns);
    [[nodiscard]] Error fail(Errc code, const std::string& reason);

    const Clock& clock_;
    RendezvousOptions options_;
    Descriptor listener_;
    std::list<Connection> connections_;
    std::vector<RankState> ranks_;
    std::map<std::pair<uint32_t, std::string>, std::string> values_;
    std::vector<std::string> refusals_;  // the first few, for the error at the end
    uint64_t last_id_ = 0;               // of a connection
    transport::HalfOpenPlaces places_{clock_, kUnadmittedMax, kHandshakeTimeoutNs};
    uint32_t round_ = 1;  // of the exchange that is being collected
    uint64_t tell_at_ns_ = 0;
    std::string lost_;   // which rank left between two rounds, if one did
    bool over_ = false;  // failed or finished
};

}  // namespace weir::boot
