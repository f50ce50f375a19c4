// SPDX-License-Identifier: Apache-2.0
/// \file
/// `weir get` at a simulated cluster: what the manager answers while segments move, shards are stopped or die, and
/// whom it turns away.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include <doctest/doctest.h>

#include "tests/cluster/managed_shard.h"
#include "tests/cluster/raw_worker.h"
#include "tests/cluster/servers_only.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

using testing::frame_header;
using transport::ConnectionId;
using wire::Kind;

/// A command that reads values.
class Reader {
public:
    explicit Reader(SimCluster& cluster, uint32_t host = 99)
        : command(cluster, host), connection(command.join_as_operator()) {}

    uint64_t ask(const GetMessage& question) {
        command.send(connection, frame_header(Kind::kGet, ++request_), question.encode());
        return request_;
    }

    /// The whole answer, once it is here.
    [[nodiscard]] std::optional<GetReply> answer(uint64_t request) const {
        std::vector<std::byte> body;
        uint64_t bytes = ~uint64_t{0};
        for (const RawWorker::Answer& part : command.answers()) {
            if (part.header.kind != Kind::kReply || part.header.request != request) continue;
            CHECK(part.header.status == Errc::kOk);
            body.insert(body.end(), part.body.begin(), part.body.end());
            bytes = part.header.first;
        }
        if (body.size() < bytes) return std::nullopt;
        auto reply = GetReply::decode(body);
        REQUIRE(reply);
        return reply;
    }

    [[nodiscard]] GetReply get(const GetMessage& question) {
        const uint64_t request = ask(question);
        REQUIRE(command.run_until([&] { return answer(request).has_value(); }));
        return *answer(request);
    }

    [[nodiscard]] std::pair<Errc, std::string> error(const GetMessage& question) {
        const uint64_t request = ask(question);
        REQUIRE(command.run_until([&] { return command.answer(request) != nullptr; }));
        const RawWorker::Answer& answer = *command.answer(request);
        return {answer.header.status, decode_text(answer.body).value_or("")};
    }

    RawWorker command;
    ConnectionId connection;

private:
    uint64_t request_ = 0;
};

template <class T>
std::vector<T> values_of(const GetReply& reply) {
    CHECK(reply.type == value_type_of<T>());
    std::vector<T> values(reply.values.size() / sizeof(T));
    std::memcpy(values.data(), reply.values.data(), reply.values.size());
    return values;
}

std::vector<uint64_t> keys_up_to(uint64_t count) {
    std::vector<uint64_t> keys(count);
    std::iota(keys.begin(), keys.end(), uint64_t{0});
    return keys;
}

/// A table of 64 keys, in which each has its number.
TableInfo numbered(SimCluster& cluster) {
    const auto table = cluster.make_table(0, dense_table("numbers", 64, ValueType::kUInt64));
    REQUIRE(table);
    const std::vector<uint64_t> values = keys_up_to(64);
    REQUIRE(cluster.finish(0, cluster.workers[0]->push(*table, KeyRange{0, 64},
                                                       std::as_bytes(std::span(values)), {})));
    return *table;
}

const GetMessage kAllNumbers{.table = "numbers", .keys = keys_up_to(64)};

SimShape with_backups() {
    SimShape shape;
    shape.servers = 3;
    shape.shards = 1;
    shape.workers = 1;
    shape.replicas = 1;
    shape.is_manager_apart = true;
    return shape;
}

bool is_backed_up(const SimCluster& cluster) {
    return std::ranges::all_of(cluster.manager->view().segments(), [](const ViewSegment& segment) {
        return segment.backup_count() == 1 && !segment.has_learner();
    });
}

}  // namespace

