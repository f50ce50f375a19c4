// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/replies.h"

#include <array>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/stream_pair.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using Requests = std::vector<uint64_t>;

/// The replies of a primary that has a backup, and a worker that receives them.
class RepliesToWorker {
public:
    explicit RepliesToWorker(std::shared_ptr<const ServerLease> lease = nullptr) {
        pair.make_table(testing::dense_table("t", 2000));
        for (size_t i = 0; i < 2; ++i) {
            devices[i] = pair.network.make_device(static_cast<uint32_t>(2 + i));
            transport::EndpointOptions options;
            options.message_bytes_max = size_t{2} << 20;
            ends[i] = std::move(devices[i]->make_endpoint(options)).value();
        }
        connection = *ends[0]->connect(ends[1]->address());
        replies = std::make_unique<Replies>(*ends[0], pair.clock, pair.streams, std::move(lease));
        (void)received();
    }

    /// From now on it waits for the backup, which has all.
    void get_in_sync() {
        pair.name_backup(pair.segments_of_primary());
        REQUIRE(pair.run_until([&] { return pair.has_all(); }));
        look();
        REQUIRE(replies->is_active());
    }

    void look() { replies->look_at_streams(pair.streams.has_in_sync()); }

    /// The requests whose replies have come.
    [[nodiscard]] Requests received() {
        Requests requests;
        for (size_t idle = 0; idle < 100;) {
            std::array<transport::Completion, 8> completions;
            (void)ends[0]->poll(completions);
            (void)replies->flush();
            ends[0]->flush();
            const size_t count = ends[1]->poll(completions);
            for (const transport::Completion& c : std::span(completions).first(count)) {
                if (c.event != transport::Event::kReceived) continue;
                wire::Frame frame;
                REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
                requests.push_back(frame.header.request);
            }
            if (!pair.network.step()) {
                pair.clock.advance(kMillisecond);
                ++idle;
            }
        }
        return requests;
    }

    void replicate() {
        pair.is_learner_stopped = false;
        REQUIRE(pair.run_until([&] { return replies->has_due(); }));
    }

    StreamPair pair{1};
    std::unique_ptr<transport::Device> devices[2];
    std::unique_ptr<transport::Endpoint> ends[2];
    transport::ConnectionId connection = 0;
    std::unique_ptr<Replies> replies;
};

}  // namespace

TEST_SUITE("replies") {
    TEST_CASE("without a backup in sync, replies leave at once") {
        RepliesToWorker shard;
        shard.replies->reply_when_replicated(shard.connection, 1, Errc::kOk);
        shard.replies->reply(shard.connection, 2, Errc::kOk);
        shard.replies->reply_failed_when_replicated(shard.connection, 3, {Errc::kPeerLost, 1});
        CHECK(shard.received() == Requests{1, 2, 3});
        CHECK_FALSE(shard.replies->has_due());
    }

    TEST_CASE("a reply to a change leaves when the backup has applied it, in order") {
        RepliesToWorker shard;
        shard.get_in_sync();
        shard.pair.is_learner_stopped = true;
        shard.pair.push_extent(0);
        shard.replies->reply_when_replicated(shard.connection, 1, Errc::kOk);
        shard.replies->reply_when_replicated(shard.connection, 2,
                                             Errc::kOk);  // it repeats the first
        shard.pair.push_extent(0);
        shard.replies->reply_failed_when_replicated(shard.connection, 3, {Errc::kPeerLost, 1});
        shard.replies->reply(shard.connection, 4, Errc::kStaleEpoch);
        CHECK(shard.replies->release() == 0);
        CHECK(shard.received() == Requests{4});
        shard.replicate();
        REQUIRE(shard.pair.run_until([&] {
            return shard.pair.streams.replicated_change() >= shard.pair.streams.last_change();
        }));
        CHECK(shard.replies->release() == 3);
        CHECK(shard.received() == Requests{1, 2, 3});
    }

    TEST_CASE("held replies count in what waits for their connection") {
        RepliesToWorker shard;
        shard.get_in_sync();
        shard.pair.is_learner_stopped = true;
        shard.pair.push_extent(0);
        const std::vector<std::byte> values(size_t{1} << 20);
        uint64_t request = 0;
        while (!shard.replies->is_busy(shard.connection) && request < 100)
            shard.replies->reply_when_replicated(shard.connection, ++request, Errc::kOk, 0, values);
        CHECK(request == Replies::kBytesMax / values.size());
        CHECK_FALSE(shard.replies->is_busy(shard.connection + 1));
        shard.replicate();
        CHECK(shard.replies->release() == request);
        (void)shard.received();
        CHECK(shard.replies->waiting_bytes(shard.connection) == 0);
    }

    TEST_CASE("replies of a connection that is closed are dropped") {
        RepliesToWorker shard;
        shard.get_in_sync();
        shard.pair.is_learner_stopped = true;
        shard.pair.push_extent(0);
        const transport::ConnectionId other = shard.connection + 1;
        shard.replies->reply_when_replicated(other, 1, Errc::kOk);
        shard.replies->reply_when_replicated(shard.connection, 2, Errc::kOk);
        shard.replies->reply_when_replicated(other, 3, Errc::kOk);
        shard.replies->forget(other);
        CHECK(shard.replies->waiting_bytes(other) == 0);
        shard.replicate();
        CHECK(shard.replies->release() == 1);
        CHECK(shard.received() == Requests{2});
    }

    TEST_CASE("while a backup is in sync, nothing leaves without a lease") {
        const auto lease = std::make_shared<ServerLease>();
        RepliesToWorker shard(lease);
        shard.replies->reply(shard.connection, 1, Errc::kOk);
        CHECK(shard.received() == Requests{1});
        shard.get_in_sync();
        CHECK(shard.replies->needs_lease());
        shard.replies->reply(shard.connection, 2, Errc::kOk);
        CHECK(shard.replies->waits_for_lease());
        CHECK_FALSE(shard.replies->may_send());
        CHECK(shard.received() == Requests{});
        lease->extend_until(~uint64_t{0});
        CHECK(shard.replies->may_send());
        CHECK(shard.replies->release() == 1);
        CHECK(shard.received() == Requests{2});
    }

    TEST_CASE("a moment is over when all replies of before have been sent") {
        RepliesToWorker shard;
        Replies::Moment first = shard.replies->now();
        CHECK(shard.replies->has_sent_before(first));
        shard.get_in_sync();
        shard.pair.is_learner_stopped = true;
        shard.pair.push_extent(0);
        shard.replies->reply_when_replicated(shard.connection, 1, Errc::kOk);
        Replies::Moment moment = shard.replies->now();
        CHECK_FALSE(shard.replies->has_sent_before(moment));
        shard.replicate();
        CHECK_FALSE(shard.replies->has_sent_before(moment));
        CHECK(shard.replies->release() == 1);
        (void)shard.received();
        CHECK(shard.replies->has_sent_before(moment));
        CHECK(shard.replies->has_sent_before(first));
    }
}

}  // namespace weir::test
