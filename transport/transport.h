// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The interface of every transport. A Device registers memory and makes Endpoints. An Endpoint
/// belongs to one thread, has Connections to other endpoints, and moves messages and memory over
/// them.
///
/// The contract, which tests/transport/conformance checks for every backend:
///  - Messages of one connection arrive complete, once and in the order in which they were sent,
///    or the connection is closed. There is no order between connections.
///  - Each read and write that was posted ends with exactly one completion. When a connection
///    breaks, those that are still open end with an error; then kClosed comes, last and once.
///  - Everything may be posted in any order, in both directions at once. A read returns what was
///    written before it on the same connection, and what was written is there when a message or
///    immediate that was sent behind it arrives. A write that is posted while a read is open may
///    overtake it.
///  - An operation's local memory stays registered until it has ended. The peer's may be
///    deregistered at any time: the operation then ends with an error, as the connection may.
///    Memory that is registered again has another key.
///  - Nothing blocks. An operation that cannot be taken now returns kNotNow and may be tried
///    again after poll().
///  - What a peer does wrong (malformed messages, false lengths, death) closes its connection and
///    affects nothing else.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::transport {

/// Identifies a connection of one endpoint; never reused while the endpoint lives.
using ConnectionId = uint64_t;

/// What peers may do with registered memory. The owner may use it in any case.
enum class Access : uint8_t {
    kLocal = 0,        ///< nothing: only source or target of the owner's own operations
    kRemoteRead = 1,   ///< peers may read
    kRemoteWrite = 2,  ///< peers may write
    kRemote = 3,       ///< both
};

[[nodiscard]] constexpr bool allows(Access have, Access wanted) noexcept {
    return (static_cast<uint8_t>(have) & static_cast<uint8_t>(wanted)) ==
           static_cast<uint8_t>(wanted);
}

/// Memory to be registered. `fd` is the memfd behind it, which shm maps into a peer, or -1.
struct MemoryBlock {
    std::span<std::byte> bytes;
    int fd = -1;
    uint64_t fd_offset = 0;
};

/// Identifies a registration of one device.
using RegionId = uint64_t;

/// What a peer needs to reach a piece of registered memory; travels in messages as it is. Valid
/// only on the connection for which Endpoint::expose() made it. Do not trust one that a peer
/// sent.
struct RemoteSpan {
    uint64_t address = 0;
    uint64_t length_bytes = 0;
    uint64_t key = 0;
};

static_assert(sizeof(RemoteSpan) == 24);

/// What a backend can do by itself, without emulation.
struct Capabilities {
    bool maps_memory = false;  ///< Endpoint::map() works: peers' memory has addresses here
    bool reaches_other_hosts = false;
    uint32_t message_bytes_max = 0;  ///< longest message that send() takes
    uint32_t operations_max = 0;     ///< reads and writes in flight per connection
    /// Up to so many bytes, a copy inside of a message costs less than a read or write.
    uint32_t copied_bytes_max = 256;
    /// flush() calls the kernel, so messages that leave together cost less than one by one.
    bool flush_is_a_call = false;
};

enum class Event : uint8_t {
    kConnected,  ///< a connect() of ours has succeeded
    kAccepted,   ///< a peer that knows the job secret has connected to us
    kReceived,   ///< a message has arrived: `message`
    kImmediate,  ///< a peer's write_immediate() has arrived whole: `immediate`
    kRead,       ///< our read ended: `context`, `status`
    kWritten,    ///< our write or write_immediate ended locally: its source may be reused
    kClosed,     ///< the connection has ended; `status` says why (kOk: closed in order)
};

struct Completion {
    Event event = Event::kClosed;
    Errc status = Errc::kOk;
    /// kClosed: the peer did not give up our memory in time. It may still read or write what was
    /// exposed on this connection, so do not use that memory for anything else.
    bool memory_in_doubt = false;
    /// kClosed: the peer closed the connection in order, or the kernel of its host says that the
    /// peer's process has ended, or that nobody listens any more where it did. On a connection that
    /// a living process never closes this proves the death of the process. False if the connection
    /// broke (a reset, a timeout): that says nothing about the peer.
    bool peer_ended = false;
    uint32_t immediate = 0;
    ConnectionId connection = 0;
    uint64_t context = 0;
    /// kReceived: the message, 8-byte aligned. Valid until the next poll() of this endpoint. May
    /// lie in memory that the peer can still change: read every field once.
    std::span<const std::byte> message;
};

/// The answer to posting something.
enum class Post : uint8_t {
    kPosted,   ///< taken; a read or write ends with a completion
    kNotNow,   ///< no room; nothing was posted; poll() and try again
    kClosed,   ///< no such connection (any more); nothing was posted
    kInvalid,  ///< local memory not registered, message too long: an error of the caller
};

/// Counts since the endpoint was made. Thread: the endpoint's own writes them.
struct EndpointCounters {
    uint64_t messages_sent = 0;
    uint64_t messages_received = 0;
    uint64_t bytes_sent = 0;  ///< messages, and what this side moved by read and write
    uint64_t bytes_received = 0;
    uint64_t reads = 0;
    uint64_t writes = 0;
    uint64_t bytes_staged = 0;  ///< bulk bytes that were copied through a buffer on the way
    uint64_t doorbells = 0;     ///< times that hardware or a sleeping peer was notified
    uint64_t refused = 0;       ///< connections closed because of what the peer sent
};

