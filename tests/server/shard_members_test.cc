// SPDX-License-Identifier: Apache-2.0
/// \file
/// Iterations of one shard while views change: workers that come and leave, the question for a
/// first iteration, and segments that it holds no more.

#include <array>
#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/managed_shard.h"
#include "tests/log_lines.h"

namespace weir::test {
namespace {

constexpr uint64_t kMemberCells =
    8;  // keys of the table; the first half lies in the lower half ring

/// A shard with a table, and its workers, whose connections are made when they are needed.
class WithTable : public ManagedShard {
public:
    explicit WithTable(uint32_t workers, uint32_t max_delay = 1) : ManagedShard(workers) {
        TableSchema schema = dense_table("cells", kMemberCells, ValueType::kUInt64);
        schema.max_delay = max_delay;
        make_table(0, schema);
    }

    /// Connects the worker anew, under the next number of its hellos.
    void connect(uint32_t worker) {
        connections_[worker] = raw.hello(shard(), worker, ++hellos_[worker]);
        run();
    }

    struct PartOptions {
        uint32_t parts = 1;
        uint32_t time = 0;   ///< 0: the next one
        uint64_t epoch = 0;  ///< 0: that of the view
        Errc part_status = Errc::kOk;
    };

    /// Sends a worker's part, which adds 1 to each key. Returns its request number.
    uint64_t part(uint32_t worker, uint64_t iteration, KeyRange keys, const PartOptions& options) {
        wire::FrameHeader header = header_of(wire::Kind::kPush, keys);
        header.flags = wire::kKeysRange | wire::kValuesInline;
        return send_part(worker, iteration, header, {}, options);
    }

    uint64_t part(uint32_t worker, uint64_t iteration, KeyRange keys = {0, kMemberCells}) {
        return part(worker, iteration, keys, PartOptions());
    }

    /// The same, of a list that is in the message.
    uint64_t list_part(uint32_t worker, uint64_t iteration, const std::vector<uint64_t>& keys,
                       const PartOptions& options) {
        wire::FrameHeader header = header_of(wire::Kind::kPush, {0, keys.size()});
        header.flags = wire::kKeysInline | wire::kValuesInline;
        return send_part(worker, iteration, header, std::as_bytes(std::span(keys)), options);
    }

    /// How a request ended; nothing if it waits.
    [[nodiscard]] std::optional<Errc> status(uint64_t request) {
        run();
        const RawWorker::Answer* const answer = raw.answer(request);
        return answer == nullptr ? std::nullopt : std::optional(answer->header.status);
    }

    [[nodiscard]] uint64_t pull(uint32_t worker, uint64_t key) {
        wire::FrameHeader header = header_of(wire::Kind::kPull, {key, key + 1});
        header.flags = wire::kKeysRange | wire::kValuesInline;
        header.epoch = static_cast<uint32_t>(view.epoch);
        raw.send(connections_[worker], header);
        REQUIRE(status(header.request) == Errc::kOk);
        uint64_t value = 0;
        REQUIRE(raw.answer(header.request)->body.size() == sizeof value);
        std::memcpy(&value, raw.answer(header.request)->body.data(), sizeof value);
        return value;
    }

    [[nodiscard]] bool is_closed(uint32_t worker) { return raw.is_closed(connections_[worker]); }

private:
    wire::FrameHeader header_of(wire::Kind kind, KeyRange keys) {
        wire::FrameHeader header = testing::frame_header(kind, ++requests_);
        header.value_type = static_cast<uint8_t>(ValueType::kUInt64);
        header.first = keys.begin;
        header.count = static_cast<uint32_t>(keys.key_count());
        return header;
    }

    uint64_t send_part(uint32_t worker, uint64_t iteration, wire::FrameHeader header,
                       std::span<const std::byte> keys, const PartOptions& options) {
        if (!connections_.contains(worker)) connect(worker);
        header.flags |= wire::kAggregate | wire::kIteration;
        header.iteration = iteration;
        header.parts = options.parts;
        header.part_status = options.part_status;
        header.time = options.time != 0 ? options.time : ++time_;
        header.epoch = static_cast<uint32_t>(options.epoch != 0 ? options.epoch : view.epoch);
        std::vector<std::byte> body(keys.begin(), keys.end());
        const std::vector<uint64_t> ones(header.count, 1);
        const auto values = std::as_bytes(std::span(ones));
        body.insert(body.end(), values.begin(), values.end());
        raw.send(connections_[worker], header, body);
        return header.request;
    }

