// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// VerbsEndpoint: sends and receives messages. It is made of these parts, each in a file of its
/// own:
///
///     VerbsConnectionTable            the connections
///     Meeting, Acceptor, SideChannel  how connections are set up
///     Supplies                        what each connection gets of the shared queues
///     SendQueue, ReceiveQueue         work requests in flight
///     Delivery                        completions on their way to the caller
///     Watcher                         what wakes the endpoint

#include <optional>
#include <vector>

#include "transport/verbs/connection_table.h"
#include "transport/verbs/delivery.h"
#include "transport/verbs/device.h"
#include "transport/verbs/setup/meeting.h"

namespace weir::transport::verbs {

/// Thread: the one that polls it.
class VerbsEndpoint final : public Endpoint, private MeetingHost {
public:
    /// Errors: kAlreadyExists (port in use), kInvalidArgument, kNoMemory, kIo
    [[nodiscard]] static Result<std::unique_ptr<VerbsEndpoint>> make(VerbsDevice& device,
                                                                     const EndpointOptions& options,
                                                                     const SocketAddress& address);

    VerbsEndpoint(const VerbsEndpoint&) = delete;
    VerbsEndpoint& operator=(const VerbsEndpoint&) = delete;
    ~VerbsEndpoint() override;

    [[nodiscard]] std::string address() const override { return meeting_->acceptor().address(); }

    [[nodiscard]] Capabilities capabilities() const override;
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
    void flush() override;
    [[nodiscard]] size_t poll(std::span<Completion> completions) override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] std::string peer_name(ConnectionId connection) const override;

    [[nodiscard]] const EndpointCounters& counters() const noexcept override { return counters_; }

private:
    using State = VerbsConnection::State;

    explicit VerbsEndpoint(VerbsDevice& device) : device_(device), regions_(device.regions()) {}

    Status set_up(const EndpointOptions& options, const SocketAddress& address);

    // MeetingHost: what Meeting reports about connections.
    /// The only function that changes a state. Sets its deadline and all that depends on the
    /// state alone.
    void enter(VerbsConnection& c, State state) override;
    /// Ends a connection that broke, or whose peer broke the rules. Logs `why`.
    void fail(VerbsConnection& c, Errc reason, std::string_view why) override;
    void open(VerbsConnection& c) override;
    void take_bye(VerbsConnection& c, uint64_t messages) override;
    void take_peer_close(VerbsConnection& c) override;

    // Messages and operations: endpoint_send.cc, endpoint_receive.cc.
    [[nodiscard]] VerbsConnection* find_open(ConnectionId id) const noexcept;
    Post post_operation(ConnectionId id, std::span<const std::byte> local, const RemoteSpan& remote,
                        Remainder work);
    void continue_remainder(VerbsConnection& c);
    void update_credits(VerbsConnection& c);
    void flush_later(VerbsConnection& c);
    void take_sent(const ibv_wc& wc);
    void take_failed(VerbsConnection& c, const ibv_wc& wc);
    void take_received(const ibv_wc& wc);
    void take_message(VerbsConnection& c, const ibv_wc& wc, uint32_t buffer);
    void end_operation(VerbsConnection& c, const Operation& operation, Errc status);

    // Polling and sleeping: endpoint_poll.cc.
    bool poll_queue(size_t most);
    void post_returned_buffers();
    void release_drained(size_t count);
    void watch();
    void take_notes();

    // The end of connections: endpoint_close.cc.
    void advance_close(VerbsConnection& c);
    /// Ends an orderly close that cannot be completed any more.
    void cut_short(VerbsConnection& c, std::string_view why);
    /// Takes the queue pair to ERR. kClosed comes when it has given everything back. Like fail(),
    /// it frees nothing: release() does, at the end of a poll.
    void drain(VerbsConnection& c, Errc reason);
    void advance_drain(VerbsConnection& c);
    void give_up_drain(VerbsConnection& c);
    void release(VerbsConnection& c);
    void check_deadlines();
    void close_everything() noexcept;

    VerbsDevice& device_;
    RegionView regions_;
    EndpointCounters counters_;
    EndpointOptions options_;

    // Declared so that they are destroyed in the right order, the last one first.
    DeviceNotes notes_;
    std::optional<Watcher> watcher_;
    std::optional<Supplies> supplies_;
    std::optional<Meeting> meeting_;
    VerbsConnectionTable connections_;
    Delivery delivery_;

    std::vector<VerbsConnection*> flush_list_;  ///< with requests that were not posted yet
    std::vector<ConnectionId> drained_;         ///< to be released at the end of a poll
    std::vector<uint32_t> buffers_to_post_;     ///< used only in post_returned_buffers()
    uint32_t polls_until_watch_ = 0;
    bool hurry_ = false;  ///< the endpoint is being destroyed: do not wait for peers
};

}  // namespace weir::transport::verbs
