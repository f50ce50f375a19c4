// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Core: the implementation of Network: the queue of events, the connections, and the effects of
/// packets (delivery.cc).

#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "transport/sim/connection.h"
#include "transport/sim/network.h"

namespace weir::transport::sim {

class SimDevice;

class Core {
public:
    Core(uint64_t seed, ManualClock& clock, const Options& options);

    [[nodiscard]] const Options& options() const { return options_; }

    [[nodiscard]] uint64_t now_ns() const { return clock_.now_ns(); }

    [[nodiscard]] const NetworkCounters& counters() const { return counters_; }

    [[nodiscard]] uint64_t trace_hash() const { return trace_; }

    // Events.
    [[nodiscard]] std::optional<uint64_t> next_event_ns() const;
    bool step();
    void advance_to(uint64_t now_ns);

    // Faults.
    void partition(HostId a, HostId b);
    void block(HostId from, HostId to);
    void heal(HostId a, HostId b);
    void reset(HostId a, HostId b);
    void kill(HostId host);

    void set_slowness(HostId host, double factor) { hosts_[host].slowness = factor; }

    // For devices and endpoints.
    void add(SimDevice& device) { devices_.insert(&device); }

    void remove(SimDevice& device) { devices_.erase(&device); }

    /// Adds the endpoint and returns its number.
    uint64_t add(SimEndpoint& endpoint);
    void remove(SimEndpoint& endpoint);

    /// A key or an address that no other region of this network has.
    [[nodiscard]] uint64_t make_key() { return random_(); }

    [[nodiscard]] uint64_t make_address(size_t length_bytes);
    [[nodiscard]] SimConnection* find(ConnectionId id, const SimEndpoint& owner);
    [[nodiscard]] Result<ConnectionId> connect(SimEndpoint& from, uint64_t target);
    /// Puts a packet on a lane; if `held`, it stays there until release().
    void put(SimConnection& connection, uint32_t lane, Packet packet, bool held);
    void release(SimConnection& connection, uint32_t lane);
    void send_close(SimConnection& connection, uint32_t side, Errc status);
    /// Returns the credits of polled messages to the sender, several at a time.
    void give_back(SimConnection& connection, uint32_t side);
    /// Removes the connection if both ends have ended.
    void retire(SimConnection& connection);

    [[nodiscard]] Buffer take_buffer();
    void keep_buffer(Buffer buffer);

private:
    struct Host {
        double slowness = 1;
        uint64_t wire_free_ns = 0;
    };

    enum class Happening : uint8_t { kLane, kBreak, kSilence, kDeath };

    struct Pending {
        uint64_t at_ns;
        uint64_t order;   ///< among events of the same time
        uint64_t serial;  ///< of the connection
        uint32_t slot;
        Happening what;
        uint8_t index;  ///< lane or side
        Errc status;

        bool operator>(const Pending& other) const {
            return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order;
        }
    };

    /// Whether a packet is wholly delivered or must be scheduled again for its next part.
    enum class Progress : uint8_t { kDelivered, kMore };

    void schedule(uint64_t at_ns, const SimConnection& connection, Happening what, uint32_t index,
                  Errc status = Errc::kOk);
    void schedule_lane(SimConnection& connection, uint32_t lane);
    void happen(const Pending& pending);
    void run_lane(SimConnection& connection, uint32_t lane);
    void break_both(SimConnection& connection, uint32_t first, Errc status);
    void break_end(SimConnection& connection, uint32_t side, Errc status);
    void end(SimConnection& connection, uint32_t side, Errc status);
    void cut(SimConnection& connection, uint32_t lane);
    /// Drops the first packet that refers to the sender's memory, and all packets after it.
    void cut_from_first_write(Lane& lane);
    [[nodiscard]] bool cut_off(const SimConnection& connection, uint32_t side) const;
    [[nodiscard]] bool cut_off(const SimConnection& connection) const;
    [[nodiscard]] uint64_t draw_delay_ns(const SimConnection& connection);
    void depart(SimConnection& connection, uint32_t lane, Packet& packet);

    void trace(uint64_t value) { trace_ = mix64(trace_ * 0x9e3779b97f4a7c15ULL + value); }

    void trace_packet(const SimConnection& connection, uint32_t lane, const Packet& packet);
    SimConnection& make_connection();
    void kill_end(SimConnection& connection, uint32_t side);

    // delivery.cc: what an arriving packet does. `to` is the side that it arrives at.
    Progress deliver(SimConnection& connection, uint32_t to, Packet& packet);
    void deliver_hello(SimConnection& connection, const Packet& packet);
    void deliver_welcome(SimConnection& connection, const Packet& packet);
    void deliver_message(SimConnection& connection, uint32_t to, Packet& packet);
    Progress deliver_write(SimConnection& connection, uint32_t to, Packet& packet);
    Progress deliver_read(SimConnection& connection, uint32_t to, Packet& packet);
    void deliver_close(SimConnection& connection, uint32_t to, const Packet& packet);
    void deliver_response(SimConnection& connection, uint32_t to, Packet& packet);
    void refuse(SimConnection& connection, uint32_t to);
    void end_if_done(SimConnection& connection, uint32_t side);

    ManualClock& clock_;
    const Options options_;
    Random random_;
    NetworkCounters counters_;
    uint64_t trace_ = 0;
    uint64_t order_ = 0;
    uint64_t serial_ = 0;
    uint64_t address_ = uint64_t{1} << 44;
    uint64_t endpoint_number_ = 0;
    std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
    std::vector<std::unique_ptr<SimConnection>> connections_;
    std::vector<uint32_t> free_slots_;
    std::vector<Buffer> buffers_;
    std::unordered_map<HostId, Host> hosts_;
    std::set<std::pair<HostId, HostId>> blocked_;  ///< from, to
    std::set<SimDevice*> devices_;
    std::map<uint64_t, SimEndpoint*> endpoints_;
};

}  // namespace weir::transport::sim
