// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShmEndpoint. Its functions are in six files: endpoint.cc (the data path: send, flush, poll,
/// arm), endpoint_connect.cc, endpoint_accept.cc and endpoint_close.cc (connections begin and
/// end), endpoint_state.cc (their states) and endpoint_memory.cc (expose, read, write, map).

#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"
#include "transport/shm/connection.h"
#include "transport/shm/device.h"

namespace weir::transport::shm {

/// Completions of the endpoint's own operations and connections, in order. Allocates only when it
/// grows.
class CompletionQueue {
public:
    [[nodiscard]] bool empty() const noexcept { return next_ == waiting_.size(); }

    /// Returns the completion's place, for at(), which is valid until the next pop().
    size_t push(const Completion& completion) {
        waiting_.push_back(completion);
        return waiting_.size() - 1;
    }

    [[nodiscard]] Completion& at(size_t place) noexcept { return waiting_[place]; }

    Completion pop() noexcept {
        const Completion first = waiting_[next_++];
        if (next_ == waiting_.size()) {
            waiting_.clear();
            next_ = 0;
        }
        return first;
    }

private:
    std::vector<Completion> waiting_;
    size_t next_ = 0;
};

/// Thread: the one that polls it.
class ShmEndpoint final : public Endpoint {
public:
    /// Errors: kIo, kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<Endpoint>> make(ShmDevice& device,
                                                                const EndpointOptions& options);
    ShmEndpoint(const ShmEndpoint&) = delete;
    ShmEndpoint& operator=(const ShmEndpoint&) = delete;
    ShmEndpoint(ShmEndpoint&&) = delete;
    ShmEndpoint& operator=(ShmEndpoint&&) = delete;
    ~ShmEndpoint() override;

    [[nodiscard]] std::string address() const override;
    [[nodiscard]] Capabilities capabilities() const override;
    [[nodiscard]] Result<ConnectionId> connect(std::string_view address) override;
    void close(ConnectionId id) override;
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
    [[nodiscard]] Post signal(ConnectionId id, uint32_t immediate) override;
    void flush() override;
    [[nodiscard]] size_t poll(std::span<Completion> completions) override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] std::string peer_name(ConnectionId id) const override;

    [[nodiscard]] const EndpointCounters& counters() const noexcept override { return counters_; }

