// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Network: a seeded network on simulated time. Its devices behave like reliable connected queue
/// pairs between hosts: order within a connection, none between connections, and a connection
/// that breaks at its two ends at different times. The same seed and the same calls give the same
/// history.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "transport/transport.h"

namespace weir::transport::sim {

class Core;

/// Identifies a simulated host; any number that the test chooses.
using HostId = uint32_t;

struct Options {
    std::string name = "sim";  ///< of its devices, and the beginning of their addresses
    uint64_t delay_ns_min = 1 * kMicrosecond;
    uint64_t delay_ns_max = 20 * kMicrosecond;  ///< drawn anew for each packet
    /// Bytes that one host sends per second; 0: no limit.
    uint64_t bytes_per_s = 10'000'000'000;
    double loss = 0;  ///< probability that one try of one packet is lost
    uint64_t retry_ns = 200 * kMicrosecond;
    uint32_t tries_max = 7;  ///< lost tries of one packet after which the connection breaks
    /// After how long a dead or unreachable peer is noticed if nothing is sent.
    uint64_t silence_ns = 50 * kMillisecond;
    /// Bulk data are moved in steps of this size, with time in between: a reader that looks too
    /// early sees part of the new data.
    size_t step_bytes = 4096;
    bool maps_memory = false;  ///< like shm: Endpoint::map works
    uint32_t copied_bytes_max = 256;
    uint32_t operations_max = 64;
};

struct NetworkCounters {
    uint64_t events = 0;
    uint64_t packets = 0;
    uint64_t tries_lost = 0;
    uint64_t connections_broken = 0;
};

/// Must outlive its devices. Thread: one, the same as that of all its endpoints.
class Network {
public:
    /// Advances `clock` as events happen. Others may read the clock; nothing else may set it.
    Network(uint64_t seed, ManualClock& clock, const Options& options = {});
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    ~Network();

    /// A new device of that host. After kill() the host can start again with a new device.
    [[nodiscard]] std::unique_ptr<Device> make_device(HostId host);

    /// The time of the next event; nullopt if there is none.
    [[nodiscard]] std::optional<uint64_t> next_event_ns() const;
    /// Sets the clock to the next event and handles it. False if there is none.
    bool step();
    /// Handles all events up to `now_ns`, and sets the clock to it.
    void advance_to(uint64_t now_ns);

    /// No packet passes between the two hosts any more; packets under way are sent again and
    /// again.
    void partition(HostId a, HostId b);
    /// No packet passes from `from` to `to`; those the other way do. heal() ends that, too.
    void block(HostId from, HostId to);
    void heal(HostId a, HostId b);
    /// Breaks every connection between the two hosts, as resets do; new ones can be made. What is
    /// under way is lost, and the ends notice it at different times.
    void reset(HostId a, HostId b);
    /// Ends the host's devices and their endpoints at once, without an orderly close. Their
    /// endpoints return kClosed and report nothing; after a while the host's kernel tells the peers
    /// (Completion::peer_ended).
    void kill(HostId host);
    /// Everything to and from the host takes `factor` times as long.
    void set_slowness(HostId host, double factor);

    /// A hash of everything that has happened, contents of messages included.
    [[nodiscard]] uint64_t trace_hash() const;
    [[nodiscard]] const NetworkCounters& counters() const;

private:
    std::unique_ptr<Core> core_;
};

}  // namespace weir::transport::sim
