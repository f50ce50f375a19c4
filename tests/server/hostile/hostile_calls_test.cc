// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls of functions that no worker of ours makes: who sends one that is none is closed with a reason; who sends one
/// that cannot be is refused; nothing has changed, and the other worker is served as before.

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/repeated_log.h"
#include "lib/store/functions/function_call.h"
#include "lib/wire/call_message.h"
#include "lib/wire/scan_message.h"
#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker_cluster.h"

namespace weir::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kCalledKeys = 16;

/// A table of sums, and a worker that calls what it likes.
struct Called : RawWorkerCluster {
    Called() : table(make_table(kCalledKeys)) {}

    [[nodiscard]] uint64_t id_of(std::string_view function) {
        return (*cluster.rules.find_function(function))->id;
    }

    /// Of the same values.
    [[nodiscard]] TableInfo another_table(const char* name, uint64_t key_count) {
        TableSchema schema = table.schema;
        schema.name = name;
        schema.key_count = key_count;
        auto made = cluster.make_table(0, schema);
        REQUIRE(made.has_value());
        return *std::move(made);
    }

    struct Sent {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
    };

    /// A push that calls; `body`: behind its header.
    [[nodiscard]] Sent send(const Bytes& body, uint32_t count = kCalledKeys,
                            uint8_t encoding = kEncoding) {
        const Sent sent{raw.hello(*cluster.shards[0], 1, ++connections), ++requests};
        wire::FrameHeader header = range_request(wire::Kind::kPush, sent.request, count);
        header.table = table.schema.id;
        header.epoch = static_cast<uint32_t>(cluster.workers[0]->epoch());
        header.encoding = encoding;
        raw.send(sent.connection, header, body);
        return sent;
    }

    void check_closed(const Bytes& body, uint8_t encoding = kEncoding) {
        cluster.clock.advance(RepeatedLog::kIntervalNs);
        const LogLines log;
        const Sent sent = send(body, kCalledKeys, encoding);
        REQUIRE(raw.run_until([&] { return raw.is_closed(sent.connection); }, 100));
        CHECK(raw.answer(sent.request) == nullptr);
        CHECK(log.text().find("closing the connection to") != std::string::npos);
        check_served();
    }

    void check_refused(const CallMessage& call, Errc why, uint32_t count = kCalledKeys) {
        const Sent sent = send(call.encode_with_count(), count);
        REQUIRE(raw.run_until([&] { return raw.answer(sent.request) != nullptr; }, 100));
        CHECK(raw.answer(sent.request)->header.status == why);
        CHECK_FALSE(raw.is_closed(sent.connection));
        check_served();
    }

    /// Nothing has changed but what the other worker pushes.
    void check_served() {
        const std::vector<double> pushed(kCalledKeys, 1);
        REQUIRE(cluster.finish(0, push_sums(cluster, 0, table, pushed)));
        CHECK(pull_sums(cluster, table) == std::vector<double>(kCalledKeys, ++pushes));
    }

    static constexpr uint8_t kEncoding = wire::kCalls | wire::kHasArguments;

    TableInfo table;
    uint64_t connections = 0;
    uint64_t requests = 0;
    double pushes = 0;
};

CallMessage call_of(uint64_t function, std::vector<double> numbers = {},
                    std::vector<uint32_t> tables = {}) {
    return {function, std::move(numbers), std::move(tables)};
}

}  // namespace

