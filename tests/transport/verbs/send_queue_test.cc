// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/send_queue.h"

#include <cerrno>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

namespace weir::transport::verbs {
namespace {

constexpr uint32_t kDepth = 256;

/// A fake queue pair: records the posted requests, and completes none of them.
class PaperQueuePair {
public:
    PaperQueuePair() {
        context_.ops.post_send = [](ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad) {
            auto* const self = static_cast<PaperQueuePair*>(qp->qp_context);
            ++self->doorbells;
            for (; request != nullptr; request = request->next)
                self->posted.push_back(*request);
            *bad = nullptr;
            return self->takes ? 0 : EINVAL;
        };
        qp_.context = &context_;
        qp_.qp_context = this;
    }

    [[nodiscard]] ibv_qp* get() { return &qp_; }

    [[nodiscard]] size_t signalled() const {
        size_t count = 0;
        for (const ibv_send_wr& request : posted)
            count += static_cast<size_t>((request.send_flags & IBV_SEND_SIGNALED) != 0);
        return count;
    }

    std::vector<ibv_send_wr> posted;
    uint64_t doorbells = 0;
    bool takes = true;

private:
    ibv_context context_{};
    ibv_qp qp_{};
};

RegisteredPages ring() {
    auto pages = RegisteredPages::make(nullptr, 1 << 16);
    REQUIRE(pages.has_value());
    return std::move(*pages);
}

Transfer read_of(uint32_t bytes) {
    Transfer transfer;
    transfer.bytes = bytes;
    return transfer;
}

TEST_SUITE("verbs send queue") {
    TEST_CASE("requests are posted in batches, each with one doorbell") {
        PaperQueuePair qp;
        SendQueue queue(qp.get(), ring(), kDepth, 0, 7);
        for (uint64_t i = 0; i < 40; ++i)
            queue.add_last(read_of(64), {Event::kRead, i, 64});
        CHECK(qp.posted.size() == 32);  // two full batches; the third is not full yet
        REQUIRE(queue.flush());
        REQUIRE(qp.posted.size() == 40);
        CHECK(qp.doorbells == 3);
        CHECK(queue.take_doorbells() == 3);
        CHECK(queue.flush());  // nothing to post
        CHECK(qp.doorbells == 3);
        for (uint64_t i = 0; i < 40; ++i)
            CHECK(qp.posted[i].wr_id == (uint64_t{7} << 32 | i));
    }

    TEST_CASE("of a batch of operations only the last is signalled, and it ends those before it") {
        PaperQueuePair qp;
        SendQueue queue(qp.get(), ring(), kDepth, 0, 0);
        for (uint64_t i = 0; i < SendQueue::kBatchMax; ++i)
            queue.add_last(read_of(64), {Event::kRead, i, 64});
        REQUIRE(queue.flush());
        REQUIRE(qp.signalled() == 1);
        CHECK((qp.posted.back().send_flags & IBV_SEND_SIGNALED) != 0);
        std::vector<uint64_t> ended;
        queue.end_through(SendQueue::kBatchMax - 1,
                          [&](const Operation& operation) { ended.push_back(operation.context); });
        CHECK(ended.size() == SendQueue::kBatchMax);
        CHECK(queue.in_flight() == 0);
    }

    TEST_CASE("some messages are signalled, so that their ring space is freed") {
        PaperQueuePair qp;
        SendQueue queue(qp.get(), ring(), kDepth, 0, 0);
        for (uint32_t i = 0; i < 200; ++i)
            queue.add_empty(i);
        REQUIRE(queue.flush());
        CHECK(qp.posted.size() == 200);
        CHECK(qp.signalled() >= 200 / (kDepth / 4));
        CHECK(qp.signalled() <= 200 / 8);
        CHECK(qp.doorbells == (200 + SendQueue::kBatchMax - 1) / SendQueue::kBatchMax);
    }

    TEST_CASE("short messages go inline, longer ones from the ring") {
        PaperQueuePair qp;
        SendQueue queue(qp.get(), ring(), kDepth, 64, 0);
        for (const uint32_t bytes : {1U, 64U, 65U, 4096U}) {
            REQUIRE(queue.reserve(bytes) != nullptr);
            queue.add_message(bytes, 0);
        }
        queue.add_empty(0);
        REQUIRE(queue.flush());
        REQUIRE(qp.posted.size() == 5);
        for (size_t i = 0; i < 5; ++i) {
            CAPTURE(i);
            CHECK(((qp.posted[i].send_flags & IBV_SEND_INLINE) != 0) == (i < 2));
        }
    }

    TEST_CASE("after a failed post nothing more is posted") {
        PaperQueuePair qp;
        qp.takes = false;
        SendQueue queue(qp.get(), ring(), kDepth, 0, 0);
        queue.add_empty(1);
        CHECK_FALSE(queue.flush());
        queue.add_empty(2);
        CHECK_FALSE(queue.flush());
        CHECK(qp.doorbells == 1);
    }
}

}  // namespace
}  // namespace weir::transport::verbs
