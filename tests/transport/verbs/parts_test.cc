// SPDX-License-Identifier: Apache-2.0
/// \file
/// The parts of the verbs backend that need no device.

#include <cerrno>
#include <deque>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "transport/verbs/capacity.h"
#include "transport/verbs/device.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/receive_queue.h"
#include "transport/verbs/ring_space.h"
#include "transport/verbs/verbs.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;

}  // namespace

TEST_SUITE("verbs parts") {
    TEST_CASE("message buffers and rings stay out of forked children") {
        const auto pages = RegisteredPages::make(nullptr, 1 << 16);
        REQUIRE(pages.has_value());
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {  // ENOMEM: nothing is mapped there
            const bool is_out =
                ::msync(pages->bytes().data(), 1 << 16, MS_ASYNC) != 0 && errno == ENOMEM;
            ::_exit(is_out ? 0 : 1);
        }
        int status = -1;
        REQUIRE(::waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }

    TEST_CASE("ring pieces are contiguous, never overlap, and are all freed") {
        WEIR_TEST_SEED(seed, 4711);
        Random random(seed);
        constexpr uint32_t kSize = 64 * 40;
        RingSpace ring(kSize);

        struct Out {
            RingSpace::Piece piece;
            uint32_t length;
        };

        std::deque<Out> out;
        std::vector<int> owners(kSize, 0);
        uint64_t refused = 0;
        for (int i = 0; i < 20'000; ++i) {
            const auto length = static_cast<uint32_t>(random.below(kSize / 4));
            const RingSpace::Piece piece = ring.take(length);
            if (piece.fits) {
                REQUIRE(piece.offset + length <= kSize);
                for (uint32_t at = piece.offset; at < piece.offset + length; ++at) {
                    REQUIRE(owners[at]++ == 0);
                }
                out.push_back({piece, length});
            } else {
                ++refused;
                REQUIRE_FALSE(out.empty());  // a quarter of an empty ring always fits
            }
            while (!out.empty() && (!piece.fits || random.below(3) == 0)) {
                const Out& oldest = out.front();
                for (uint32_t at = 0; at < oldest.length; ++at) {
                    --owners[oldest.piece.offset + at];
                }
                ring.give_back(oldest.piece.taken_bytes);
                out.pop_front();
                if (random.below(2) == 0) break;
            }
        }
        CHECK(refused > 100);
        for (; !out.empty(); out.pop_front())
            ring.give_back(out.front().piece.taken_bytes);
        CHECK(ring.used_bytes() == 0);
    }

    TEST_CASE("windows never sum to more than the receive queue holds") {
        WEIR_TEST_SEED(seed, 4711);
        Random random(seed);
        constexpr uint32_t kReceives = 4096;
        constexpr uint32_t kSends = 9000;
        Capacity capacity(kReceives, kSends);
        const Grant wanted{128, 196};
        std::vector<Grant> given;
        uint32_t windows = 0;
        uint32_t sends = 0;
        size_t refusals = 0;
        size_t most = 0;
        for (int i = 0; i < 5000; ++i) {
            if (const auto grant = capacity.admit(wanted)) {
                CHECK(grant->window >= Credits::kWindowMin);
                CHECK(grant->send_depth >= Capacity::kSendDepthMin);
                windows += grant->window;
                sends += grant->send_depth;
                given.push_back(*grant);
            } else {
                ++refusals;
            }
            REQUIRE(windows <= kReceives);
            REQUIRE(sends <= kSends);
            most = std::max(most, given.size());
            if (!given.empty() && random.below(4) == 0) {
                const size_t which = random.below(given.size());
                windows -= given[which].window;
                sends -= given[which].send_depth;
                capacity.release(given[which]);
                given.erase(given.begin() + static_cast<ptrdiff_t>(which));
            }
        }
        CHECK(refusals > 0);
        CHECK(most > kReceives / 128);  // later grants are smaller, so that more fit
        for (const Grant& grant : given)
            capacity.release(grant);
        CHECK(capacity.receives_free() == kReceives);
        CHECK(capacity.admit(wanted)->window == 128);
    }

    TEST_CASE("a receive queue has more places than its windows, and aligned buffers") {
        CHECK(ReceiveQueue::windows_of(32768) == 32768 - ReceiveQueue::kBeyondWindows);
        CHECK(ReceiveQueue::windows_of(64) == 32);
        CHECK(ReceiveQueue::stride_bytes(8192) == 8192);
        CHECK(ReceiveQueue::stride_bytes(1001) == 1024);
    }

    TEST_CASE("an event of the device ends the connections that it concerns, a link flap none") {
        using About = AsyncNote::About;
        int owner_of_queue = 0;
        ibv_cq cq{};
        cq.cq_context = &owner_of_queue;
        ibv_qp qp{};
        qp.qp_context = &owner_of_queue;
        qp.qp_num = 77;
        const void* owner = nullptr;
        ibv_async_event event{};
        event.event_type = IBV_EVENT_PORT_ERR;
        CHECK(note_of(event, owner).about == About::kLink);
        event.event_type = IBV_EVENT_PORT_ACTIVE;
        CHECK(note_of(event, owner).about == About::kLink);
        event.event_type = IBV_EVENT_GID_CHANGE;
        CHECK(note_of(event, owner).about == About::kNothing);
        event.event_type = IBV_EVENT_DEVICE_FATAL;
        CHECK(note_of(event, owner).about == About::kEverything);
        CHECK(owner == nullptr);
        event.event_type = IBV_EVENT_CQ_ERR;
        event.element.cq = &cq;
        CHECK(note_of(event, owner).about == About::kEverything);
        CHECK(owner == &owner_of_queue);
        event.element.qp = &qp;
        event.event_type = IBV_EVENT_QP_FATAL;
        CHECK(note_of(event, owner).about == About::kQueuePair);
        event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
        CHECK(note_of(event, owner).about == About::kLastReceive);
        CHECK(note_of(event, owner).queue_pair == 77);
        CHECK(owner == &owner_of_queue);
    }

    TEST_CASE("notes about a destroyed queue pair are dropped") {
        DeviceNotes box;
        box.put({AsyncNote::About::kLastReceive, 7, ""});
        box.put({AsyncNote::About::kQueuePair, 8, ""});
        box.put({AsyncNote::About::kEverything, 0, ""});
        box.forget(7);
        const auto notes = box.take();
        REQUIRE(notes.size() == 2);
        CHECK(notes[0].queue_pair == 8);
        CHECK(notes[1].about == AsyncNote::About::kEverything);
        CHECK(box.take().empty());
    }

    TEST_CASE("opening a device that does not exist fails with an error about it") {
        DeviceOptions options;
        options.device = "no_such_device";
        const auto device = make_device(options);
        REQUIRE_FALSE(device.has_value());
        CHECK((device.code() == Errc::kNotFound || device.code() == Errc::kUnavailable));
        CHECK(device.error().text().find("RDMA device") != std::string::npos);
    }
}