private:
    // Tags of epoll events that are not a connection's; a ConnectionId is never that small.
    static constexpr uint64_t kListenerTag = 0;
    static constexpr uint64_t kBellTag = 1;
    static constexpr uint64_t kTimerTag = 2;
    static constexpr uint64_t kProcessTag = uint64_t{1} << 63;  ///< with an id: its peer ended

    /// The descriptors that every endpoint has.
    struct Descriptors {
        /// Makes epoll report when `fd` is readable. False: it failed; see errno.
        [[nodiscard]] bool watch(int fd, uint64_t tag) const;

        Descriptor epoll;
        Descriptor listener;
        Descriptor timer;
        std::shared_ptr<const Doorbell> bell;
    };

    /// A ring that every poll looks into. Apart from Connection, so that the scan stays compact.
    struct Watch {
        uint64_t* word = nullptr;
        Connection* connection = nullptr;
    };

    /// What a RemoteSpan stands for.
    struct Reach {
        Errc status = Errc::kOk;
        std::byte* mapped = nullptr;  ///< nullptr: only the kernel can copy it
        uint64_t far_address = 0;
    };

    ShmEndpoint(ShmDevice& device, const EndpointOptions& options, std::string name,
                Descriptors descriptors);

    [[nodiscard]] Connection* find(ConnectionId id) const noexcept;
    [[nodiscard]] Connection* find_open(ConnectionId id) const noexcept;

    // endpoint.cc
    void begin_turn();
    void mark_dirty(Connection& connection);
    void wake(const Connection& connection);
    [[nodiscard]] size_t take_local(std::span<Completion> completions);
    [[nodiscard]] size_t take_remote(std::span<Completion> completions);
    [[nodiscard]] size_t take_from(Connection& connection, std::span<Completion> completions);
    [[nodiscard]] bool take_record(Connection& connection, const Record& record,
                                   Completion& completion);
    [[nodiscard]] Post no_room(Connection& connection);
    [[nodiscard]] Post post_immediate(Connection& connection, uint32_t immediate);
    void set_timer();

    // endpoint_connect.cc
    void look();
    void look_at(uint64_t tag);
    void check_deadlines();
    void dial(Connection& connection);
    void dial_again(Connection& connection);
    void offer(Connection& connection, Mailbox& mailbox);
    void shake(Connection& connection);
    void opened(Connection& connection);
    [[nodiscard]] Connection& add_connection(Side side, State state);
    void watch(Connection& connection);

    // endpoint_accept.cc
    void accept_links();
    void accept_sockets();
    [[nodiscard]] Connection* oldest_stranger() const noexcept;
    [[nodiscard]] uint64_t next_place_ns() const noexcept;
    void show_out_oldest();
    void leave_place();
    void stop_listening(uint64_t until_ns);
    void listen_again();

    // endpoint_state.cc
    void enter(Connection& connection, State state);
    void leave(const Connection& connection);

    // endpoint_close.cc
    void end(Connection& connection, Errc status);
    void let_go(const Connection& connection) const;
    void check_closing();
    void discard_packets(Connection& connection);
    void unwatch(Connection& connection);
    void begin_draining(Connection& connection);
    void unwatch_peer(const Connection& connection) const;
    void refuse(Connection& connection, const Error& error);
    void say_goodbye(Connection& connection);
    void finish(Connection& connection, Errc status);

    // endpoint_memory.cc
    void drain_socket(Connection& connection);
    [[nodiscard]] Status take_packet(Connection& connection, const Packet& packet);
    [[nodiscard]] const RegionSnapshot& regions();
    [[nodiscard]] bool is_registered(std::span<const std::byte> memory);
    [[nodiscard]] Reach reach(Connection*& connection, const RemoteSpan& span, Access wanted);
    [[nodiscard]] Reach reach_direct(const RemoteSpan& span, Access wanted);
    [[nodiscard]] Errc copy_in(Connection* connection, std::span<std::byte> into,
                               const RemoteSpan& from);
    [[nodiscard]] Errc copy_out(Connection* connection, std::span<const std::byte> from,
                                const RemoteSpan& to);
    [[nodiscard]] Post may_post(const Connection* connection, std::span<const std::byte> memory,
                                const RemoteSpan& span);
    [[nodiscard]] size_t begin_operation(Connection& connection, Event event, uint64_t context);
    [[nodiscard]] Status announce(Connection& connection, const Region& region);
    void hold_regions() noexcept;
    void release_regions() noexcept;

    ShmDevice& device_;
    const EndpointOptions options_;
    const std::string name_;
    const Descriptors descriptors_;
    const std::shared_ptr<Mailbox> mailbox_;
    const std::shared_ptr<Quiescence::Reader> reader_;
    const Self self_;
    SteadyClock clock_;
    RepeatedLog strangers_log_{clock_};
    EndpointCounters counters_;

    std::vector<std::unique_ptr<Connection>> slots_;
    std::vector<uint32_t> free_slots_;
    uint64_t serial_ = 0;
    uint64_t polls_ = 0;
    std::vector<Watch> watched_;
    size_t next_watch_ = 0;
    std::vector<Connection*> dirty_;
    std::vector<Connection*> lent_;
    CompletionQueue local_;

    size_t connections_ = 0;  ///< in slots_
    size_t coming_ = 0;       ///< of connections_, those that are not open yet
    size_t half_open_ = 0;    ///< of coming_, those that the peer began
    size_t draining_ = 0;     ///< connections in State::kDraining
    std::vector<Connection*> closing_;
    uint64_t listen_again_ns_ = 0;  ///< when the listener is watched again; 0: it is watched now
    uint32_t look_in_ = 0;          ///< polls until the next look at the sockets
    uint64_t looks_ = 0;
    bool armed_ = false;
    bool turned_away_ = false;  ///< no room for a post (kNotNow) since the last arm()

    std::shared_ptr<const RegionSnapshot> regions_;
    uint64_t regions_generation_ = 0;
    const Region* last_region_ = nullptr;  ///< in regions_
    bool mapped_ = false;                  ///< map() gave out addresses since the last poll()
    bool retired_ = false;                 ///< a connection's peer_regions has mappings to drop

    /// Memory of connections that are gone, to which completions or map() may still point.
    std::vector<Mapping> graveyard_;
    std::vector<std::shared_ptr<DirectLink>> link_graveyard_;
};

}  // namespace weir::transport::shm
