// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RawPeer: a peer that knows the job's secret but breaks the protocol: it posts to a queue pair
/// of its own without flow control.

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include <doctest/doctest.h>
#include <poll.h>

#include "lib/base/clock.h"
#include "tests/wait_until.h"
#include "transport/net/socket.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/setup/handshake.h"

namespace weir::transport::verbs::testing {

class RawPeer {
public:
    static constexpr uint32_t kSendDepth = 1024;
    static constexpr size_t kMemoryBytes = 4096;

    /// `hardware` outlives it.
    explicit RawPeer(const Hardware& hardware) : hardware_(hardware), memory_(kMemoryBytes) {
        cq_.reset(ibv_create_cq(hardware.context.get(), 2 * kSendDepth, nullptr, nullptr, 0));
        ibv_srq_init_attr wanted{};
        wanted.attr = {64, 1, 0};
        srq_.reset(ibv_create_srq(hardware.pd.get(), &wanted));
        REQUIRE((cq_ != nullptr && srq_ != nullptr));
        auto mr = register_pages(hardware.pd.get(), memory_, IBV_ACCESS_LOCAL_WRITE);
        REQUIRE(mr.has_value());
        mr_ = std::move(*mr);
        auto qp = make_queue_pair(hardware, {nullptr, cq_.get(), srq_.get(), kSendDepth});
        REQUIRE(qp.has_value());
        qp_ = std::move(*qp);
    }

    RawPeer(const RawPeer&) = delete;
    RawPeer& operator=(const RawPeer&) = delete;

    ~RawPeer() { leave(); }

    /// Completes the handshake. Calls `others` meanwhile, so that the other side can go on.
    void connect(const std::string& address, uint32_t message_bytes_max,
                 const std::function<void()>& others) {
        const auto to = SocketAddress::parse(address.substr(address.find(':') + 1));
        REQUIRE(to.has_value());
        auto socket = Socket::connect(*to, 4000);
        REQUIRE(socket.has_value());
        socket_ = std::move(*socket);
        Claim own = describe(hardware_, *qp_, 4711);
        own.window = 64;
        own.message_bytes_max = message_bytes_max;
        ClaimHandshake handshake(Side::kConnecting, {}, random_bytes());
        const SteadyClock clock;
        const uint64_t end_ns = clock.now_ns() + weir::testing::kPatienceNs;
        for (bool ready = false; !ready || !handshake.output().empty();) {
            REQUIRE(clock.now_ns() < end_ns);
            others();
            static_cast<void>(socket_.send(handshake.output()));
            std::array<std::byte, 512> bytes;
            size_t count = 0;
            if (!ready && socket_.receive(bytes, count) == Socket::Got::kSome) {
                handshake.append(std::span(bytes).first(count));
            }
            const auto step = handshake.next();
            REQUIRE_MESSAGE(step.has_value(), step.error().message());
            if (*step == ClaimHandshake::Step::kMakeClaim) handshake.claim(own);
            if (*step != ClaimHandshake::Step::kProven) continue;
            REQUIRE(bring_up(hardware_, qp_.get(), own, handshake.peer(), {}));
            handshake.ready();
            ready = true;
        }
    }

    /// Sends empty messages, without regard to credits.
    void flood(uint32_t count) {
        for (uint32_t i = 0; i < count; ++i)
            post(0);
    }

    /// Waits until the peer's device takes no more of what was sent: nothing has been completed for
    /// a while.
    void wait_until_stuck() {
        constexpr uint64_t kQuietNs = 100 * kMillisecond;
        const SteadyClock clock;
        uint64_t completed_ns = clock.now_ns();
        REQUIRE(weir::testing::wait_until([&] { return clock.now_ns() - completed_ns > kQuietNs; },
                                          [&] {
                                              ibv_wc wc{};
                                              if (ibv_poll_cq(cq_.get(), 1, &wc) == 1)
                                                  completed_ns = clock.now_ns();
                                          }));
    }

    /// Sends the first half of a message only: the memory of the second is not registered.
    void send_half() { post(2 * kMemoryBytes); }

    /// True when send_half() has failed, which is after its first packet was sent.
    [[nodiscard]] bool failed() {
        ibv_wc wc{};
        return ibv_poll_cq(cq_.get(), 1, &wc) == 1 && wc.status != IBV_WC_SUCCESS;
    }

    /// Breaks the queue pair. Whether the device then reports, within that time, that it takes no
    /// more from its shared receive queue (IBV_EVENT_QP_LAST_WQE_REACHED).
    [[nodiscard]] bool reports_last_receive(int within_ms) {
        break_off(qp_.get());
        pollfd device{hardware_.context->async_fd, POLLIN, 0};
        while (::poll(&device, 1, within_ms) == 1) {
            ibv_async_event event{};
            if (ibv_get_async_event(hardware_.context.get(), &event) != 0) return false;
            const bool last = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
            ibv_ack_async_event(&event);
            if (last) return true;
        }
        return false;
    }

    /// Closes the connection without a Bye.
    void leave() {
        socket_.close();
        if (qp_ != nullptr) break_off(qp_.get());
        qp_.reset();
    }

private:
    void post(uint32_t length_bytes) {
        ibv_sge piece{reinterpret_cast<uint64_t>(memory_.data()), length_bytes, mr_->lkey};
        ibv_send_wr request{};
        request.opcode = IBV_WR_SEND_WITH_IMM;
        request.sg_list = &piece;
        request.num_sge = length_bytes > 0 ? 1 : 0;
        request.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr* bad = nullptr;
        REQUIRE(ibv_post_send(qp_.get(), &request, &bad) == 0);
    }

    const Hardware& hardware_;
    std::vector<std::byte> memory_;
    MrPtr mr_;
    CqPtr cq_;
    SrqPtr srq_;
    QpPtr qp_;
    Socket socket_;
};

}  // namespace weir::transport::verbs::testing
