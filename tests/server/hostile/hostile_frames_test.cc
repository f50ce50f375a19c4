// SPDX-License-Identifier: Apache-2.0
/// \file
/// Frames that are invalid for a shard: it closes the connection of the sender and logs why; the
/// other workers are served as before.

#include <doctest/doctest.h>

#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker.h"

namespace weir::test {
namespace {

constexpr uint64_t kCountedKeys = 64;

/// Workers 0 and 1 of a running job with a table; worker 2 is played by the test.
struct Besieged {
    explicit Besieged(const transport::sim::Options& options = {})
        : cluster(1, {}, options), raw(cluster, 99) {
        cluster.workers[2].reset();
        raw.join(2);
        REQUIRE(cluster.run_until(
            [&] { return cluster.workers[0]->ready() && cluster.workers[1]->ready(); }));
        auto made = cluster.make_table(0, dense_table("counts", kCountedKeys, ValueType::kUInt64));
        REQUIRE(made.has_value());
        table = *made;
        // Finds the shard of the first key: only that one answers a pull of it.
        const auto good_pull = [](wire::FrameHeader& header, std::vector<uint64_t>& body) {
            header.kind = wire::Kind::kPull;
            body.clear();
        };
        const auto answers = [&] {
            const Sent sent = send_request(good_pull);
            REQUIRE(raw.run_until([&] { return raw.answer(sent.request) != nullptr; }, 50));
            close(sent.connection);
            return raw.answer(sent.request)->header.status == Errc::kOk;
        };
        while (!answers())
            REQUIRE(++first_shard < cluster.shards.size());
    }

    /// Sends `frame` to a shard, as worker 2 or as an unknown peer.
    [[nodiscard]] transport::ConnectionId send(uint32_t shard, const BadFrame& frame,
                                               bool as_worker) {
        const Shard& to = *cluster.shards[shard];
        const auto connection = as_worker ? raw.hello(to, 2) : raw.connect(to.address());
        REQUIRE(connection != 0);
        raw.run();
        REQUIRE_FALSE(raw.is_closed(connection));
        raw.send_bytes(connection, frame.bytes);
        return connection;
    }

    struct Sent {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
    };

    /// Sends the shard of the first key a valid push of it, to which `change` has been applied.
    template <class Change>
    [[nodiscard]] Sent send_request(Change&& change) {
        const Sent sent{raw.hello(*cluster.shards[first_shard], 2), ++requests};
        wire::FrameHeader header =
            one_key(wire::Kind::kPush, wire::kKeysRange | wire::kValuesInline);
        header.request = sent.request;
        std::vector<uint64_t> body{1000};
        change(header, body);
        raw.send(sent.connection, header, std::as_bytes(std::span(body)));
        return sent;
    }

    void close(transport::ConnectionId connection) {
        raw.endpoint().close(connection);
        REQUIRE(raw.run_until([&] { return raw.is_closed(connection); }));
        raw.run();
    }

    void check_closed(uint32_t shard, const BadFrame& frame, bool as_worker = true) {
        cluster.clock.advance(RepeatedLog::kIntervalNs);  // so that the line is logged, not counted
        const LogLines log;
        const auto connection = send(shard, frame, as_worker);
        const bool closed = raw.run_until([&] { return raw.is_closed(connection); }, 50);
        INFO("shard " << shard << ": " << frame.what << ", as worker " << as_worker
                      << ", logged: " << log.text());
        REQUIRE(closed);
        REQUIRE(closings(log, cluster.shards[shard]->name(), frame.why) == 1);
        check_served();
    }

    /// Another worker's push to all shards is done, and counted once.
    void check_served() {
        const std::vector<uint64_t> ones(kCountedKeys, 1);
        const auto push = cluster.workers[0]->push(table, KeyRange{0, kCountedKeys},
                                                   std::as_bytes(std::span(ones)), {});
        REQUIRE(cluster.finish(0, push).has_value());
        std::vector<uint64_t> sums(kCountedKeys);
        const auto pull = cluster.workers[1]->pull(table, KeyRange{0, kCountedKeys},
                                                   std::as_writable_bytes(std::span(sums)), {});
        REQUIRE(cluster.finish(1, pull).has_value());
        REQUIRE(sums == std::vector<uint64_t>(kCountedKeys, ++pushes));
    }

