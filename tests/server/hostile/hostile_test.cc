// SPDX-License-Identifier: Apache-2.0
/// \file
/// A peer that knows the secret and sends random frames: the shard closes its connection or
/// refuses its request; the cluster goes on, and no value changes.

#include <algorithm>
#include <array>
#include <iterator>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/wire/record_message.h"
#include "tests/cluster/raw_worker.h"
#include "tests/seed.h"

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
    Hostile(SimCluster& cluster, uint64_t seed) : random_(seed), raw_(cluster, 99) {}

    /// Takes an empty place among the workers.
    void join(uint32_t worker) { manager_ = raw_.join(worker); }

    /// Leaves the job without a word, as one that dies.
    void die() {
        raw_.endpoint().close(manager_);
        (void)raw_.run_until([&] { return raw_.is_closed(manager_); });
    }

    /// Connects to a shard, says hello as the worker that it is, and sends one frame.
    void attack(const Shard& shard, uint32_t worker) { attack_over(raw_.hello(shard, worker)); }

    /// The same in the name of a worker that it is not, as its newest connection perhaps.
    void attack_in_name_of(const Shard& shard, uint32_t worker) {
        attack_over(raw_.hello(shard, worker, extreme(), extreme()));
    }

    /// Connects to a shard as the primary of what it learns, and sends records with every field at
    /// its extremes.
    void stream(const Shard& shard) {
        const auto connection = raw_.connect(shard.address());
        REQUIRE(connection != 0);
        wire::FrameHeader h = testing::frame_header(wire::Kind::kFollow);
        h.first = random_.below(4) == 0 ? extreme() : random_.below(5);
        FollowMessage follow;
        follow.epoch = random_.below(2) == 0 ? extreme() : 2;
        follow.number = random_.below(2) == 0 ? random_.below(3) : extreme();
        follow.pass = random_.below(2) == 0 ? testing::kPass : extreme();
        // Of a stream that goes on, and of one that begins anew.
        if (random_.below(2) == 0) follow.stream = random_.below(2) == 0 ? extreme() : 1;
        if (random_.below(2) == 0) follow.behind = extreme();
        raw_.send(connection, h, follow.encode());
        for (uint64_t i = 1; i <= 8 && !raw_.is_closed(connection); ++i) {
            h = testing::frame_header(wire::Kind::kRecord);
            h.first = random_.below(8) == 0 ? extreme() : i;
            std::vector<std::byte> bytes = record().encode();
            if (random_.below(8) == 0) bytes.resize(random_.below(bytes.size() + 1));
            raw_.send(connection, h, bytes);
            raw_.run();
        }
        raw_.endpoint().close(connection);
        (void)raw_.run_until([&] { return raw_.is_closed(connection); });
    }

