// SPDX-License-Identifier: Apache-2.0
/// \file
/// The tables of a job, as the manager keeps them: what becomes of one that a shard cannot make.

#include "lib/manager/job_tables.h"

#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/schema_codec.h"
#include "tests/node/fake_endpoint.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

using testing::Bytes;
using wire::Kind;

constexpr const char* kTooBig = "shard 1: too big";

/// Two shards, 0 and 1, and some workers.
struct Tables {
    Tables() {
        for (uint32_t number = 0; number < 2; ++number)
            shards.live.push_back({number, endpoint.accept()});
    }

    /// A worker asks for a table. Returns its connection.
    transport::ConnectionId ask(const std::string& name, const std::string& schema = "schema") {
        const Asker asker{endpoint.accept(), 7, 0};
        made = tables.create(asker, {0, name, schema, 0, 0}, shards);
        return asker.connection;
    }

    /// A worker drops a table. Returns its connection.
    transport::ConnectionId drop(const std::string& name) {
        const Asker asker{endpoint.accept(), 7, 0};
        was_dropped = tables.drop(asker, name, shards);
        return asker.connection;
    }

    /// What the worker has been told; nothing: it waits.
    [[nodiscard]] std::optional<Errc> told(transport::ConnectionId worker) {
        if (endpoint.sent(worker).empty()) return std::nullopt;
        return last(worker).header.status;
    }

    [[nodiscard]] Status answer(uint32_t shard, uint32_t table, Errc status = Errc::kOk) {
        wire::FrameHeader header = wire::header_of(Kind::kReply);
        header.request = table;
        header.status = status;
        const Bytes bytes =
            testing::bytes_of_frame(header, status == Errc::kOk ? Bytes() : encode_text(kTooBig));
        wire::Frame frame;
        REQUIRE(wire::decode(bytes, frame) == Errc::kOk);
        return tables.made(shard, "shard", frame);
    }

    void report_filled(uint32_t shard, uint32_t table, Errc status) {
        CheckpointReport report{.step = CheckpointReport::Step::kFilled, .number = table};
        report.status = status;
        report.why = "no such file";
        tables.filled(shard, report);
    }

    /// The last frame that was sent there.
    [[nodiscard]] wire::Frame last(transport::ConnectionId connection) {
        wire::Frame frame;
        REQUIRE_FALSE(endpoint.sent(connection).empty());
        REQUIRE(wire::decode(endpoint.sent(connection).back(), frame) == Errc::kOk);
        return frame;
    }

    /// Which tables the peer was told to drop, in order.
    [[nodiscard]] std::vector<uint64_t> dropped(transport::ConnectionId connection) {
        std::vector<uint64_t> numbers;
        for (const Bytes& bytes : endpoint.sent(connection)) {
            const wire::FrameHeader header = testing::header_in(bytes);
            if (header.kind == Kind::kDropTable) numbers.push_back(header.first);
        }
        return numbers;
    }

    /// The manager goes on from a checkpoint with one table.
    void resume() {
        checkpoint::Manifest manifest;
        manifest.number = 3;
        manifest.tables = {testing::sparse_table("old")};
        manifest.tables[0].rule_version = 1;
        manifest.tables[0].rule_hash = 11;
        tables.resume(manifest, "folder");
    }

    /// Of the table as a shard gets it.
    [[nodiscard]] TableSchema sent_schema(uint32_t shard) {
        const auto message = TableMessage::decode(last(shards.live[shard].connection).values);
        REQUIRE(message.has_value());
        const auto schema = decode_schema(message->schema);
        REQUIRE(schema.has_value());
        return *schema;
    }

    testing::FakeEndpoint endpoint;
    Outbox outbox{endpoint};
    JobTables tables{outbox};
    JobShards shards;
    std::optional<uint32_t> made;         ///< by the last ask()
    std::optional<uint32_t> was_dropped;  ///< by the last drop()
};

}  // namespace

