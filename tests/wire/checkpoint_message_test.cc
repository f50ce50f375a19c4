// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/checkpoint_message.h"

#include <vector>

#include <doctest/doctest.h>

namespace weir {
namespace {

/// That each beginning of the bytes, and the bytes with one more behind them, are refused.
template <class Message>
void check_length(std::vector<std::byte> bytes) {
    for (size_t size = 0; size < bytes.size(); ++size)
        CHECK_FALSE(Message::decode(std::span(bytes).first(size)));
    bytes.push_back({});
    CHECK_FALSE(Message::decode(bytes));
}

}  // namespace

TEST_SUITE("checkpoint_message") {
    TEST_CASE("orders and reports are read as they were written") {
        CheckpointOrder order{.step = CheckpointOrder::Step::kTake, .has_more = true, .number = 7};
        order.folder = "/scratch/run";
        order.tables = {{0, 5}, {3, 9}};
        CHECK(CheckpointOrder::decode(order.encode()) == order);
        check_length<CheckpointOrder>(order.encode());
        CheckpointReport report{.step = CheckpointReport::Step::kChunk, .number = 7};
        report.tables = {{1, 2}};
        report.chunk = {2, {5, 9}, 10, 11, 12, "000007.t2.chunk"};
        CHECK(CheckpointReport::decode(report.encode()) == report);
        check_length<CheckpointReport>(report.encode());
        report = {.step = CheckpointReport::Step::kFailed, .status = Errc::kIo, .why = "full"};
        CHECK(CheckpointReport::decode(report.encode()) == report);
    }

    TEST_CASE("what no shard and no manager says is refused") {
        CheckpointOrder order;
        order.step = static_cast<CheckpointOrder::Step>(6);
        CHECK_FALSE(CheckpointOrder::decode(order.encode()));
        order.step = CheckpointOrder::Step::kTake;
        order.tables.resize(CheckpointOrder::kTablesMax + 1);
        CHECK_FALSE(CheckpointOrder::decode(order.encode()));
        CheckpointReport report{.step = CheckpointReport::Step::kFailed};
        CHECK_FALSE(CheckpointReport::decode(report.encode()));  // with no error
        report.status = static_cast<Errc>(1000);
        CHECK_FALSE(CheckpointReport::decode(report.encode()));
    }

    TEST_CASE("of many tables the first ones are told") {
        ResumedMessage message{.checkpoint = 3, .tables = {}};
        for (uint64_t i = 0; i < 50; ++i)
            message.tables.push_back({"table " + std::to_string(i), i});
        CHECK(ResumedMessage::decode(message.encode(1 << 20)) == message);
        const auto some = ResumedMessage::decode(message.encode(200));
        REQUIRE(some);
        CHECK(some->tables.size() < 12);
        CHECK(some->tables.size() > 4);
        CHECK(some->tables.back() == message.tables[some->tables.size() - 1]);
        ResumedMessage none;
        CHECK(ResumedMessage::decode(none.encode(100)) == none);
    }

    TEST_CASE("of many checkpoints the last ones are told, and not more are taken") {
        WrittenMessage message{.ended_count = 1000};
        for (uint64_t i = 0; i < WrittenMessage::kCheckpointsMax; ++i)
            message.checkpoints.push_back({1000 - i, i});
        CHECK(WrittenMessage::decode(message.encode(1 << 20)) == message);
        const auto some = WrittenMessage::decode(message.encode(8 + 5 * 20 + 19));
        REQUIRE(some);
        CHECK(some->ended_count == 1000);
        CHECK(some->checkpoints.size() == 5);
        CHECK(some->checkpoints.back() == message.checkpoints[4]);
        auto bytes = message.encode(1 << 20);
        CHECK_FALSE(WrittenMessage::decode(std::span(bytes).first(27)));
        bytes.resize(bytes.size() + 20);
        CHECK_FALSE(WrittenMessage::decode(bytes));
    }

    TEST_CASE("why checkpoints failed is told, but not at any length") {
        WrittenMessage message{.ended_count = 3};
        message.checkpoints = {{3, 10}, {0, 20, "the folder is gone"}, {1, 30}};
        CHECK(WrittenMessage::decode(message.encode(1 << 20)) == message);
        CHECK(WrittenMessage::decode(message.encode(8 + 3 * 20 + 17))->checkpoints.size() == 2);
        message.checkpoints[1].failure.assign(WrittenMessage::kFailureBytesMax + 1, 'x');
        const auto cut = WrittenMessage::decode(message.encode(1 << 20));
        REQUIRE(cut);
        CHECK(cut->checkpoints[1].failure == std::string(WrittenMessage::kFailureBytesMax, 'x'));
        CHECK(cut->checkpoints[2] == message.checkpoints[2]);
        message.ended_count = 2;  // fewer than it names
        CHECK_FALSE(WrittenMessage::decode(message.encode(1 << 20)));
    }
}

}  // namespace weir
