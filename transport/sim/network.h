// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Network: a seeded network on simulated time. Its devices behave like reliable connected queue
/// pairs between hosts: order within a connection, none between connections, and a connection that
/// breaks at its two ends at different times. Same seed and same calls, same history.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/clock.h"
#include "transport/transport.h"

namespace weir::transport::sim {

class Core;

/// Names a simulated host; any number, chosen by whoever makes devices.
using HostId = uint32_t;

struct Options {
    std::string name = "sim";  ///< of its devices, and what addresses begin with
    uint64_t delay_ns_min = 1 * kMicrosecond;
    uint64_t delay_ns_max = 20 * kMicrosecond;  ///< each packet's is drawn anew
    /// What one host sends per second; 0 is without limit.
    uint64_t bytes_per_s = 10'000'000'000;
    double loss = 0;  ///< probability that one try of one packet is lost
    uint64_t retry_ns = 200 * kMicrosecond;
    uint32_t tries_max = 7;  ///< after so many lost tries of one packet the connection breaks
    /// How long a dead or unreachable peer stays unnoticed where nothing is sent.
    uint64_t silence_ns = 50 * kMillisecond;
    /// Bulk is moved so much at a time, with time in between: who looks too early sees it torn.
    size_t step_bytes = 4096;
    bool maps_memory = false;  ///< like shm: Endpoint::map works
    uint32_t operations_max = 64;
};

struct NetworkCounters {
    uint64_t events = 0;
    uint64_t packets = 0;
    uint64_t tries_lost = 0;
    uint64_t connections_broken = 0;
};

/// Outlives its devices. Thread: one, the same as all of its endpoints'.
class Network {
public:
    /// Moves `clock` on as events happen; others may read it, nobody else may set it.
    Network(uint64_t seed, ManualClock& clock, const Options& options = {});
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;
    Network(Network&&) = delete;
    Network& operator=(Network&&) = delete;
    ~Network();

    /// A device of that host. After kill() the host may start again with a new one.
    [[nodiscard]] std::unique_ptr<Device> make_device(HostId host);

    /// When the next thing happens, if anything is under way.
    [[nodiscard]] std::optional<uint64_t> next_event_ns() const;
    /// Moves the clock to the next event and lets it happen. False if there is none.
    bool step();
    /// Lets everything happen up to `now_ns`, and sets the clock there.
    void advance_to(uint64_t now_ns);

    /// Nothing passes between the two any more; what is under way is tried again and again.
    void partition(HostId a, HostId b);
    void heal(HostId a, HostId b);
    /// Everything that the host's devices have made is gone at once, without a goodbye: endpoints
    /// answer kClosed and report nothing, peers notice after a while.
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
