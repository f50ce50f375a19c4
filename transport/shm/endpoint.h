// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShmEndpoint: moves messages and memory. It is made of these parts, each in a file of its own:
///
///     ShmConnectionTable               the connections
///     ConnectionSetup, HalfOpenPlaces  how connections are set up
///     RingPoller                       which rings have records, and which are to be shown
///     LocalRegions, PeerRegions        registered memory, ours and the peers'
///     CompletionQueue                  completions on their way to the caller
///     Watcher                          what wakes the endpoint
///
/// Its own functions are in endpoint.cc (the data path: send, flush, poll, arm),
/// endpoint_watch.cc (sockets and clocks), endpoint_close.cc (states, and how connections end)
/// and endpoint_memory.cc (expose, read, write, map).

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "transport/net/watcher.h"
#include "transport/shm/completion_queue.h"
#include "transport/shm/connection_setup.h"
#include "transport/shm/connection_table.h"
#include "transport/shm/device.h"
#include "transport/shm/memory/local_regions.h"
#include "transport/shm/ring_poller.h"

namespace weir::transport::shm {

/// Thread: the one that polls it.
class ShmEndpoint final : public Endpoint, private SetupHost {
public:
    /// Errors: kIo, kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<Endpoint>> make(ShmDevice& device,
                                                                const EndpointOptions& options);
    ShmEndpoint(const ShmEndpoint&) = delete;
    ShmEndpoint& operator=(const ShmEndpoint&) = delete;
    ~ShmEndpoint() override;

    [[nodiscard]] std::string address() const override { return setup_->address(); }

    [[nodiscard]] Capabilities capabilities() const override;

    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override {
        return setup_->connect(address);
    }

    void close(ConnectionId id) override;
    void cut_off(ConnectionId id) override;
    [[nodiscard]] Post send(ConnectionId id,
                            std::span<const std::span<const std::byte>> parts) override;
    [[nodiscard]] Result<RemoteSpan> expose(ConnectionId id,
                                            std::span<const std::byte> memory) override;
    [[nodiscard]] Post read(ConnectionId id, std::span<std::byte> into, const RemoteSpan& from,
                            uint64_t context) override;
    [[nodiscard]] Post write(ConnectionId id, std::span<const std::byte> from, const RemoteSpan& to,
                             uint64_t context) override;
    [[nodiscard]] Post write_immediate(ConnectionId id, std::span<const std::byte> from,
                                       const RemoteSpan& to, uint32_t immediate,
                                       uint64_t context) override;
    [[nodiscard]] std::byte* map(ConnectionId id, const RemoteSpan& span, Access wanted) override;
    void flush() override;
    [[nodiscard]] size_t poll(std::span<Completion> completions) override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] std::string peer_name(ConnectionId id) const override;

    [[nodiscard]] const EndpointCounters& counters() const noexcept override { return counters_; }

private:
    using State = ShmConnection::State;

    /// What a RemoteSpan stands for.
    struct Reach {
        Errc status = Errc::kOk;
        std::byte* mapped = nullptr;  ///< nullptr: only the kernel can copy it
        uint64_t far_address = 0;
    };

    ShmEndpoint(ShmDevice& device, const EndpointOptions& options, Doorbell bell, Watcher watcher);

    // SetupHost: what ConnectionSetup reports about connections.
    /// The only function that changes a state. Sets its deadline and all that depends on the
    /// state alone.
    void enter(ShmConnection& c, State state) override;
    void open(ShmConnection& c) override;
    void refuse(ShmConnection& c, const Error& error) override;
    void finish(ShmConnection& c, Errc status) override;

    // endpoint.cc
    void begin_turn();
    void wake(const ShmConnection& c);
    [[nodiscard]] size_t take_own(std::span<Completion> completions);
    [[nodiscard]] size_t take_from(ShmConnection& c, std::span<Completion> completions);
    [[nodiscard]] bool take_record(ShmConnection& c, const Record& record, Completion& completion);
    [[nodiscard]] Post no_room(ShmConnection& c);
    [[nodiscard]] Post post_immediate(ShmConnection& c, uint32_t immediate);

    // endpoint_watch.cc
    void watch();
    void handle_ready(uint64_t name);
    void handle_ready_connection(ConnectionId id);
    void handle_ended_process(int process);
    void set_alarm();
    void drain_socket(ShmConnection& c);
    [[nodiscard]] Status take_packet(ShmConnection& c, const Packet& packet);
    void discard_packets(ShmConnection& c);

    // endpoint_close.cc
    void end(ShmConnection& c, Errc status);
    void release_peer_memory(const ShmConnection& c) const;
    void check_closing();
    [[nodiscard]] bool end_process(ShmConnection& c);
    void begin_draining(ShmConnection& c);
    void unwatch_peer(const ShmConnection& c);
    void send_close(ShmConnection& c, Errc reason);

    // endpoint_memory.cc
    [[nodiscard]] Reach reach(ShmConnection*& c, const RemoteSpan& span, Access wanted);
    [[nodiscard]] Reach reach_direct(const RemoteSpan& span, Access wanted);
    [[nodiscard]] Errc copy_in(ShmConnection* c, std::span<std::byte> into, const RemoteSpan& from);
    [[nodiscard]] Errc copy_out(ShmConnection* c, std::span<const std::byte> from,
                                const RemoteSpan& to);
    [[nodiscard]] Post may_post(const ShmConnection* c, std::span<const std::byte> memory,
                                const RemoteSpan& span);
    [[nodiscard]] size_t begin_operation(ShmConnection& c, Event event, uint64_t context);
    [[nodiscard]] Status announce(ShmConnection& c, const ShmRegion& region);

    ShmDevice& device_;
    const EndpointOptions options_;
    const std::shared_ptr<const Doorbell> bell_;
    SteadyClock clock_;
    EndpointCounters counters_;

    Watcher watcher_;
    ShmConnectionTable connections_;
    RingPoller rings_;
    LocalRegions regions_;
    CompletionQueue own_;  ///< completions of our own operations, and of connections
    std::optional<ConnectionSetup> setup_;

    uint64_t polls_ = 0;
    uint32_t polls_until_watch_ = 0;  ///< polls until the next watch()
    uint64_t watches_ = 0;
    bool armed_ = false;
    bool post_refused_ = false;  ///< no room for a post (kNotNow) since the last arm()
    bool retired_ = false;       ///< a connection's peer_regions has mappings to drop

    /// Memory of removed connections, to which completions or map() may still point.
    std::vector<Mapping> released_memory_;
    std::vector<std::shared_ptr<DirectLink>> released_links_;
};

}  // namespace weir::transport::shm
