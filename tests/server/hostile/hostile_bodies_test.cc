// SPDX-License-Identifier: Apache-2.0
/// \file
/// Encoded bodies that are none: who sends one gets an error, its connection is closed with a reason in the log,
/// nothing has changed, and the other worker is served as before.

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/repeated_log.h"
#include "lib/filter/body.h"
#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker_cluster.h"

namespace weir::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kCount = 16;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

Bytes operator+(Bytes left, const Bytes& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

Bytes ones(size_t count) {
    return bytes_of(std::vector<double>(count, 1));
}

/// A body for a push of 16 keys of float64 that is none.
struct BadBody {
    std::string what;
    Codecs codecs = 0;
    Bytes body;
    uint8_t keys = wire::kKeysRange;
};

std::vector<BadBody> bad_bodies() {
    const auto bitmap = [](uint16_t bits) { return bytes_of(std::vector<uint16_t>{bits}); };
    const auto number = [](uint32_t value) { return bytes_of(std::vector<uint32_t>{value}); };
    // What Snappy begins with: a length, in groups of seven bits.
    const Bytes bomb{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                     std::byte{0xff}, std::byte{0x0f}, std::byte{0}};
    std::vector<BadBody> bodies{
        {"kept: a row too few", kKept, bitmap(7) + ones(2)},
        {"kept: a row too many", kKept, bitmap(7) + ones(4)},
        {"kept: half a row", kKept, bitmap(1) + Bytes(4)},
        {"kept: half a bitmap", kKept, Bytes(1)},
        {"zeros: a value too few", kZeros, bitmap(7) + ones(2)},
        {"zeros: a value too many", kZeros, bitmap(0) + ones(1)},
        {"compress: a bomb", kCompress, bomb},
        {"compress: no length", kCompress, Bytes(6, std::byte{0xff})},
        {"compress: of other values", kCompress, Bytes{std::byte{1}, std::byte{0}, std::byte{1}}},
        {"compress: it reads behind its end", kCompress,
         Bytes{std::byte{128}, std::byte{1}, std::byte{0xfc}, std::byte{0xff}}},
        {"integers: a byte", kIntegers, Bytes(1)},
        {"integers: more bits than a value", kIntegers, Bytes{std::byte{60}} + Bytes(200)},
        {"integers: a scale beyond all", kIntegers,
         Bytes{std::byte{0}, std::byte{0xff}, std::byte{0x7f}} + Bytes(8)},
        {"integers: bytes are left", kIntegers, Bytes(12)},
        {"halves of float64", kHalves, Bytes(32)},
        {"a codec that the table does not have", kTablesOwn, Bytes(16)},
        {"factors: no rank", kFactors, Bytes(2)},
        {"factors: rank 0", kFactors, number(0) + ones(1)},
        {"factors: a rank beyond all", kFactors, number(~uint32_t{0}) + ones(4)},
        {"factors: more numbers than rows", kFactors, number(16) + ones(100)},
        {"factors: a number too few", kFactors, number(1) + ones(16)},
        {"key differences: of too many keys", kKeyDifferences,
         number(20) + Bytes(20) + ones(kCount), wire::kKeysInline},
        {"key differences: they end early", kKeyDifferences,
         number(16) + Bytes(15, std::byte{0}) + Bytes{std::byte{0x80}} + ones(kCount),
         wire::kKeysInline},
        {"key differences: longer than the body", kKeyDifferences, number(~uint32_t{0}),
         wire::kKeysInline},
        {"key differences: other ends than the push says", kKeyDifferences,
         number(16) + Bytes(16) + ones(kCount), wire::kKeysInline},
    };
    return bodies;
}

/// A table of sums, and a worker that sends what it likes.
struct Bombarded : RawWorkerCluster {
    Bombarded() : table(make_table(kCount)) {}

    struct Sent {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
    };

    [[nodiscard]] Sent send(const BadBody& bad, uint64_t iteration = 0) {
        const Sent sent{raw.hello(*cluster.shards[0], 1, ++connections), ++requests};
        wire::FrameHeader header = range_request(wire::Kind::kPush, sent.request, kCount);
        header.table = table.schema.id;
        header.epoch = static_cast<uint32_t>(cluster.workers[0]->epoch());
        header.encoding = wire::kEncoded;
        header.flags = static_cast<uint8_t>(bad.keys | wire::kValuesInline);
        if (iteration != 0) {
            header.flags |= wire::kAggregate | wire::kIteration;
            header.iteration = iteration;
            header.parts = 1;
        }
        Bytes body = bytes_of(std::vector<uint64_t>{bad.codecs});
        if (bad.keys == wire::kKeysInline) body = body + bytes_of(std::vector<uint64_t>{3, 18});
        raw.send(sent.connection, header, body + bad.body);
        return sent;
    }

    void check_closed(const BadBody& bad) {
        INFO(bad.what);
        cluster.clock.advance(RepeatedLog::kIntervalNs);  // so that the line is logged, not counted
        const LogLines log;
        const Sent sent = send(bad);
        REQUIRE(raw.run_until([&] { return raw.is_closed(sent.connection); }, 100));
        const RawWorker::Answer* const answer = raw.answer(sent.request);
        if (answer != nullptr) CHECK(answer->header.status == Errc::kProtocol);
        size_t closed = 0;
        for (const std::string& line : log.lines())
            closed += line.find("closing the connection to") != std::string::npos;
        CHECK_MESSAGE(closed == 1, log.text());
        check_served();
    }

    /// Nothing has changed but what the other worker pushes.
    void check_served() {
        const std::vector<double> pushed(kCount, 1);
        REQUIRE(cluster.finish(0, push_sums(cluster, 0, table, pushed)));
        CHECK(pull_sums(cluster, table) == std::vector<double>(kCount, ++pushes));
    }

    TableInfo table;
    uint64_t connections = 0;
    uint64_t requests = 0;
    double pushes = 0;
};

}  // namespace

