// SPDX-License-Identifier: Apache-2.0
/// \file
/// A peer that knows the secret and sends anything: its connection is closed, or its request
/// refused; the cluster goes on, and no value changes.

#include <algorithm>
#include <array>
#include <cstring>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kExtremes[] = {0,
                                  1,
                                  2,
                                  7,
                                  8,
                                  63,
                                  64,
                                  255,
                                  4096,
                                  1u << 18,
                                  (1u << 18) + 1,
                                  1u << 22,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  uint64_t{1} << 61,
                                  uint64_t{1} << 63,
                                  ~uint64_t{0} - 1,
                                  ~uint64_t{0}};

class Hostile {
public:
    Hostile(SimCluster& cluster, uint64_t seed) : cluster_(cluster), random_(seed) {
        device_ = cluster.network.make_device(99);
        endpoint_ = std::move(device_->make_endpoint({})).value();
    }

    /// Connects to a shard, says hello as worker 0, and sends one frame.
    void attack(const std::string& address) {
        const auto connection = *endpoint_->connect(address);
        bool over = false;
        bool sent = false;
        int left = 20'000;
        while (left-- > 0 && !over) {
            std::array<transport::Completion, 8> completions;
            const size_t count = endpoint_->poll(completions);
            for (size_t c = 0; c < count; ++c) {
                if (completions[c].connection != connection) continue;  // an earlier one
                if (completions[c].event == transport::Event::kClosed) over = true;
                if (completions[c].event == transport::Event::kConnected) {
                    wire::FrameHeader hello;
                    hello.kind = wire::Kind::kHello;
                    send(connection, hello, {});
                    send_anything(connection);
                    sent = true;
                    left = std::min(left, 300);  // time for an answer
                }
            }
            (void)cluster_.step();
        }
        if (!over) endpoint_->close(connection);
        REQUIRE(sent);
    }

private:
    void send(transport::ConnectionId connection, const wire::FrameHeader& header,
              std::span<const std::byte> body) {
        const std::array parts{std::as_bytes(std::span(&header, 1)), body};
        (void)endpoint_->send(connection, parts);
        endpoint_->flush();
    }

    uint64_t extreme() { return kExtremes[random_.below(std::size(kExtremes))]; }

    void send_anything(transport::ConnectionId connection) {
        wire::FrameHeader h;
        h.kind = static_cast<wire::Kind>(random_.below(4) == 0 ? random_.below(16)
                                                               : 1 + random_.below(2));
        // Mostly forms that the decoder accepts, so that what is behind it is reached too.
        const uint8_t keys[] = {wire::kKeysRange, wire::kKeysInline, wire::kKeysRemote,
                                wire::kKeysKnown};
        h.flags = static_cast<uint8_t>(
            keys[random_.below(4)] |
            (random_.below(2) == 0 ? wire::kValuesInline : wire::kValuesRemote));
        if (random_.below(4) == 0) h.flags |= wire::kAggregate;
        if (random_.below(8) == 0) h.flags = static_cast<uint8_t>(random_());
        h.value_type = static_cast<uint8_t>(random_.below(8) == 0 ? random_() : 5);
        h.request = random_();
        h.epoch = static_cast<uint32_t>(random_.below(8) == 0 ? extreme() : 1);
        h.table = static_cast<uint32_t>(random_.below(8) == 0 ? extreme() : 0);
        h.width = static_cast<uint32_t>(random_.below(8) == 0 ? extreme() : 1);
        h.parts = static_cast<uint32_t>(random_.below(3));
        h.iteration = random_.below(2) == 0 ? random_.below(3) : extreme();
        h.first = extreme();
        h.count = random_.below(3) == 0 ? extreme() : random_.below(20);
        std::vector<uint64_t> body(random_.below(3) == 0 ? random_.below(100)
                                                         : 6 + 2 * h.count % 64);
        for (uint64_t& word : body)
            word = random_.below(2) == 0 ? extreme() : random_.below(64);
        // Handles with the lengths that are expected, and addresses that are not ours.
        if (body.size() >= 6 && random_.below(2) == 0) {
            body[1] = h.count * 8;
            body[4] = h.count * 8;
        }
        h.body_bytes = static_cast<uint32_t>(body.size() * 8);
        send(connection, h, std::as_bytes(std::span(body)));
    }

    SimCluster& cluster_;
    Random random_;
    std::unique_ptr<transport::Device> device_;
    std::unique_ptr<transport::Endpoint> endpoint_;
};

}  // namespace

TEST_SUITE("hostile") {
    TEST_CASE(
        "frames with every field at its extremes close a connection or are refused, no more") {
        for (const bool maps : {false, true}) {
            for (uint64_t seed = 1; seed <= 20; ++seed) {
                INFO("seed " << seed << ", maps " << maps);
                transport::sim::Options options;
                options.maps_memory = maps;
                SimCluster cluster(seed, {}, options);
                REQUIRE(cluster.start());
                TableSchema schema;
                schema.name = "t";
                schema.layout = Layout::kDense;
                schema.key_count = 64;
                schema.value_type = ValueType::kUInt64;
                schema.rule = "max";
                auto table = cluster.make_table(0, schema);
                REQUIRE(table.has_value());
                Hostile hostile(cluster, seed);
                for (int i = 0; i < 20; ++i) {
                    hostile.attack(cluster.shards[static_cast<size_t>(i) % 4]->address());
                }
                // Whoever is honest is served as before.
                std::vector<uint64_t> values(64, ~uint64_t{0});
                const auto push = cluster.workers[1]->push(*table, KeyRange{0, 64},
                                                           std::as_bytes(std::span(values)), {});
                REQUIRE(cluster.finish(1, push).has_value());
                std::vector<uint64_t> out(64);
                const auto pull = cluster.workers[2]->pull(
                    *table, KeyRange{0, 64}, std::as_writable_bytes(std::span(out)), {});
                REQUIRE(cluster.finish(2, pull).has_value());
                CHECK(out == values);
            }
        }
    }
}

}  // namespace weir::test
