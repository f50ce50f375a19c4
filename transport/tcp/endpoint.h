// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TcpEndpoint: connections over TCP. Its way is split by files:
///
///     endpoint_meeting.cc   connecting, and the handshake
///     endpoint.cc           what the caller posts, and poll()
///     endpoint_send.cc      from the output to the socket
///     endpoint_receive.cc   from the socket to messages and memory
///     endpoint_close.cc     how connections end

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/net/acceptor.h"
#include "transport/net/watcher.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/device.h"

namespace weir::transport::tcp {

/// Thread: the one that polls it.
class TcpEndpoint final : public Endpoint, private AcceptorHost {
public:
    [[nodiscard]] static Result<std::unique_ptr<TcpEndpoint>> make(TcpDevice& device,
                                                                   const EndpointOptions& options,
                                                                   const SocketAddress& address);
    TcpEndpoint(const TcpEndpoint&) = delete;
    TcpEndpoint& operator=(const TcpEndpoint&) = delete;
    /// What was posted still arrives, if that takes no longer than a second.
    ~TcpEndpoint() override;

    [[nodiscard]] std::string address() const override { return acceptor_.address(); }

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
    using State = TcpConnection::State;

    TcpEndpoint(TcpDevice& device, const EndpointOptions& options, Watcher watcher);

    [[nodiscard]] TcpConnection* find(ConnectionId id) const noexcept;
    [[nodiscard]] TcpConnection* find_open(ConnectionId id) const noexcept;
    TcpConnection& add(Side side);
    [[nodiscard]] Post post_write(ConnectionId id, std::span<const std::byte> from, Frame frame,
                                  uint64_t context);
    [[nodiscard]] size_t output_bytes_max() const noexcept;
    void flush_later(TcpConnection& c);
    void watch_sockets();
    void serve(TcpConnection& c);
    void add_completion(const TcpConnection& c, Event event, Errc status = Errc::kOk,
                        uint64_t context = 0);

    /// Whether another message or immediate may be delivered in this poll.
    [[nodiscard]] bool can_deliver() const noexcept { return delivery_.size() < room_; }

    // endpoint_meeting.cc
    [[nodiscard]] bool has_room() const override;
    [[nodiscard]] uint64_t adopt(Descriptor socket) override;
    void evict(uint64_t id) override;
    void dial(TcpConnection& c);
    void meet(TcpConnection& c);
    void take_records(TcpConnection& c);
    [[nodiscard]] Status take_step(TcpConnection& c, Handshake::Step step);
    [[nodiscard]] Status check_peer(TcpConnection& c);
    void send_payload(TcpConnection& c);
    void open(TcpConnection& c);
    void dial_again(TcpConnection& c);

    // endpoint_send.cc
    static void add_written(TcpConnection& c);
    void send_output(TcpConnection& c);
    void send_handshake(TcpConnection& c);
    void set_blocked(TcpConnection& c, bool blocked);

    // endpoint_receive.cc
    void receive(TcpConnection& c);
    [[nodiscard]] Socket::Got receive_some(TcpConnection& c, size_t& count, size_t& wanted);
    void use_input(TcpConnection& c);
    [[nodiscard]] Result<bool> use_next(TcpConnection& c);
    [[nodiscard]] Status take_frame(TcpConnection& c, const Frame& frame);
    [[nodiscard]] Status take_message(TcpConnection& c, uint32_t length_bytes);
    [[nodiscard]] Status take_data(TcpConnection& c);
    [[nodiscard]] Status begin_write(TcpConnection& c, const Frame& frame);
    [[nodiscard]] Status begin_read_data(TcpConnection& c);
    [[nodiscard]] Status answer_read(TcpConnection& c, const Frame& frame);
    [[nodiscard]] Status end_writes(TcpConnection& c, uint32_t count);
    void keep_unused(TcpConnection& c);

    // endpoint_close.cc
    void enter(TcpConnection& c, State state);
    void advance_close(TcpConnection& c);
    void take_bye(TcpConnection& c);
    void take_end(TcpConnection& c);
    void fail(TcpConnection& c, Errc reason, std::string_view why);
    void end(TcpConnection& c, Errc reason);
    void release_ended();
    void check_deadlines();
    void close_everything() noexcept;

    TcpDevice& device_;
    EndpointOptions options_;
    RegionView regions_;
    Watcher watcher_;
    Acceptor acceptor_;
    ConnectionId last_id_;
    std::unordered_map<ConnectionId, std::unique_ptr<TcpConnection>> connections_;
    std::vector<TcpConnection*> flush_list_;  ///< those with output
    std::vector<ConnectionId> lending_;  ///< their input holds messages that the caller may read
    std::vector<ConnectionId> busy_;     ///< see kBusyConnectionsMost
    std::vector<ConnectionId> unused_;   ///< their input was not used up for lack of room
    std::vector<ConnectionId> ended_;
    std::deque<Completion> delivery_;  ///< on the way to the caller
    size_t room_ = 0;                  ///< of the caller's array
    uint32_t polls_until_watch_ = 0;   ///< while there is no connection
    uint32_t busy_polls_ = 0;          ///< since all sockets were asked
    uint32_t deadlines_ = 0;           ///< connections that have one
    bool hurry_ = false;               ///< the endpoint is being destroyed
    EndpointCounters counters_;
};

}  // namespace weir::transport::tcp