    SimCluster cluster;
    RawWorker raw;
    TableInfo table;
    uint64_t pushes = 0;
    uint64_t requests = 0;
    size_t first_shard = 0;  ///< of the shard that has the first key
};

/// The decoder accepts them: only the shard, which knows the table, sees that a size is wrong.
std::vector<BadFrame> ill_fitting_frames() {
    using wire::Kind;
    constexpr int kInlineRange = wire::kKeysRange | wire::kValuesInline;
    constexpr int kRemoteRange = wire::kKeysRange | wire::kValuesRemote;
    std::vector<BadFrame> frames{
        bad_body("a push without its value", Kind::kPush, kInlineRange, 1, {}),
        bad_body("a push of two values", Kind::kPush, kInlineRange, 1, {1, 1}),
        bad_body("a push from no bytes", Kind::kPush, kRemoteRange, 1, {64, 0, 1}),
        bad_body("a push from too many bytes", Kind::kPush, kRemoteRange, 1, {64, 16, 1}),
        bad_body("a pull into no bytes", Kind::kPull, kRemoteRange, 1, {64, 0, 1}),
        bad_body("a pull into too many bytes", Kind::kPull, kRemoteRange, 1, {64, 16, 1}),
        bad_body("a pull that no message holds", Kind::kPull, kInlineRange, 2000, {}),
        bad_body("a pull of the longest range", Kind::kPull, kInlineRange,
                 wire::kRequestKeysMax * 16, {}),
        bad_header("a push of half a value", [](wire::FrameHeader& h) { h.body_bytes = 4; })};
    frames.back().bytes.resize(frames.back().bytes.size() - 4);
    for (BadFrame& frame : frames)
        frame.why = "a push or pull whose size of values does not match its keys";
    return frames;
}

}  // namespace

TEST_SUITE("hostile frames") {
    TEST_CASE("who sends a malformed frame is closed with a reason in the log, others go on") {
        Besieged job;
        uint32_t number = 0;
        for (const BadFrame& frame : malformed_frames()) {
            job.check_closed(number++ % 4, frame);
            job.check_closed(number++ % 4, frame, false);
        }
        CHECK(number > 60);
    }

    TEST_CASE("who sends sizes that do not fit to the table is closed with a reason in the log") {
        Besieged job;
        uint32_t number = 0;
        for (const BadFrame& frame : ill_fitting_frames())
            job.check_closed(number++ % 4, frame);
    }

    TEST_CASE("who sends what a shard does not get, or before its hello, is closed for that") {
        Besieged job;
        for (uint8_t kind = 1; kind <= wire::kKindMax; ++kind) {
            wire::FrameHeader header =
                one_key(static_cast<wire::Kind>(kind), wire::kKeysRange | wire::kValuesInline);
            header.first = 1 << 20;  // of a hello: no worker of this job
            BadFrame frame{"kind " + std::to_string(kind), frame_bytes(header, {})};
            if (header.kind == wire::Kind::kPush) {
                frame.bytes = frame_bytes(header, std::vector<std::byte>(8));
            }
            frame.why = "a frame before the hello that names its worker";
            if (header.kind == wire::Kind::kHello) {
                frame.bytes = frame_bytes(header, HelloMessage{testing::kPass}.encode());
                frame.why = "a hello with the number of a worker that this job does not have";
            }
            if (header.kind == wire::Kind::kFollow) frame.why = "a malformed beginning of a stream";
            job.check_closed(kind % 4, frame, false);
            if (header.kind == wire::Kind::kPush || header.kind == wire::Kind::kPull ||
                header.kind == wire::Kind::kStats || header.kind == wire::Kind::kLeave) {
                continue;
            }
            frame.why = header.kind == wire::Kind::kScan
                            ? "a malformed scan"
                            : "a frame that workers do not send to a shard";
            job.check_closed(kind % 4, frame);
        }
    }

    TEST_CASE("fields that are well made and make no sense are answered with an error, no more") {
        Besieged job;
        const auto refuse = [&](const std::string& what, auto change) {
            INFO(what);
            const Besieged::Sent sent = job.send_request(change);
            REQUIRE(job.raw.run_until([&] { return job.raw.answer(sent.request) != nullptr; }, 50));
            CHECK(job.raw.answer(sent.request)->header.status != Errc::kOk);
            CHECK_FALSE(job.raw.is_closed(sent.connection));
            job.close(sent.connection);
            job.check_served();
        };
        using Header = wire::FrameHeader;
        using Body = std::vector<uint64_t>;
        const Besieged::Sent good = job.send_request([](Header&, Body& body) { body = {0}; });
        REQUIRE(job.raw.run_until([&] { return job.raw.answer(good.request) != nullptr; }, 50));
        CHECK(job.raw.answer(good.request)->header.status == Errc::kOk);
        job.close(good.connection);
        for (const uint32_t word : {0U, 2U, 0x80000000U, 0xffffffffU}) {
            const bool is_early = static_cast<int32_t>(word - 1) > 0;  // it waits
            if (!is_early) refuse("epoch", [&](Header& h, Body&) { h.epoch = word; });
            if (word != 0) refuse("table", [&](Header& h, Body&) { h.table = word; });
        }
        for (const uint8_t type : {uint8_t{0}, uint8_t{1}, uint8_t{6}, uint8_t{255}})
            refuse("type", [&](Header& h, Body&) { h.value_type = type; });
        for (const uint64_t word : {kCountedKeys, uint64_t{1} << 63, ~uint64_t{0}}) {
            refuse("first key", [&](Header& h, Body&) { h.first = word; });
            refuse("key", [&](Header& h, Body& body) {
                h.flags = wire::kKeysInline | wire::kValuesInline;
                body = {word, 1000};
            });
        }
    }

    TEST_CASE("a region that is not the sender's costs it its connection, no more") {
        using Header = wire::FrameHeader;
        using Body = std::vector<uint64_t>;
        for (const bool maps : {false, true}) {
            transport::sim::Options options;
            options.maps_memory = maps;
            Besieged job(options);
            const auto lose = [&](const std::string& what, auto change) {
                INFO(what << ", maps " << maps);
                const Besieged::Sent sent = job.send_request(change);
                REQUIRE(job.raw.run_until([&] { return job.raw.is_closed(sent.connection); }, 50));
                const RawWorker::Answer* const answer = job.raw.answer(sent.request);
                CHECK((answer == nullptr || answer->header.status != Errc::kOk));
                job.raw.run();
                job.check_served();
            };
            for (const uint64_t word :
                 {uint64_t{0}, uint64_t{64}, uint64_t{1} << 63, ~uint64_t{0}}) {
                lose("values", [&](Header& h, Body& body) {
                    h.flags = wire::kKeysRange | wire::kValuesRemote;
                    body = {word, 8, word};
                });
                lose("keys", [&](Header& h, Body& body) {
                    h.flags = wire::kKeysRemote | wire::kValuesInline;
                    body = {word, 8, word, 1000};
                });
                lose("where a pull goes", [&](Header& h, Body& body) {
                    h.kind = wire::Kind::kPull;
                    h.flags = wire::kKeysRange | wire::kValuesRemote;
                    body = {word, 8, word};
                });
            }
        }
    }
}

}  // namespace weir::test
