// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Rank 0's side of the rendezvous: lets the other ranks in, collects their entries, and sends all
/// entries to all ranks.

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/bootstrap/rendezvous/rendezvous.h"
#include "lib/bootstrap/rendezvous/rendezvous_listener.h"

namespace weir::boot {

/// Thread: one. Works only inside exchange(); between exchanges connections wait in the kernel.
class RendezvousServer final : public Bootstrap, private RendezvousListener::Owner {
public:
    static constexpr size_t kRoundBytesMax =
        size_t{256} * 1024;  ///< what a rank may put in one round

    /// Errors:  those of tcp_listen
    [[nodiscard]] static Result<std::unique_ptr<RendezvousServer>> open(RendezvousOptions options,
                                                                        const Clock& clock);

    [[nodiscard]] uint32_t rank() const noexcept override { return 0; }

    [[nodiscard]] uint32_t size() const noexcept override { return options_.size; }

    [[nodiscard]] std::string_view name() const noexcept override { return "rendezvous"; }

    /// The port it listens on: the port asked for, or the one that the kernel chose for 0.
    [[nodiscard]] uint16_t port() const noexcept { return options_.at.port; }

    Status put(std::string_view key, std::string_view value) override;
    Status exchange(uint64_t deadline_ns) override;
    Result<std::string> get(uint32_t rank, std::string_view key) override;
    Status finish() override;

    [[nodiscard]] transport::SocketAddress met_at() const override { return met_at_; }

    Result<std::unique_ptr<OpenRendezvous>> stay_open(const Contact& contact) override;

private:
    using Connection = RendezvousListener::Connection;
    using Entries = std::vector<std::pair<std::string, std::string>>;

    /// A rank of the job, whether connected or not.
    struct RankState {
        Connection* connection = nullptr;
        bool committed = false;
        Entries entries = {};  // of this round
        size_t entry_bytes = 0;
    };

    RendezvousServer(RendezvousOptions options, const Clock& clock,
                     std::unique_ptr<RendezvousListener> listener);

    // what the listener asks and tells
    [[nodiscard]] Status check(const RendezvousHello& hello) override;
    void admitted(Connection& connection) override;
    [[nodiscard]] Status take(Connection& connection, const RendezvousMessage& message) override;
    [[nodiscard]] bool may_end(const Connection& connection) const override;
    void ended(const Connection& connection) override;
    void refused(const std::string& reason) override;

    [[nodiscard]] Status take_entry(const Connection& connection, const RendezvousMessage& entry);
    [[nodiscard]] std::vector<uint32_t> missing() const;
    [[nodiscard]] std::string missing_text() const;
    void tell_waiting();
    void release();
    void flush_all(uint64_t deadline_ns);
    [[nodiscard]] Error fail(Errc code, const std::string& reason);

    const Clock& clock_;
    RendezvousOptions options_;
    std::unique_ptr<RendezvousListener> listener_;  // none: failed or finished
    std::vector<RankState> ranks_;
    std::map<std::pair<uint32_t, std::string>, std::string> values_;
    std::vector<std::string> refusals_;  // the first few, for the error at the end
    /// First the address that it listens on, if others reach that; then the one at which the first
    /// rank of another host came.
    transport::SocketAddress met_at_;
    bool has_met_others_ = false;
    uint32_t round_ = 1;  // of the exchange that is being collected
    uint64_t tell_at_ns_ = 0;
    std::string lost_;  // which rank left between two rounds, if one did
};

}  // namespace weir::boot