TEST_SUITE("hostile_bodies") {
    TEST_CASE("who sends a body that is none is closed with a reason, and the shard goes on") {
        Bombarded job;
        for (const BadBody& bad : bad_bodies())
            job.check_closed(bad);
    }

    TEST_CASE("a body that would become more than any push has is not looked at") {
        Bombarded job;
        const Bombarded::Sent sent{job.raw.hello(*job.cluster.shards[0], 1, ++job.connections),
                                   ++job.requests};
        wire::FrameHeader header =
            range_request(wire::Kind::kPush, sent.request,
                          static_cast<uint32_t>(wire::kRequestBytesMax / sizeof(double)) + 1);
        header.encoding = wire::kEncoded;
        const LogLines log;
        job.raw.send(sent.connection, header,
                     bytes_of(std::vector<uint64_t>{kZeros | kCompress}) + Bytes(100));
        REQUIRE(job.raw.run_until([&] { return job.raw.is_closed(sent.connection); }, 100));
        CHECK(job.raw.answer(sent.request) == nullptr);
        CHECK(log.text().find("whose size of values does not match its keys") != std::string::npos);
        job.check_served();
    }

    TEST_CASE("a part whose body is none fails its iteration for all") {
        Bombarded job;
        const Bombarded::Sent sent = job.send({"kept", kKept, Bytes(1)}, 1);
        REQUIRE(job.raw.run_until([&] { return job.raw.is_closed(sent.connection); }, 100));
        const std::vector<double> pushed(kCount, 1);
        const Status part =
            job.cluster.finish(0, push_sums(job.cluster, 0, job.table, pushed, in_iteration(1)));
        CHECK_FALSE(part.has_value());
        job.check_served();
    }

    TEST_CASE("what is encoded and may not be is malformed") {
        Bombarded job;
        const auto malformed = [&](const char* what, const BadBody& bad, uint8_t also = 0) {
            INFO(what);
            const Bombarded::Sent sent{job.raw.hello(*job.cluster.shards[0], 1, ++job.connections),
                                       ++job.requests};
            wire::FrameHeader header = range_request(wire::Kind::kPush, sent.request, kCount);
            header.encoding = wire::kEncoded | also;
            header.flags = static_cast<uint8_t>(bad.keys | wire::kValuesInline);
            job.raw.send(sent.connection, header,
                         bytes_of(std::vector<uint64_t>{bad.codecs, 3, 18}) + ones(kCount));
            REQUIRE(job.raw.run_until([&] { return job.raw.is_closed(sent.connection); }, 100));
            CHECK(job.raw.answer(sent.request) == nullptr);
            job.check_served();
        };
        malformed("no codecs", {"", 0, {}});
        malformed("a codec that nobody knows", {"", kAllCodecs + 1, {}});
        malformed("two codecs of values", {"", kIntegers | kHalves, {}});
        malformed("kept and factors", {"", kKept | kFactors, {}});
        malformed("keys of a range", {"", kKeyDifferences, {}});
        malformed("keys of a push that wants values", {"", kKeyDifferences, {}, wire::kKeysInline},
                  wire::kWantsValues);
        malformed("whole rows", {"", kZeros, {}}, wire::kWholeRows);
        malformed("an erasure", {"", kZeros, {}}, wire::kErases);
    }
}

}  // namespace weir::test