/// Thread: the one that polls it, from the first poll on. Destroying it closes every connection.
class Endpoint {
public:
    virtual ~Endpoint() = default;
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    /// The address that peers connect to, as text without spaces: "shm:...",
    /// "verbs:10.0.0.1:4711", "sim:3".
    [[nodiscard]] virtual std::string address() const = 0;
    /// What every connection of this endpoint can do.
    [[nodiscard]] virtual Capabilities capabilities() const = 0;

    /// What this connection can do; more than capabilities() where an endpoint combines backends.
    [[nodiscard]] virtual Capabilities capabilities_of(ConnectionId /*connection*/) const {
        return capabilities();
    }

    /// Starts to connect; ends with kConnected, or with kClosed and a reason. The peer may have
    /// several transports: of its addresses, joined by ';', this backend takes its own.
    /// Errors:  kUnavailable if this backend can never reach such an address; kInvalidArgument
    [[nodiscard]] virtual Result<ConnectionId> connect(std::string_view address) = 0;
    /// Ends a connection. Posted operations end first (with kCancelled if need be), then comes
    /// kClosed; messages sent before still arrive. kClosed comes once the peer can no longer
    /// reach the memory that was exposed on the connection, or after a bounded time: see
    /// Completion::memory_in_doubt. If the endpoint is destroyed before kClosed, the peer may
    /// still reach that memory.
    virtual void close(ConnectionId connection) = 0;

    /// As close(), of a peer that others have replaced, and that must not write to our memory any
    /// more. Where nobody but the peer can keep it from that (shm maps the memory there) and it does
    /// not give up the memory in time, its process is ended, by SIGKILL.
    virtual void cut_off(ConnectionId connection) { close(connection); }

    /// Sends one message made of the parts in order; the parts may be reused at once. The message
    /// may wait here until flush() or poll().
    [[nodiscard]] virtual Post send(ConnectionId connection,
                                    std::span<const std::span<const std::byte>> parts) = 0;

    /// Describes registered memory for the peer of this connection; send it the result.
    /// Errors:  kInvalidArgument if not registered, kRefused if registered as kLocal, kPeerLost
    [[nodiscard]] virtual Result<RemoteSpan> expose(ConnectionId connection,
                                                    std::span<const std::byte> memory) = 0;
    /// Reads the peer's memory into registered memory of ours; from.length_bytes == into.size().
    /// Ends with kRead.
    [[nodiscard]] virtual Post read(ConnectionId connection, std::span<std::byte> into,
                                    const RemoteSpan& from, uint64_t context) = 0;
    /// Writes registered memory of ours into the peer's. Ends with kWritten.
    [[nodiscard]] virtual Post write(ConnectionId connection, std::span<const std::byte> from,
                                     const RemoteSpan& to, uint64_t context) = 0;
    /// As write(); the peer gets kImmediate once all of the data is there, in order with our
    /// messages.
    [[nodiscard]] virtual Post write_immediate(ConnectionId connection,
                                               std::span<const std::byte> from,
                                               const RemoteSpan& to, uint32_t immediate,
                                               uint64_t context) = 0;

    /// The peer's memory as an address in this process. nullptr if the backend cannot map (see
    /// Capabilities::maps_memory) or `span` is not wholly inside of a region that allows
    /// `wanted`. Valid until the next poll() or close(). The peer can change the memory at any
    /// time: read every byte once. A peer that takes a message or an immediate of ours sees all
    /// that was written here before it was sent.
    [[nodiscard]] virtual std::byte* map(ConnectionId /*connection*/, const RemoteSpan& /*span*/,
                                         Access /*wanted*/) {
        return nullptr;
    }

    /// Makes everything posted so far visible to peers and rings the doorbells. poll() does it
    /// too.
    virtual void flush() = 0;
    /// Stores at most completions.size() completions and returns their number; never blocks.
    /// Frees the memory of all messages that the last poll() delivered.
    [[nodiscard]] virtual size_t poll(std::span<Completion> completions) = 0;

    /// A descriptor to sleep on, which becomes readable when poll() has something to do. -1: do
    /// not sleep, poll again. One arm() serves one sleep. The descriptor stays the same.
    [[nodiscard]] virtual int arm() = 0;

    /// The peer's name for people ("pid 4711 on this host", "10.0.0.1:4711").
    [[nodiscard]] virtual std::string peer_name(ConnectionId connection) const = 0;
    [[nodiscard]] virtual const EndpointCounters& counters() const noexcept = 0;

protected:
    Endpoint() = default;
};

struct EndpointOptions {
    uint32_t message_bytes_max = 8192;  ///< wanted; capabilities() has what was granted
    uint32_t messages_in_flight = 128;  ///< per connection and direction
    uint32_t connections_max = 4096;
};

/// One way to move bytes. Thread: any. Must outlive its endpoints and registrations.
class Device {
public:
    virtual ~Device() = default;
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    /// "shm", "verbs" or "sim".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;
    /// Whether registering memory locks all of its pages, so that the machine must have all of
    /// that memory. If not, only the pages in use take memory.
    [[nodiscard]] virtual bool pins_memory() const noexcept = 0;
    /// Registers memory for all endpoints of this device; it must stay mapped until deregistered.
    /// Errors:  kNoMemory (locked-memory limit; the text has the ulimit to set)
    [[nodiscard]] virtual Result<RegionId> register_memory(const MemoryBlock& block,
                                                           Access access) = 0;
    /// Ends a registration. Peers can no longer reach the memory: their operations fail.
    virtual void deregister_memory(RegionId region) = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) = 0;

protected:
    Device() = default;
};

}  // namespace weir::transport
