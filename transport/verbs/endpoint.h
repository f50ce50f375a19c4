// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// VerbsEndpoint: one completion queue, one shared receive queue, one listening socket, and the
/// connections. Set-up in endpoint_connect.cc and endpoint_accept.cc, the end in endpoint_close.cc,
/// the data path in endpoint_data.cc, polling and sleeping in endpoint_poll.cc.

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "lib/base/descriptor.h"
#include "transport/verbs/capacity.h"
#include "transport/verbs/cm.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/device.h"
#include "transport/verbs/receive_queue.h"

namespace weir::transport::verbs {

/// A received message's buffer, on its way back into the receive queue.
struct Buffer {
    uint32_t number = 0;
    ConnectionId connection = 0;  ///< 0: nobody's
};

/// A completion that found no room in the caller's array.
struct Waiting {
    Completion completion;
    Buffer buffer;
};

/// Thread: the one that polls it.
class VerbsEndpoint final : public Endpoint {
public:
    /// Errors: kAlreadyExists (port in use), kInvalidArgument, kNoMemory, kIo
    [[nodiscard]] static Result<std::unique_ptr<VerbsEndpoint>> make(VerbsDevice& device,
                                                                     const EndpointOptions& options,
                                                                     const SocketAddress& address);

    VerbsEndpoint(const VerbsEndpoint&) = delete;
    VerbsEndpoint& operator=(const VerbsEndpoint&) = delete;
    ~VerbsEndpoint() override;

    [[nodiscard]] std::string address() const override { return address_; }

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
    [[nodiscard]] std::byte* map(ConnectionId connection, const RemoteSpan& span,
                                 Access wanted) override;
    [[nodiscard]] Post signal(ConnectionId connection, uint32_t immediate) override;
    void flush() override;
    [[nodiscard]] size_t poll(std::span<Completion> completions) override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] std::string peer_name(ConnectionId connection) const override;

    [[nodiscard]] const EndpointCounters& counters() const noexcept override { return counters_; }

private:
    explicit VerbsEndpoint(VerbsDevice& device) : device_(device), regions_(device.regions()) {}

    Status set_up(const EndpointOptions& options, const SocketAddress& address);
    Status make_queues();
    Status make_listener(const SocketAddress& address);

    // Names.
    Connection& add_connection(Side side);
    [[nodiscard]] Connection* find(ConnectionId id) const noexcept;
    /// Only if the caller may post on it.
    [[nodiscard]] Connection* find_open(ConnectionId id) const noexcept;
    [[nodiscard]] Connection* find_queue_pair(uint32_t number) const noexcept;

    [[nodiscard]] static uint32_t slot_of(const Connection& c) noexcept {
        return static_cast<uint32_t>(c.id & 0xffff);
    }

    // endpoint_accept.cc
    void accept_all();
    [[nodiscard]] Connection* oldest_stranger() const noexcept;
    [[nodiscard]] uint64_t next_place_ns() const noexcept;
    void show_out_oldest();
    void stop_listening(uint64_t until_ns);
    void listen_again();

    // endpoint_connect.cc: the side channel.
    void dial(Connection& c);
    void dial_again(Connection& c);
    void watch_socket(Connection& c, bool wants_output);
    /// Reads and writes the socket and does what the handshake says.
    void serve_socket(Connection& c);
    void send_output(Connection& c);
    void take_hang_up(Connection& c);
    void advance_handshake(Connection& c);
    Status take_step(Connection& c, Handshake::Step step);
    Status make_claim(Connection& c);
    Status check_peer(const Connection& c) const;
    Status take_proof(Connection& c);
    Status bring_up_queue_pair(Connection& c);
    void note_up(Connection& c);
    void become_open(Connection& c);
    void refuse(Connection& c, const Error& error);