private:
    void attack_over(transport::ConnectionId connection) {
        REQUIRE(connection != 0);
        send_anything(connection);
        if (!raw_.run_until([&] { return raw_.is_closed(connection); }, 5)) {
            raw_.endpoint().close(connection);
            (void)raw_.run_until([&] { return raw_.is_closed(connection); });
            raw_.run();
        }
    }

    RecordMessage record() {
        const auto range = [&] {
            const uint64_t first = extreme();
            return PositionRange{first, std::max(first, extreme())};
        };
        RecordMessage record;
        record.kind = static_cast<RecordMessage::Kind>(random_.below(6));
        record.table = static_cast<uint32_t>(random_.below(4) == 0 ? extreme() : 0);
        record.is_range = random_.below(2) == 0;
        record.first_key = extreme();
        record.list = random_.below(2) == 0 ? 0 : extreme();
        record.is_known = random_.below(2) == 0;
        record.row_count = static_cast<uint32_t>(random_.below(3) == 0 ? extreme() : 4);
        for (uint64_t i = random_.below(3); i > 0; --i)
            record.segments.push_back({range(), extreme()});
        for (uint64_t i = random_.below(3); i > 0; --i)
            record.times.push_back({static_cast<uint32_t>(extreme()), range(), extreme()});
        for (uint64_t i = random_.below(3); i > 0; --i)
            record.iterations.push_back({range(), extreme(), {}});
        record.values = std::as_bytes(std::span(kExtremes)).first(8 * random_.below(5));
        return record;
    }

    /// Whether this is a push as an honest worker could make it.
    [[nodiscard]] static bool is_honest(const wire::FrameHeader& h, size_t body_bytes) {
        const size_t key_bytes = (h.flags & wire::kKeysInline) != 0 ? size_t{h.count} * 8 : 0;
        const size_t ends_bytes = (h.flags & wire::kKeysKnown) != 0 ? sizeof(wire::ListEnds) : 0;
        return h.kind == wire::Kind::kPush && (h.flags & wire::kValuesInline) != 0 && h.count > 0 &&
               body_bytes == key_bytes + ends_bytes + size_t{h.count} * 8;
    }

    uint64_t extreme() { return kExtremes[random_.below(std::size(kExtremes))]; }

    void send_anything(transport::ConnectionId connection) {
        wire::FrameHeader h;
        h.kind = static_cast<wire::Kind>(random_.below(4) == 0 ? random_.below(wire::kKindMax + 2)
                                                               : 1 + random_.below(2));
        // Mostly forms that the decoder accepts, so that the code behind it is reached too.
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
        h.parts = static_cast<uint32_t>(random_.below(3));
        h.iteration = random_.below(2) == 0 ? random_.below(3) : extreme();
        if (h.iteration != 0 && random_.below(8) != 0) h.flags |= wire::kIteration;
        if (random_.below(2) == 0) h.time = static_cast<uint32_t>(extreme());
        if (random_.below(2) == 0) h.set_predecessor(static_cast<uint32_t>(extreme()));
        h.first = extreme();
        h.count = static_cast<uint32_t>(random_.below(3) == 0 ? extreme() : random_.below(20));
        std::vector<uint64_t> body(random_.below(3) == 0 ? random_.below(100)
                                                         : 6 + 2 * h.count % 64);
        for (uint64_t& word : body)
            word = random_.below(2) == 0 ? extreme() : random_.below(64);
        // Memory handles of the right lengths, with addresses that the peer does not own.
        if (body.size() >= 6 && random_.below(2) == 0) {
            body[1] = uint64_t{h.count} * 8;
            body[4] = uint64_t{h.count} * 8;
        }
        if (!is_honest(h, body.size() * 8)) {
            raw_.send(connection, h, std::as_bytes(std::span(body)));
        }
    }

    Random random_;
    RawWorker raw_;
    transport::ConnectionId manager_ = 0;
};

TableSchema babbled_schema() {
    return dense_table("sums", 64, ValueType::kUInt64);
}

ClientCore::CallId push(SimCluster& cluster, uint32_t worker, const TableInfo& table,
                        uint64_t value, std::optional<uint64_t> iteration = std::nullopt) {
    const std::vector<uint64_t> values(64, value);
    CallOptions options;
    options.iteration = iteration;
    const auto call = cluster.workers[worker]->push(table, KeyRange{0, 64},
                                                    std::as_bytes(std::span(values)), options);
    (void)cluster.run_until([&] { return cluster.workers[worker]->done(call); }, 50);
    return call;
}

bool all_are(SimCluster& cluster, const TableInfo& table, uint64_t value) {
    std::vector<uint64_t> out(64);
    const auto pull = cluster.workers[1]->pull(
        table, KeyRange{0, 64}, std::as_writable_bytes(std::span(out)), CallOptions());
    return cluster.finish(1, pull).has_value() && out == std::vector<uint64_t>(64, value);
}

}  // namespace