TEST_SUITE("get") {
    TEST_CASE("a command reads values of all shards, in the order of its keys, in short messages") {
        SimCluster cluster(1, {.message_bytes_max = 1024}, {});
        REQUIRE(cluster.start());
        const auto table = cluster.make_table(0, dense_table("wide", 800, ValueType::kInt32, 40));
        REQUIRE(table);
        std::vector<int32_t> pushed(800 * 40);
        std::iota(pushed.begin(), pushed.end(), -500);
        REQUIRE(cluster.finish(0, cluster.workers[0]->push(*table, KeyRange{0, 800},
                                                           std::as_bytes(std::span(pushed)), {})));
        GetMessage question{.table = "wide", .keys = {799, 0, 5, 5, 401}};
        while (question.keys.size() < GetLimits::kKeysMax)
            question.keys.push_back(13 * question.keys.size() % 800);
        Reader reader(cluster);
        const GetReply reply = reader.get(question);
        CHECK(reply.width == 40);
        CHECK(reply.why.empty());
        REQUIRE(reply.states.size() == question.keys.size());
        const std::vector<int32_t> values = values_of<int32_t>(reply);
        for (size_t i = 0; i < question.keys.size(); ++i) {
            CHECK(reply.states[i] == KeyState::kThere);
            for (size_t column = 0; column < 40; ++column)
                REQUIRE(values[i * 40 + column] == pushed[question.keys[i] * 40 + column]);
        }
    }

    TEST_CASE("a key that was never pushed has its initial value, says so, and gets no row") {
        SimCluster cluster(2, {}, {});
        REQUIRE(cluster.start());
        TableSchema constant = sparse_table("constant");
        constant.initial_value = 2.5;
        TableSchema random = sparse_table("random", ValueType::kFloat32, 3);
        random.initial_value = uniform(-1, 1, 7);
        REQUIRE(cluster.make_table(0, constant));
        const auto table = cluster.make_table(0, random);
        REQUIRE(table);
        const std::vector<uint64_t> keys = {3, 1'000'000'007};
        const std::vector<float> zeros(3);
        REQUIRE(cluster.finish(0, cluster.workers[0]->push(*table, std::span(keys).first(1),
                                                           std::as_bytes(std::span(zeros)), {})));
        std::vector<float> pulled(6);
        REQUIRE(cluster.finish(
            0,
            cluster.workers[0]->pull(*table, keys, std::as_writable_bytes(std::span(pulled)), {})));
        Reader reader(cluster);
        for (int again = 0; again < 2; ++again) {
            const GetReply reply = reader.get({"random", keys});
            CHECK(reply.states == std::vector{KeyState::kThere, KeyState::kInitial});
            CHECK(values_of<float>(reply) == pulled);
            CHECK(reader.get({"constant", {9}}).states == std::vector{KeyState::kInitial});
        }
        CHECK(values_of<float>(reader.get({"constant", {9}})) == std::vector<float>{2.5});
        size_t rows = 0;
        for (const auto& shard : cluster.shards)
            rows += shard->tables()[table->schema.id]->rows->row_count();
        CHECK(rows == 1);
    }

    TEST_CASE("of wide rows as many are answered as fit; longer ones are refused") {
        SimCluster cluster(3, {}, {});
        REQUIRE(cluster.start());
        REQUIRE(cluster.make_table(0, dense_table("wide", 9, ValueType::kFloat64, 3000)));
        REQUIRE(cluster.make_table(0, dense_table("wider", 9, ValueType::kFloat64, 8193)));
        Reader reader(cluster);
        CHECK(reader.get({"wide", {0, 1, 2, 3, 4}}).states.size() == 2);
        const auto [code, text] = reader.error({"wider", {0}});
        CHECK(code == Errc::kInvalidArgument);
        CHECK(text.find("a row of table 'wider' has 64 KiB") == 0);
    }

    TEST_CASE("a table and a key that are not there are named") {
        SimCluster cluster(4, {}, {});
        REQUIRE(cluster.start());
        Reader reader(cluster);
        CHECK(reader.error({"x", {1}}) ==
              std::pair(Errc::kNotFound, std::string("the job has no table 'x'; it has none yet")));
        (void)numbered(cluster);
        REQUIRE(cluster.make_table(0, sparse_table("others")));
        CHECK(reader.error({"number", {1}}) ==
              std::pair(Errc::kNotFound,
                        std::string("the job has no table 'number'; it has numbers, others")));
        CHECK(reader.error({"numbers", {1, 64}}) ==
              std::pair(Errc::kOutOfRange,
                        std::string("table 'numbers' has no key 64: its keys are 0 to 63")));
        const auto dropped = cluster.workers[0]->drop_table("numbers");
        REQUIRE(cluster.finish(0, dropped));
        CHECK(reader.error({"numbers", {1}}).first == Errc::kNotFound);
    }

    TEST_CASE("values are read while segments move, as often as one likes") {
        for (const bool comes : {true, false}) {
            CAPTURE(comes);
            SimCluster cluster(5, {.servers = 3}, {});
            REQUIRE(cluster.start());
            (void)numbered(cluster);
            Reader reader(cluster);
            const uint64_t epoch = cluster.manager->view().epoch();
            if (comes) {
                (void)cluster.add_server();
            } else {
                REQUIRE(cluster.manager->leave_server(2));
            }
            std::set<uint64_t> epochs;
            const auto has_moved = [&] {
                const size_t servers = cluster.manager->view().servers().size();
                return servers == (comes ? 4 : 2) && cluster.manager->view().epoch() > epoch + 1;
            };
            for (int i = 0; i < 2000 && !has_moved(); ++i) {
                const GetReply reply = reader.get(kAllNumbers);
                REQUIRE(values_of<uint64_t>(reply) == keys_up_to(64));
                epochs.insert(cluster.manager->view().epoch());
            }
            CHECK(has_moved());
            CHECK(epochs.size() > 1);
            CHECK(values_of<uint64_t>(reader.get(kAllNumbers)) == keys_up_to(64));
        }
    }

    TEST_CASE("a server dies while it is asked: what its backups have is read there") {
        SimCluster cluster(6, with_backups(), {});
        REQUIRE(cluster.start());
        (void)numbered(cluster);
        REQUIRE(cluster.run_until([&] { return is_backed_up(cluster); }));
        Reader reader(cluster);
        cluster.stopped.insert(cluster.shards[1].get());
        const uint64_t request = reader.ask(kAllNumbers);
        reader.command.run();
        CHECK_FALSE(reader.answer(request));  // it waits for the one that is stopped
        cluster.kill_host(1);
        cluster.shards[1].reset();
        REQUIRE(reader.command.run_until([&] { return reader.answer(request).has_value(); }));
        CHECK(values_of<uint64_t>(*reader.answer(request)) == keys_up_to(64));
        CHECK(reader.answer(request)->why.empty());
    }

    TEST_CASE(
        "what is lost with a server is missing in the answer, which says why; it comes at once") {
        SimCluster cluster(7, {.shards = 1}, {});
        REQUIRE(cluster.start());
        (void)numbered(cluster);
        for (const auto& worker : cluster.workers)
            cluster.stopped.insert(worker.get());  // the job ends when they have gone
        Reader reader(cluster);
        cluster.network.kill(1);
        cluster.run_idle(3);
        const uint64_t begun_ns = cluster.clock.now_ns();
        const GetReply reply = reader.get(kAllNumbers);
        CHECK(cluster.clock.now_ns() - begun_ns < KeyReads::kAnswerNs / 2);
        const auto there = std::ranges::count(reply.states, KeyState::kThere);
        CHECK(there > 0);
        CHECK(there + std::ranges::count(reply.states, KeyState::kUnknown) == 64);
        CHECK(there < 64);
        CHECK(reply.why == "the server that held it is gone, and nobody has taken over from it");
        const std::vector<uint64_t> values = values_of<uint64_t>(reply);
        for (size_t i = 0; i < 64; ++i)
            CHECK(values[i] == (reply.states[i] == KeyState::kThere ? i : 0));
    }

    TEST_CASE("a shard that says nothing is named in the answer after a while") {
        SimCluster cluster(8, {.shards = 1}, {});
        REQUIRE(cluster.start());
        (void)numbered(cluster);
        Reader reader(cluster);
        cluster.stopped.insert(cluster.shards[1].get());
        const uint64_t begun_ns = cluster.clock.now_ns();
        const GetReply reply = reader.get(kAllNumbers);
        CHECK(cluster.clock.now_ns() - begun_ns >= KeyReads::kAnswerNs);
        CHECK(reply.why == "shard 1 does not answer");
        CHECK(std::ranges::count(reply.states, KeyState::kUnknown) > 0);
        CHECK(std::ranges::count(reply.states, KeyState::kThere) > 0);
        cluster.stopped.clear();  // its answer is late, and changes nothing
        CHECK(values_of<uint64_t>(reader.get(kAllNumbers)) == keys_up_to(64));
    }

    TEST_CASE("only so many are read for at a time; who goes makes room") {
        SimCluster cluster(9, {.shards = 1}, {});
        REQUIRE(cluster.start());
        (void)numbered(cluster);
        Reader first(cluster, 98);
        Reader reader(cluster);
        cluster.stopped.insert(cluster.shards[1].get());
        for (size_t i = 0; i < KeyReads::kReadsMax; ++i)
            (void)first.ask(kAllNumbers);
        first.command.run();
        CHECK(reader.error(kAllNumbers).first == Errc::kBusy);
        first.command.endpoint().close(first.connection);
        first.command.run();
        CHECK(std::ranges::count(reader.get(kAllNumbers).states, KeyState::kThere) > 0);
    }

    TEST_CASE("questions that no command asks are turned away, and the job goes on") {
        SimCluster cluster(10, {}, {});
        REQUIRE(cluster.start());
        (void)numbered(cluster);
        std::vector<std::vector<std::byte>> bodies = {{}, std::vector<std::byte>(3)};
        bodies.push_back(GetMessage{.table = "numbers", .keys = {}}.encode());
        bodies.push_back(GetMessage{.table = "numbers", .keys = keys_up_to(65)}.encode());
        bodies.push_back(GetMessage{.table = std::string(300, 'n'), .keys = {1}}.encode());
        RawWorker command(cluster, 98);
        for (const std::vector<std::byte>& body : bodies) {
            const ConnectionId connection = command.join_as_operator();
            command.send(connection, frame_header(Kind::kGet, 1), body);
            CHECK(command.run_until([&] { return command.is_closed(connection); }));
        }
        Reader reader(cluster);
        CHECK(values_of<uint64_t>(reader.get(kAllNumbers)) == keys_up_to(64));
    }

    TEST_CASE("a shard ends when the manager asks for keys in a way that no manager does") {
        for (const size_t bytes : {0, 4, 11, 13}) {
            CAPTURE(bytes);
            ManagedShard job(1);
            job.send(Kind::kGet, std::vector<std::byte>(bytes));
            REQUIRE(job.run_until([&] { return job.shard().finished(); }));
            CHECK(job.shard().outcome().code() == Errc::kProtocol);
        }
    }
}

}  // namespace weir::test