    // endpoint_cm.cc: queue pairs by librdmacm.
    Status need_cm();
    Status ask_for_cm(Connection& c);
    Status offer_cm(Connection& c);
    [[nodiscard]] CmEnds cm_ends(const Connection& c) const;
    Status begin_cm(Connection& c);
    void take_cm_events();
    void take_cm_request(const CmEvent& event);

    // endpoint_close.cc
    void advance_close(Connection& c);
    /// Ends a connection that broke, or was broken by its peer. As drain(), it frees nothing yet:
    /// that is release()'s, at the end of a poll.
    void fail(Connection& c, Errc reason, std::string_view why);
    /// Takes the queue pair down; kClosed comes when it has given everything back.
    void drain(Connection& c, Errc reason);
    void advance_drain(Connection& c);
    void note_drained(Connection& c);
    void release(ConnectionId id);
    void set_deadline(Connection& c, uint64_t after_ms);
    void clear_deadline(Connection& c);
    void check_deadlines();
    void close_everything() noexcept;

    // endpoint_data.cc
    /// What read, write and write_immediate have in common; `work` comes with opcode, event,
    /// context and immediate.
    Post post_operation(ConnectionId id, std::span<const std::byte> local, const RemoteSpan& remote,
                        Remainder work);
    void continue_remainder(Connection& c);
    void update_credits(Connection& c);
    void mark_dirty(Connection& c);
    void take_completion(const ibv_wc& wc);
    void take_sent(const ibv_wc& wc);
    void take_received(const ibv_wc& wc);
    void take_message(Connection& c, const ibv_wc& wc, uint32_t buffer);
    void end_operation(Connection& c, const Operation& operation, Errc status);

    // endpoint_poll.cc
    void emit(const Completion& completion, const Buffer& buffer = {});
    void give_back_buffers();
    /// Takes completions, `most` at most; true if there was no more.
    bool poll_queue(size_t most);
    void watch();
    void take_notes();
    void set_timer();

    VerbsDevice& device_;
    RegionView regions_;
    EndpointCounters counters_;
    EndpointOptions options_;
    std::string address_;

    // Declared in the order in which they may go, last first.
    Mailbox mailbox_;
    Descriptor epoll_;
    Descriptor timer_;
    Descriptor listener_;
    ChannelPtr channel_;
    CqPtr cq_;
    std::optional<ReceiveQueue> receives_;
    std::optional<Capacity> capacity_;
    std::unique_ptr<CmAgent> cm_;               ///< only if somebody wants it
    std::vector<RegisteredPages> spare_rings_;  ///< of connections that are gone

    std::vector<std::unique_ptr<Connection>> slots_;  ///< by the lower 16 bits of the id
    std::vector<uint16_t> free_slots_;
    std::unordered_map<uint32_t, Connection*> queue_pairs_;
    mutable Connection* last_found_ = nullptr;  ///< the queue pair that was looked for last
    uint64_t last_serial_ = 0;
    uint32_t connection_count_ = 0;
    uint32_t granted_ = 0;    ///< sum of the windows of all connections
    uint32_t half_open_ = 0;  ///< accepted, but not proven and open yet
    uint32_t deadlines_ = 0;  ///< connections that have one
    bool listening_ = true;
    uint64_t accept_again_ns_ = 0;  ///< 0, or when to listen again
    bool hurry_ = false;            ///< the endpoint goes: no waiting for peers

    std::vector<Connection*> dirty_;
    std::vector<ConnectionId> draining_;  ///< their beacon came; to be released once all is polled
    std::vector<Buffer> lent_;            ///< received buffers that the caller looks at
    std::vector<Buffer> returning_;       ///< received buffers, to be posted again
    std::vector<uint32_t> to_post_;       ///< only in give_back_buffers()
    std::deque<Waiting> waiting_;
    std::span<Completion> out_;  ///< the caller's array, during poll()
    size_t out_count_ = 0;
    uint32_t polls_until_watch_ = 0;
};

}  // namespace weir::transport::verbs
