// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a primary had sent to a backup when it was replaced, and what comes of that later.

#include <cstring>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "lib/wire/record_message.h"
#include "tests/cluster/equal_copies.h"
#include "tests/cluster/managed_shard.h"

namespace weir::test {
namespace {

constexpr uint64_t kCopiedKeys = 8;  // the last four of them are in the upper half of the ring

/// A shard that is a backup of the upper half, beside another one. Its primary, shard 1, is the test.
class WithCopy : public ManagedShard {
public:
    WithCopy() : ManagedShard(1) {
        make_table(0, dense_table("copied", kCopiedKeys, ValueType::kUInt64));
        lose_segment(1);
        send(wire::Kind::kStopped, {});  // what it had of it is dropped
        run();
        view.next_server = view.next_shard = 3;
        view.servers.push_back({2, 2, 2, 1});
        view.shards.push_back({2, 2, 1, "sim:no other"});
        view.segments[1].primary = 1;
        view.segments[1].learner = {0, kNoShard, view.epoch + 1};
        send_view();
        follow();
        RecordMessage begin;
        begin.kind = RecordMessage::Kind::kBegin;
        begin.segments = {{upper_half(), view.epoch}};
        send_record(begin);
        write(1);
        RecordMessage end;
        end.kind = RecordMessage::Kind::kEnd;
        end.segments = begin.segments;
        send_record(end);
        view.segments[1].learner = {};
        view.segments[1].backups = {0, 2, kNoShard};
        send_view();
    }

    /// Shard 1 writes `value` to all keys of the upper half.
    void write(uint64_t value) {
        const std::vector<uint64_t> values(kCopiedKeys / 2, value);
        RecordMessage rows;
        rows.is_range = true;
        rows.first_key = kCopiedKeys / 2;
        rows.row_count = values.size();
        rows.values = std::as_bytes(std::span(values));
        send_record(rows);
    }

    /// The manager replaces shard 1 by shard 2; this shard stays a backup.
    void replace() {
        std::erase_if(view.servers, [](const ViewServer& server) { return server.number == 1; });
        std::erase_if(view.shards, [](const ViewShard& one) { return one.number == 1; });
        view.segments[1].primary = 2;
        view.segments[1].backups = {0, kNoShard, kNoShard};
        send_view();
    }

    /// What the copy has.
    [[nodiscard]] uint64_t value() {
        const CopiedRows rows = rows_of(*shard().tables()[0], upper_half());
        REQUIRE(rows.size() == kCopiedKeys / 2);
        uint64_t value = 0;
        std::memcpy(&value, rows.begin()->second.data(), sizeof value);
        return value;
    }

    [[nodiscard]] bool is_closed() const { return raw.is_closed(connection_); }

private:
    static PositionRange upper_half() { return {kUpperHalf, ~uint64_t{0}}; }

    void follow() {
        connection_ = raw.connect(shard().address());
        wire::FrameHeader header = testing::frame_header(wire::Kind::kFollow);
        header.first = 1;
        raw.send(connection_, header, FollowMessage{view.epoch, 1, 1, 0, testing::kPass}.encode());
        run();
    }

    void send_record(const RecordMessage& record) {
        wire::FrameHeader header = testing::frame_header(wire::Kind::kRecord);
        header.first = ++index_;
        raw.send(connection_, header, record.encode());
        run();
    }

    transport::ConnectionId connection_ = 0;
    uint64_t index_ = 0;
};

}  // namespace

TEST_SUITE("deposed primary") {
    TEST_CASE("a backup takes no more from a primary that was replaced, though it stays a backup") {
        WithCopy cluster;
        REQUIRE(cluster.value() == 1);
        cluster.write(2);
        REQUIRE(cluster.value() == 2);
        REQUIRE_FALSE(cluster.is_closed());
        cluster.replace();
        cluster.write(3);
        // The new primary may lack it, and knows nothing of it.
        CHECK(cluster.value() == 2);
        CHECK(cluster.is_closed());
    }
}

}  // namespace weir::test