TEST_SUITE("job tables") {
    TEST_CASE(
        "tables are listed as far as they fit, but for those that are not made, and Weir's own") {
        Tables job;
        for (const char* const name : {"a", "weir.sums", "b", "unmade", "c"})
            (void)job.ask(name);
        for (const uint32_t table : {0, 1, 2, 4}) {
            for (const uint32_t shard : {0, 1})
                REQUIRE(job.answer(shard, table).has_value());
        }
        const auto names = [](const TableListMessage& list) {
            std::string all;
            for (const TableMessage& table : list.tables)
                all += table.name + std::to_string(table.table);
            return all;
        };
        const TableListMessage all = job.tables.list(0, 4096);
        CHECK(names(all) == "a0b2c4");
        CHECK(all.next == 0);
        const TableListMessage some = job.tables.list(1, all.encode().size() - 1 - 19);
        CHECK(names(some) == "b2");
        CHECK(some.next == 4);
        CHECK(names(job.tables.list(some.next, 1)) == "c4");  // one at least
        CHECK(job.tables.list(5, 4096).tables.empty());
        const auto decoded = TableListMessage::decode(some.encode());
        REQUIRE(decoded.has_value());
        CHECK(names(*decoded) == "b2");
        CHECK(decoded->next == 4);
        TableListMessage wrong = some;
        wrong.next = 2;  // goes back
        CHECK_FALSE(TableListMessage::decode(wrong.encode()));
        wrong = all;
        std::swap(wrong.tables[0], wrong.tables[1]);
        CHECK_FALSE(TableListMessage::decode(wrong.encode()));
        CHECK_FALSE(TableListMessage::decode(TableListMessage{.next = 1}.encode()));
        CHECK_FALSE(TableListMessage::decode({}));
    }

    TEST_CASE("a table that one shard cannot make is dropped by all, and its name is free") {
        Tables job;
        const auto first = job.ask("w");
        const auto second = job.ask("w");
        REQUIRE(job.answer(0, 0).has_value());
        CHECK(job.tables.is_making());
        CHECK(job.endpoint.sent(first).empty());
        REQUIRE(job.answer(1, 0, Errc::kNoMemory).has_value());
        for (const auto worker : {first, second}) {
            CHECK(job.last(worker).header.status == Errc::kNoMemory);
            CHECK(decode_text(job.last(worker).values) == kTooBig);
        }
        for (const ShardPeer& shard : job.shards.live)
            CHECK(job.dropped(shard.connection) == std::vector<uint64_t>{0});
        CHECK_FALSE(job.tables.is_making());
        CHECK(job.tables.take_refused() == std::vector<uint32_t>{0});
        CHECK(job.tables.count() == 0);
        CHECK(job.tables.size() == 1);

        const auto again = job.ask("w");
        CHECK(job.made == 1U);
        REQUIRE(job.answer(0, 1).has_value());
        REQUIRE(job.answer(1, 1).has_value());
        CHECK(job.last(again).header.status == Errc::kOk);
        CHECK(job.tables.take_refused().empty());
        CHECK(job.tables.count() == 1);
        CHECK(job.endpoint.sent(first).size() == 1);
    }

    TEST_CASE("a shard that joins gets no table that was refused before") {
        Tables job;
        (void)job.ask("w");
        REQUIRE(job.answer(0, 0, Errc::kNoMemory).has_value());
        REQUIRE(job.answer(1, 0).has_value());
        const ShardPeer joiner{2, job.endpoint.accept()};
        job.tables.send_all(joiner);
        CHECK(job.endpoint.sent(joiner.connection).empty());
    }

    TEST_CASE("a shard that joins while a table is being made is waited for, and drops it, too") {
        for (const bool is_refused_before : {false, true}) {
            CAPTURE(is_refused_before);
            Tables job;
            const auto worker = job.ask("w");
            const ShardPeer joiner{2, job.endpoint.accept()};
            if (is_refused_before) REQUIRE(job.answer(0, 0, Errc::kNoMemory).has_value());
            job.tables.send_all(joiner);
            if (!is_refused_before) REQUIRE(job.answer(0, 0, Errc::kNoMemory).has_value());
            REQUIRE(job.answer(1, 0).has_value());
            CHECK(job.endpoint.sent(worker).empty());
            REQUIRE(job.answer(2, 0).has_value());
            CHECK(job.last(worker).header.status == Errc::kNoMemory);
            CHECK(job.dropped(joiner.connection) == std::vector<uint64_t>{0});
        }
    }

    TEST_CASE("a table that a shard refuses is dropped when one that dies was the last to answer") {
        Tables job;
        const auto worker = job.ask("w");
        REQUIRE(job.answer(0, 0, Errc::kNoMemory).has_value());
        job.tables.forget_shard(1, Error(Errc::kPeerLost, "server 1 is gone"));
        CHECK(job.last(worker).header.status == Errc::kNoMemory);
        CHECK(job.dropped(job.shards.live[0].connection) == std::vector<uint64_t>{0});
        CHECK(job.dropped(job.shards.live[1].connection).empty());
        CHECK(job.tables.take_refused() == std::vector<uint32_t>{0});
    }

    TEST_CASE("a table of the checkpoint that cannot be made is unread again, under its number") {
        Tables job;
        job.resume();
        CHECK(job.tables.count() == 1);
        const auto worker = job.ask("old");
        REQUIRE(job.answer(0, 0).has_value());
        REQUIRE(job.answer(1, 0, Errc::kNoMemory).has_value());
        CHECK(job.last(worker).header.status == Errc::kNoMemory);
        CHECK(job.dropped(job.shards.live[0].connection) == std::vector<uint64_t>{0});
        CHECK(job.tables.unread_tables() == std::vector<uint32_t>{0});

        const auto again = job.ask("old");
        CHECK(job.made == 0U);
        CHECK(job.tables.unread_tables().empty());
        for (const uint32_t shard : {0, 1})
            REQUIRE(job.answer(shard, 0).has_value());
        for (const uint32_t shard : {0, 1})
            job.report_filled(shard, 0, Errc::kOk);
        CHECK(job.last(again).header.status == Errc::kOk);
        CHECK(job.dropped(job.shards.live[0].connection).size() == 1);
    }

    TEST_CASE(
        "a table of the checkpoint goes on with the rule of who wants it, if it has the same "
        "name") {
        for (const bool has_same_name : {true, false}) {
            Tables job;
            job.resume();
            TableSchema wanted = testing::sparse_table("old");
            wanted.rule_version = 2;
            wanted.rule_hash = 22;
            if (!has_same_name) wanted.rule = "sgd";
            job.ask("old", encode_schema(wanted));
            for (const uint32_t shard : {0, 1}) {
                const TableSchema sent = job.sent_schema(shard);
                CHECK(sent.rule == "add");
                CHECK(sent.rule_version == (has_same_name ? 2 : 1));
                CHECK(sent.rule_hash == (has_same_name ? 22 : 11));
            }
        }
    }

    TEST_CASE("what a rule of other rows was compared by is not taken for that of the checkpoint") {
        Tables job;
        job.resume();
        TableSchema wanted = testing::sparse_table("old");
        wanted.width = 7;
        wanted.rule_hash = 22;
        job.ask("old", encode_schema(wanted));
        CHECK(job.sent_schema(0).width == 1);
        CHECK(job.sent_schema(0).rule_hash == 0);  // the worker tells the widths
    }

    TEST_CASE("a table of the checkpoint that cannot be read is dropped and refused for good") {
        Tables job;
        job.resume();
        const auto worker = job.ask("old");
        for (const uint32_t shard : {0, 1})
            REQUIRE(job.answer(shard, 0).has_value());
        job.report_filled(0, 0, Errc::kOk);
        job.report_filled(1, 0, Errc::kNotFound);
        CHECK(job.last(worker).header.status == Errc::kNotFound);
        CHECK(job.tables.count() == 0);
        CHECK(job.tables.unread_tables() == std::vector<uint32_t>{0});  // for later checkpoints
        job.tables.forget_unread();
        CHECK(job.tables.unread_tables() == std::vector<uint32_t>{0});  // somebody wanted it

        const auto again = job.ask("old");
        CHECK_FALSE(job.made.has_value());
        CHECK(decode_text(job.last(again).values) == "no such file");
        const ShardPeer joiner{2, job.endpoint.accept()};
        job.tables.send_all(joiner);
        CHECK(job.endpoint.sent(joiner.connection).empty());
        for (const ShardPeer& shard : job.shards.live)
            CHECK(job.dropped(shard.connection) == std::vector<uint64_t>{0});
    }

    TEST_CASE("a table of the checkpoint is read when others have taken over from a lost shard") {
        for (const bool is_lost_for_good : {false, true}) {
            CAPTURE(is_lost_for_good);
            Tables job;
            job.resume();
            job.shards.lost = {7};
            const auto worker = job.ask("old");
            for (const uint32_t shard : {0, 1})
                REQUIRE(job.answer(shard, 0).has_value());
            CHECK(job.tables.is_making());
            CHECK(job.tables.is_filling());
            for (const ShardPeer& shard : job.shards.live)
                CHECK(job.last(shard.connection).header.kind == Kind::kCreateTable);
            if (is_lost_for_good) {
                job.tables.forget_shard(7, Error(Errc::kPeerLost, "server 7 is gone"));
                CHECK(job.last(worker).header.status == Errc::kPeerLost);
                continue;
            }
            job.tables.forget_shard(7);
            for (const ShardPeer& shard : job.shards.live)
                CHECK(job.last(shard.connection).header.kind == Kind::kCheckpoint);
            CHECK(job.endpoint.sent(worker).empty());
            for (const uint32_t shard : {0, 1})
                job.report_filled(shard, 0, Errc::kOk);
            CHECK(job.last(worker).header.status == Errc::kOk);
        }
    }

    TEST_CASE("a table that a worker drops is gone for all, and its name is free") {
        Tables job;
        (void)job.ask("w");
        CHECK(job.told(job.drop("w")) == Errc::kBusy);  // it is being made
        for (const uint32_t shard : {0, 1})
            REQUIRE(job.answer(shard, 0).has_value());
        CHECK(job.told(job.drop("other")) == Errc::kNotFound);
        const ShardPeer early{2, job.endpoint.accept()};
        job.tables.send_all(early);
        CHECK(job.last(early.connection).header.kind == Kind::kCreateTable);

        job.shards.live.push_back(early);
        (void)job.drop("w");
        CHECK(job.was_dropped == 0U);
        CHECK(job.told(job.drop("w")) == Errc::kNotFound);
        CHECK(job.tables.take_refused() == std::vector<uint32_t>{0});
        CHECK(job.tables.count() == 0);
        CHECK(job.tables.made_tables().empty());
        REQUIRE(job.answer(2, 0, Errc::kNoMemory).has_value());  // no matter now
        for (const ShardPeer& shard : job.shards.live)
            CHECK(job.dropped(shard.connection) == std::vector<uint64_t>{0});
        job.shards.live.pop_back();
        // It never had the table, but others may go on to send it rows.
        const ShardPeer late{3, job.endpoint.accept()};
        job.tables.send_all(late);
        CHECK(job.dropped(late.connection) == std::vector<uint64_t>{0});
        job.tables.forget_dropped();
        const ShardPeer last{4, job.endpoint.accept()};
        job.tables.send_all(last);
        CHECK(job.endpoint.sent(last.connection).empty());

        const auto again = job.ask("w");
        CHECK(job.made == 1U);
        for (const uint32_t shard : {0, 1})
            REQUIRE(job.answer(shard, 1).has_value());
        CHECK(job.last(again).header.status == Errc::kOk);
    }

    TEST_CASE("who drops a table hears of it when no shard answers pushes to it any more") {
        Tables job;
        (void)job.ask("w");
        for (const uint32_t shard : {0, 1})
            REQUIRE(job.answer(shard, 0).has_value());
        job.shards.lost = {
            7};  // of a server that is out of reach, and answers until its lease ends
        const auto worker = job.drop("w");
        job.tables.dropped(0, 0);
        job.tables.dropped(0, 0);
        job.tables.dropped(1, 5);  // of another one
        CHECK_FALSE(job.told(worker).has_value());
        job.tables.forget_shard(7);
        CHECK_FALSE(job.told(worker).has_value());
        job.tables.dropped(1, 0);
        CHECK(job.told(worker) == Errc::kOk);
        CHECK(job.endpoint.sent(worker).size() == 1);
        job.tables.dropped(1, 0);  // again
        job.tables.dropped(9, uint64_t{1} << 40);
        CHECK(job.endpoint.sent(worker).size() == 1);
    }

    TEST_CASE("a table of the checkpoint that a worker drops is in no later one") {
        for (const bool is_read : {false, true}) {
            CAPTURE(is_read);
            Tables job;
            job.resume();
            if (is_read) {
                (void)job.ask("old");
                for (const uint32_t shard : {0, 1})
                    REQUIRE(job.answer(shard, 0).has_value());
                CHECK(job.told(job.drop("old")) == Errc::kBusy);
                for (const uint32_t shard : {0, 1})
                    job.report_filled(shard, 0, Errc::kOk);
            }
            CHECK(job.tables.resumed().tables.size() == 1);
            const auto worker = job.drop("old");
            CHECK(job.was_dropped.has_value() == is_read);
            CHECK(job.told(worker).has_value() ==
                  !is_read);  // no shard has it: nobody is waited for
            CHECK(job.tables.unread_tables().empty());
            CHECK(job.tables.count() == 0);
            CHECK(job.tables.resumed().tables.empty());
            CHECK(job.dropped(job.shards.live[0].connection).empty() == !is_read);
        }
    }

    TEST_CASE("a new table, which has nothing to read, waits for no lost shard") {
        Tables job;
        job.shards.lost = {7};
        const auto worker = job.ask("w");
        for (const uint32_t shard : {0, 1})
            REQUIRE(job.answer(shard, 0).has_value());
        CHECK(job.last(worker).header.status == Errc::kOk);
    }
}

}  // namespace weir::test