TEST_SUITE("hostile") {
    TEST_CASE(
        "frames with every field at its extremes close a connection or are refused, no more") {
        const uint64_t first = testing::seed_or(1);
        for (const bool maps : {false, true}) {
            for (uint64_t seed = first; seed < first + 40; ++seed) {
                INFO("WEIR_SEED=" << seed << ", maps " << maps);
                transport::sim::Options options;
                options.maps_memory = maps;
                SimCluster cluster(seed, {}, options);
                cluster.workers[2].reset();
                Hostile hostile(cluster, seed);
                hostile.join(2);
                REQUIRE(cluster.run_until(
                    [&] { return cluster.workers[0]->ready() && cluster.workers[1]->ready(); }));
                auto table = cluster.make_table(0, babbled_schema());
                REQUIRE(table.has_value());
                for (size_t i = 0; i < 20; ++i)
                    hostile.attack(*cluster.shards[i % 4], 2);
                // The honest workers are served as before.
                CHECK(all_are(cluster, *table, 0));
                CHECK(cluster.finish(0, push(cluster, 0, *table, 1)).has_value());
                CHECK(cluster.finish(1, push(cluster, 1, *table, 2)).has_value());
                CHECK(all_are(cluster, *table, 3));
                hostile.die();
                const Status ended = cluster.finish(0, push(cluster, 0, *table, 1, 1));
                // A part of it may have been sound but for its type; or it is missed.
                CHECK((ended.code() == Errc::kPeerLost || ended.code() == Errc::kTypeMismatch));
                CHECK(ended.error().message().find("worker 2") != std::string::npos);
            }
        }
    }

    TEST_CASE("who claims to be a server that hands over segments changes nothing") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 40; ++seed) {
            INFO("WEIR_SEED=" << seed);
            SimShape shape;
            shape.replicas = seed % 2;  // so that there are streams all the time
            SimCluster cluster(seed, shape, {});
            REQUIRE(cluster.start());
            auto table = cluster.make_table(0, babbled_schema());
            REQUIRE(table.has_value());
            CHECK(cluster.finish(0, push(cluster, 0, *table, 1)).has_value());
            Hostile hostile(cluster, seed);
            for (size_t i = 0; i < 8; ++i)
                hostile.stream(*cluster.shards[i % 4]);
            CHECK(all_are(cluster, *table, 1));
            // A server can still join, and takes over what it is given by who has it.
            cluster.add_server();
            for (size_t i = 0; i < 8; ++i) {  // also while it learns
                for (uint64_t steps = seed + i; steps > 0; --steps)
                    (void)cluster.step();
                hostile.stream(*cluster.shards[i % cluster.shards.size()]);
            }
            const auto is_in = [&] {
                const View view = cluster.manager->view();
                return view.servers().size() == 3 && !view.holds_nothing(2) &&
                       std::ranges::none_of(view.segments(), &ViewSegment::has_learner);
            };
            REQUIRE(cluster.run_until(is_in));
            cluster.run_idle(3);
            hostile.stream(*cluster.shards.back());
            CHECK(cluster.finish(1, push(cluster, 1, *table, 2)).has_value());
            CHECK(all_are(cluster, *table, 3));
        }
    }

    TEST_CASE("who takes the number of a worker that is here changes nothing, iterations go on") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 10; ++seed) {
            INFO("WEIR_SEED=" << seed);
            SimCluster cluster(seed, {}, {});
            REQUIRE(cluster.start());
            auto table = cluster.make_table(0, babbled_schema());
            REQUIRE(table.has_value());
            Hostile hostile(cluster, seed);
            uint64_t sum = 0;
            for (uint64_t iteration = 1; iteration <= 3; ++iteration) {
                for (size_t i = 0; i < 8; ++i)
                    hostile.attack_in_name_of(*cluster.shards[i % 4], static_cast<uint32_t>(i % 3));
                std::array<ClientCore::CallId, 3> calls{};
                for (uint32_t worker = 0; worker < 3; ++worker) {
                    calls[worker] = push(cluster, worker, *table, worker + iteration, iteration);
                    sum += worker + iteration;
                }
                for (uint32_t worker = 0; worker < 3; ++worker)
                    CHECK(cluster.finish(worker, calls[worker]).has_value());
                CHECK(all_are(cluster, *table, sum));
            }
        }
    }
}

}  // namespace weir::test
