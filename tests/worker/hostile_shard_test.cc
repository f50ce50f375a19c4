// SPDX-License-Identifier: Apache-2.0
/// \file
/// A client beside a shard that does what it likes: answers what it was not asked, and too late.

#include <array>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/node/messages.h"
#include "lib/wire/frame.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

using transport::ConnectionId;
using transport::Event;

constexpr uint64_t kHostileTableKeys = 1 << 16;
constexpr double kInitial = 7;

/// A cluster of one worker and two shards, the second of which is in the hands of the test. It
/// joins and makes tables as it should.
class RogueShard {
public:
    RogueShard() : cluster(5, shape(), {}) {
        cluster.shards.pop_back();
        device_ = cluster.network.make_device(77);
        endpoint_ = std::move(device_->make_endpoint({})).value();
        manager_ = *endpoint_->connect(cluster.manager->address());
        REQUIRE(run_until([&] { return cluster.workers[0]->ready() && worker_ != 0; }));
        TableSchema schema;
        schema.name = "numbers";
        schema.layout = Layout::kDense;
        schema.key_count = kHostileTableKeys;
        schema.value_type = ValueType::kFloat64;
        schema.initial_value = kInitial;
        const auto made = client().create_table(schema);
        REQUIRE(run_until([&] { return client().done(made); }));
        table = *client().take_table(made);
    }

    [[nodiscard]] ClientCore& client() { return *cluster.workers[0]; }

    /// Starts to pull as many keys as fit into `out`, all of the rogue's, or of the other shard's.
    ClientCore::CallId pull(bool of_rogue, std::span<double> out, uint64_t deadline_ns = 0) {
        const auto bytes = std::as_writable_bytes(out);
        for (uint64_t key = 0; key + out.size() <= kHostileTableKeys; key += out.size()) {
            const KeyRange keys{key, key + out.size()};
            asked.reset();
            const auto probe = client().pull(table, keys, bytes, {.deadline_ns = kMillisecond});
            REQUIRE(run_until([&] { return client().done(probe); }));
            const bool is_rogues = asked.has_value();
            if (client().take(probe).has_value() == of_rogue) continue;
            if (is_rogues != of_rogue) continue;
            out[0] = -1;
            asked.reset();
            cluster.network.set_slowness(0, 1000);  // the other shard's answer takes a while
            return client().pull(table, keys, bytes, {.deadline_ns = deadline_ns});
        }
        FAIL("no such keys");
        return 0;
    }

    static wire::FrameHeader reply_to(uint64_t request) {
        wire::FrameHeader header;
        header.kind = wire::Kind::kReply;
        header.request = request;
        return header;
    }

    /// To the worker.
    void send(const wire::FrameHeader& header, std::span<const std::byte> body) {
        send(worker_, header, body);
    }

    void signal(uint32_t immediate) {
        while (endpoint_->signal(worker_, immediate) == transport::Post::kNotNow) {
            endpoint_->flush();
            step();
        }
        endpoint_->flush();
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over) {
        return cluster.run_until([&] {
            poll();
            return over();
        });
    }

    SimCluster cluster;
    TableInfo table;
    std::optional<wire::FrameHeader> asked;  ///< the last pull that came here
    bool closed = false;                     ///< by the worker

private:
    static SimShape shape() {
        SimShape shape;
        shape.servers = 1;
        shape.shards = 2;
        shape.workers = 1;
        return shape;
    }

    void send(ConnectionId connection, wire::FrameHeader header,
              std::span<const std::byte> body = {}) {
        header.body_bytes = static_cast<uint32_t>(body.size());
        const std::array parts{wire::bytes_of(header), body};
        while (endpoint_->send(connection, parts) == transport::Post::kNotNow)
            step();
        endpoint_->flush();
    }

    void step() {
        (void)cluster.step();
        poll();
    }

    void poll() {
        std::array<transport::Completion, 16> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == Event::kConnected) {
                wire::FrameHeader header;
                header.kind = wire::Kind::kJoin;
                send(c.connection, header,
                     JoinMessage{JoinMessage::Role::kShard, 0, 1, endpoint_->address()}.encode());
            }
            if (c.event == Event::kAccepted) worker_ = c.connection;
            if (c.event == Event::kClosed) closed |= c.connection == worker_;
            if (c.event == Event::kReceived) receive(c);
        }
    }

    void receive(const transport::Completion& c) {
        wire::Frame frame;
        REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
        if (frame.header.kind == wire::Kind::kCreateTable) {
            send(c.connection, reply_to(frame.header.request));
        }
        if (frame.header.kind == wire::Kind::kPull) asked = frame.header;
    }

    std::unique_ptr<transport::Device> device_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    ConnectionId manager_ = 0;
    ConnectionId worker_ = 0;
};

}  // namespace

TEST_SUITE("hostile shard") {
    TEST_CASE("a shard cannot end what another was asked, by an immediate or by a reply") {
        for (const bool by_reply : {false, true}) {
            RogueShard rogue;
            // few: in a reply; many: written into memory of the worker's
            std::vector<double> out(by_reply ? 1 : 1024);
            const auto call = rogue.pull(false, out);
            const std::array<double, 1> wrong{666};
            for (uint32_t i = 0; i < 4000 && !rogue.closed; ++i) {
                const uint32_t guess = (1 + i % 20) << 20 | i / 20;  // generation, slot
                if (by_reply) {
                    rogue.send(RogueShard::reply_to(guess), std::as_bytes(std::span(wrong)));
                } else {
                    rogue.signal(guess);
                }
            }
            REQUIRE(rogue.run_until([&] { return rogue.client().done(call); }));
            CHECK(rogue.client().take(call).has_value());
            CHECK(out == std::vector<double>(out.size(), kInitial));
            CHECK(rogue.closed);
        }
    }

    TEST_CASE("an answer that comes after the deadline leaves the caller's memory alone") {
        RogueShard rogue;
        std::array<double, 1> out{};
        const auto call = rogue.pull(true, out, kMillisecond);
        REQUIRE(rogue.run_until([&] { return rogue.asked && rogue.client().done(call); }));
        CHECK(rogue.client().take(call).code() == Errc::kDeadline);
        const std::array<double, 1> late{42};
        rogue.send(RogueShard::reply_to(rogue.asked->request), std::as_bytes(std::span(late)));
        (void)rogue.run_until([] { return false; });
        CHECK(out[0] == -1);
        CHECK_FALSE(rogue.closed);
    }
}

}  // namespace weir::test