    std::map<uint32_t, transport::ConnectionId> connections_;
    std::map<uint32_t, uint64_t> hellos_;
    uint64_t requests_ = 0;
    uint32_t time_ = 1000;
};

constexpr std::optional<Errc> kWaits = std::nullopt;

}  // namespace

TEST_SUITE("shard_members") {
    TEST_CASE("a worker that joins is waited for from its first iteration on, a leaver no more") {
        WithTable with(2);
        const auto one = with.part(0, 1);
        CHECK(with.status(one) == kWaits);
        CHECK(with.status(with.part(1, 1)) == Errc::kOk);
        CHECK(with.status(one) == Errc::kOk);
        with.view.workers.push_back({2, 2, 1});
        with.view.members.push_back({2, 0, 3});
        with.view.next_worker = 3;
        with.send_view();
        CHECK(with.status(with.part(2, 2)) == Errc::kInvalidArgument);  // before its first
        (void)with.part(0, 2);
        CHECK(with.status(with.part(1, 2)) == Errc::kOk);
        const auto three = with.part(0, 3);
        (void)with.part(1, 3);
        CHECK(with.status(three) == kWaits);
        CHECK(with.status(with.part(2, 3)) == Errc::kOk);
        CHECK(with.pull(0, 0) == 7);
        const auto four = with.part(0, 4);
        (void)with.part(2, 4);
        CHECK(with.status(four) == kWaits);
        with.view.workers.erase(with.view.workers.begin() + 1);
        with.send_view();
        CHECK(with.status(four) == Errc::kOk);
        CHECK(with.is_closed(1));
        with.connect(1);
        with.run();
        CHECK(with.is_closed(1));
        CHECK(with.pull(0, 7) == 9);
    }

    TEST_CASE("iterations before the first member's are empty, without members none ends") {
        WithTable with(1);
        with.view.workers[0].first_iteration = kNoIteration;
        with.view.members.push_back({0, 1, 5});
        with.send_view();
        with.make_table(1, dense_table("later", 1));
        with.make_table(2, dense_table("nobody's", 1));
        CHECK(with.ask(with.view.epoch, {0})[0].first == 3);
        CHECK(with.ask(with.view.epoch, {1})[0].first == 6);  // 1 to 4 are closed
        CHECK(with.ask(with.view.epoch, {2})[0].first == 2);
    }

    TEST_CASE("the manager hears the first iteration above the window, and that one is held") {
        WithTable with(1);
        CHECK(with.status(with.part(0, 1)) == Errc::kOk);
        const uint64_t epoch = with.view.epoch;
        auto answers = with.ask(epoch, {0, 7});
        REQUIRE(answers.size() == 2);
        CHECK(answers[0].epoch == epoch);
        CHECK(answers[0].table == 0);
        CHECK(answers[0].first == 4);
        CHECK(answers[1].table == 7);  // there is no such table here
        CHECK(answers[1].first == 1);
        for (const uint64_t i : {2, 3})
            CHECK(with.status(with.part(0, i)) == Errc::kOk);
        const auto four = with.part(0, 4);
        const auto five = with.part(0, 5);
        CHECK(with.status(four) == kWaits);
        CHECK(with.ask(epoch, {0})[0].first == 4);
        with.view.workers.push_back({1, 1, 1});
        with.view.members.push_back({1, 0, 5});
        with.view.next_worker = 2;
        with.send_view();
        CHECK(with.status(four) == Errc::kOk);
        CHECK(with.status(five) == kWaits);
        CHECK(with.status(with.part(1, 5)) == Errc::kOk);
        CHECK(with.pull(0, 0) == 6);
    }

    TEST_CASE("a question of an older view is answered, and holds nothing") {
        WithTable with(1);
        with.send_view();
        const auto answers = with.ask(1, {0});
        REQUIRE(answers.size() == 1);
        CHECK(answers[0].epoch == 1);
        for (uint64_t i = 1; i <= 9; ++i)
            CHECK(with.status(with.part(0, i)) == Errc::kOk);
    }

    TEST_CASE("what a worker sends before the shard has the worker's view waits for that") {
        WithTable with(1);
        WithTable::PartOptions early;
        early.epoch = 2;
        const auto first = with.part(1, 1, {0, kMemberCells}, early);
        const auto second = with.part(1, 2, {0, kMemberCells}, early);
        CHECK(with.status(first) == kWaits);
        CHECK(with.status(with.part(0, 1)) == Errc::kOk);
        CHECK(with.status(first) == kWaits);
        with.view.workers.push_back({1, 1, 1});
        with.view.members.push_back({1, 0, 2});
        with.view.next_worker = 2;
        with.send_view();
        CHECK(with.status(first) == Errc::kInvalidArgument);
        CHECK(with.status(second) == kWaits);
        CHECK(with.status(with.part(0, 2)) == Errc::kOk);
        CHECK(with.status(second) == Errc::kOk);
        CHECK(with.pull(1, 0) == 3);
    }

    TEST_CASE("a worker whose hello is slower than the view without it is closed without a word") {
        WithTable job(2);
        const testing::LogLines log(LogLevel::kWarning);
        job.connect(0);
        job.view.workers.erase(job.view.workers.begin() + 1);
        job.send_view();
        const transport::ConnectionId late = job.raw.hello(job.shard(), 1);
        job.run();
        CHECK(job.raw.is_closed(late));
        // Here the first view with this shard and worker 2 is one that worker 2 has left already.
        const transport::ConnectionId unknown = job.raw.hello(job.shard(), 2);
        job.run();
        CHECK_FALSE(job.raw.is_closed(unknown));
        job.view.next_worker = 3;
        job.send_view();
        CHECK(job.raw.is_closed(unknown));
        CHECK(log.count("") == 0);
    }

    TEST_CASE("when the primary segments change, open iterations begin anew") {
        WithTable with(2);
        WithTable::PartOptions of_two;
        of_two.parts = 2;
        const auto low = with.part(0, 1, {0, 4}, of_two);
        const auto high = with.part(0, 1, {4, 8}, of_two);
        const auto next = with.part(0, 2);
        const auto later = with.part(0, 3);  // beyond the window
        CHECK(with.status(high) == kWaits);
        with.lose_segment(1);
        for (const uint64_t request : {low, high, next, later})
            CHECK(with.status(request) == Errc::kStaleEpoch);
        WithTable::PartOptions old;
        old.epoch = 1;
        CHECK(with.status(with.part(1, 1, {0, 4}, old)) == Errc::kStaleEpoch);
        // One part now, and the first of iteration 2 is late.
        const auto again = with.part(0, 1, {0, 4});
        CHECK(with.status(again) == kWaits);
        CHECK(with.status(with.part(1, 1, {0, 4})) == Errc::kOk);
        CHECK(with.status(again) == Errc::kOk);
        CHECK(with.pull(0, 0) == 2);
        // Another member's view changes nothing.
        const auto open = with.part(0, 2, {0, 4});
        with.send_view();
        CHECK(with.status(open) == kWaits);
        CHECK(with.status(with.part(1, 2, {0, 4})) == Errc::kOk);
        CHECK(with.status(open) == Errc::kOk);
        CHECK(with.pull(1, 3) == 4);
    }

    TEST_CASE("what is left of one piece has its time, and is told apart by its first key") {
        WithTable with(2);
        WithTable::PartOptions left;
        left.parts = 3;
        left.time = 77;
        with.connect(0);
        with.connect(0);  // parts may be repeated on its second connection
        const auto a = with.list_part(0, 1, {0, 2}, left);
        const auto b = with.list_part(0, 1, {4, 5, 6}, left);
        const auto c = with.part(0, 1, {7, 8}, left);
        CHECK(with.status(with.part(1, 1)) == Errc::kOk);
        for (const uint64_t request : {a, b, c})
            CHECK(with.status(request) == Errc::kOk);
        for (const uint64_t key : {0, 5, 7})
            CHECK(with.pull(1, key) == 2);
        CHECK(with.pull(1, 1) == 1);
    }

    TEST_CASE("a push that comes before its table and its view is one of its connection's pushes") {
        ManagedShard job(1);
        const auto worker = job.raw.hello(job.shard(), 0, 1);
        job.run();
        const std::array<uint64_t, 1> one = {1};
        wire::FrameHeader push = testing::frame_header(wire::Kind::kPush, 1);
        push.value_type = static_cast<uint8_t>(ValueType::kUInt64);
        push.flags = wire::kKeysRange | wire::kValuesInline;
        push.count = 1;
        push.epoch = static_cast<uint32_t>(job.view.epoch + 1);
        job.raw.send(worker, push, std::as_bytes(std::span(one)));
        job.run();
        CHECK(job.raw.answer(1) == nullptr);
        job.make_table(0, dense_table("cells", kMemberCells, ValueType::kUInt64));
        job.send_view();
        REQUIRE(job.raw.answer(1) != nullptr);
        CHECK(job.raw.answer(1)->header.status == Errc::kOk);
        push.request = 2;
        job.raw.send(worker, push, std::as_bytes(std::span(one)));
        job.run();
        REQUIRE(job.raw.answer(2) != nullptr);
        CHECK(job.raw.answer(2)->header.status == Errc::kOk);
    }

    TEST_CASE("a repeated part counts once, and the last connection hears how it ended") {
        WithTable with(2);
        WithTable::PartOptions options;
        options.time = 50;
        with.connect(0);
        const auto first = with.list_part(0, 1, {0, 1}, options);
        with.connect(0);
        const auto again = with.list_part(0, 1, {0, 1}, options);
        CHECK(with.status(again) == kWaits);
        const auto other = with.list_part(0, 1, {2}, options);
        CHECK(with.status(other) == Errc::kInvalidArgument);  // one too many
        CHECK(with.status(with.part(1, 1)) == Errc::kOk);
        CHECK(with.status(again) == Errc::kOk);
        CHECK(with.status(first) == kWaits);
        CHECK(with.pull(0, 0) == 2);
        CHECK(with.pull(0, 2) == 1);
    }

    TEST_CASE("a part of a closed iteration is acknowledged, or hears how that failed") {
        WithTable with(1);
        CHECK(with.status(with.part(0, 1)) == Errc::kOk);
        CHECK(with.status(with.part(0, 1)) == Errc::kOk);  // whose answer was lost, elsewhere
        CHECK(with.pull(0, 0) == 1);
        WithTable::PartOptions withdrawn;
        withdrawn.part_status = Errc::kDeadline;
        CHECK(with.status(with.part(0, 2, {0, 0}, withdrawn)) == Errc::kCancelled);
        CHECK(with.status(with.part(0, 2)) == Errc::kCancelled);
        CHECK(with.status(with.part(0, 3)) == Errc::kOk);
        CHECK(with.status(with.part(0, 2)) == Errc::kCancelled);
        CHECK(with.pull(0, 0) == 2);
    }

    TEST_CASE("a worker that withdraws its parts fails the iteration, also if all have arrived") {
        WithTable with(2);
        const auto arrived = with.part(0, 1);
        WithTable::PartOptions withdrawn;
        withdrawn.part_status = Errc::kDeadline;
        const auto excuse = with.part(0, 1, {0, 0}, withdrawn);
        CHECK(with.status(excuse) == kWaits);  // the iteration is not closed
        CHECK(with.status(with.part(1, 1)) == Errc::kCancelled);
        CHECK(with.status(excuse) == Errc::kCancelled);
        CHECK(with.status(arrived) == Errc::kCancelled);
        (void)with.part(0, 2);
        CHECK(with.status(with.part(1, 2)) == Errc::kOk);
        CHECK(with.pull(0, 0) == 2);
    }

    TEST_CASE("a dead worker that the job goes on without is not waited for from the view on") {
        WithTable with(2);
        const auto open = with.part(0, 1);
        CHECK(with.status(open) == kWaits);
        with.view.workers.pop_back();
        with.send_view();
        CHECK(with.status(open) == Errc::kOk);
        CHECK(with.status(with.part(0, 2)) == Errc::kOk);
    }
}

}  // namespace weir::test