TEST_SUITE("hostile_calls") {
    TEST_CASE("who sends a call that is none is closed with a reason, and the shard goes on") {
        Called job;
        Bytes good = call_of(job.id_of("scale"), {2}).encode_with_count();
        const auto with_word = [&](size_t word, uint64_t value) {
            Bytes bytes = good;
            std::memcpy(bytes.data() + word * sizeof value, &value, sizeof value);
            return bytes;
        };
        job.check_closed({});
        job.check_closed(with_word(0, 0));
        job.check_closed(with_word(0, wire::kCallWordsMax + 1));
        job.check_closed(with_word(0, ~uint64_t{0}));
        job.check_closed(with_word(0, 2));
        job.check_closed(with_word(2, 0));                  // no number, and one is left
        job.check_closed(with_word(2, 2));                  // one that is not there
        job.check_closed(with_word(2, uint64_t{9} << 32));  // 9 tables
        job.check_closed(with_word(2, ~uint64_t{0}));
        Bytes longer = good;
        longer.resize(good.size() + sizeof(uint64_t));  // values
        job.check_closed(longer);
        job.check_closed(good, wire::kCalls);
        job.check_closed(good, Called::kEncoding | wire::kErases);
        job.check_closed(good, Called::kEncoding | wire::kWantsValues);
        job.check_closed(good, Called::kEncoding | wire::kWholeRows);
    }

    TEST_CASE("what a call names and is not there, or cannot be, is refused") {
        Called job;
        const TableInfo other = job.another_table("other", kCalledKeys + 1);
        const uint32_t own = job.table.schema.id;
        constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
        job.check_refused(call_of(1), Errc::kUnavailable);
        job.check_refused(call_of(job.id_of("sum")), Errc::kUnavailable);  // which reads
        job.check_refused(call_of(job.id_of("scale")), Errc::kInvalidArgument);
        job.check_refused(call_of(job.id_of("scale"), {1, 2}), Errc::kInvalidArgument);
        job.check_refused(call_of(job.id_of("scale"), {kNan}), Errc::kInvalidArgument);
        job.check_refused(call_of(job.id_of("axpy"), {1}), Errc::kInvalidArgument);
        job.check_refused(call_of(job.id_of("axpy"), {1}, {own}), Errc::kInvalidArgument);
        job.check_refused(call_of(job.id_of("axpy"), {1}, {other.schema.id}), Errc::kTypeMismatch);
        job.check_refused(call_of(job.id_of("axpy"), {1}, {77}), Errc::kNotFound);
        job.check_refused(call_of(job.id_of("axpy"), {1}, {~uint32_t{0}}), Errc::kNotFound);
        // More rows than a poll has time for, in a table that has them.
        const TableInfo large = job.another_table("large", uint64_t{1} << 21);
        job.table.schema.id = large.schema.id;
        const Called::Sent sent =
            job.send(call_of(job.id_of("scale"), {2}).encode_with_count(), uint32_t{1} << 21);
        REQUIRE(job.raw.run_until([&] { return job.raw.answer(sent.request) != nullptr; }, 100));
        CHECK(job.raw.answer(sent.request)->header.status == Errc::kInvalidArgument);
    }

    TEST_CASE("a function that reads, asked in a wrong way") {
        Called job;
        ClientCore& core = *job.cluster.workers[0];
        ScanMessage message;
        message.epoch = core.epoch();
        message.table = job.table.schema.id;
        message.width = job.table.schema.width;
        message.value_type = static_cast<uint8_t>(job.table.schema.value_type);
        const auto ask = [&](const CallMessage& call, uint64_t cursor = 0,
                             size_t memory = 64) -> Result<FunctionResult> {
            message.call = call;
            message.begins = cursor == 0;
            message.cursor = cursor;
            const auto id = core.scan(0, message, Block(core.memory(), memory), 0);
            REQUIRE(job.cluster.run_until([&] { return core.done(id); }));
            auto scanned = core.take_scan(id);
            if (!scanned) return scanned.error();
            const auto reply = ScanReply::decode(scanned->body);
            REQUIRE(reply.has_value());
            const auto result = decode_result({scanned->memory.data(), reply->row_count});
            REQUIRE(result.has_value());
            return *result;
        };
        job.check_served();
        CHECK(ask(call_of(job.id_of("sum")))->numbers == std::vector<double>{kCalledKeys});
        CHECK(ask(call_of(3)).code() == Errc::kUnavailable);
        CHECK(ask(call_of(job.id_of("scale"), {2})).code() == Errc::kUnavailable);
        CHECK(ask(call_of(job.id_of("dot"))).code() == Errc::kInvalidArgument);
        CHECK(ask(call_of(job.id_of("dot"), {}, {99})).code() == Errc::kNotFound);
        CHECK(ask(call_of(job.id_of("top"), {16, 0}), 0, 64).code() ==
              Errc::kOutOfRange);  // no room
        // Any cursor is safe.
        for (uint64_t cursor = 1; cursor < 2000; cursor += 13) {
            const Result<FunctionResult> some = ask(call_of(job.id_of("sum")), mix64(cursor));
            REQUIRE(some);
            CHECK(some->numbers[0] <= kCalledKeys);
        }
        job.check_served();
    }
}

}  // namespace weir::test
