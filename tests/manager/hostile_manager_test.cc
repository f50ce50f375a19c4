// SPDX-License-Identifier: Apache-2.0
/// \file
/// Strangers that know the secret and talk to the manager, and a manager that sends random frames
/// to a worker: connections are closed or calls refused; honest workers are served as before.

#include <array>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

using transport::ConnectionId;

constexpr uint64_t kExtremeWords[] = {0,     1,          2,          255,        256,
                                      65535, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0}};

/// An endpoint that sends random frames on all of its connections.
class Babbler {
public:
    Babbler(transport::Device& device, uint64_t seed)
        : endpoint_(std::move(device.make_endpoint({})).value()), random_(seed) {}

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    void connect(const std::string& address) { (void)endpoint_->connect(address); }

    /// Answers every connection and every message with some frames.
    void poll() {
        std::array<transport::Completion, 8> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& completion : std::span(completions).first(count)) {
            if (completion.event == transport::Event::kClosed) continue;
            if (completion.event == transport::Event::kReceived) ++answers_;
            for (int i = 0; i < 3; ++i)
                say(completion.connection);
        }
        endpoint_->flush();
    }

    [[nodiscard]] uint64_t answers() const { return answers_; }

private:
    uint64_t extreme() { return kExtremeWords[random_.below(std::size(kExtremeWords))]; }

    uint32_t small_or_extreme() {
        return static_cast<uint32_t>(random_.below(3) == 0 ? extreme() : random_.below(5));
    }

    std::string text() { return std::string(random_.below(4) == 0 ? 600 : random_.below(20), 'a'); }

    /// A body of the right form with invalid fields; or random bytes.
    std::vector<std::byte> body() {
        switch (random_.below(8)) {
            case 0: {
                ViewChange change;
                change.epoch = small_or_extreme();
                change.next_server = small_or_extreme();
                change.next_shard = small_or_extreme();
                change.next_worker = small_or_extreme();
                change.servers.put.resize(random_.below(2));
                for (uint32_t i = 0; i < random_.below(3); ++i)
                    change.shards.put.push_back({i, small_or_extreme(), extreme(), text()});
                change.segments.put.resize(random_.below(4) == 0 ? 0 : 1);
                if (!change.segments.put.empty())
                    change.segments.put[0].primary = small_or_extreme();
                change.workers.put.resize(random_.below(2));
                return encode_parts(change, 4096)[0];
            }
            case 1:
                return JoinMessage{static_cast<JoinMessage::Role>(random_.below(4)),
                                   small_or_extreme(), small_or_extreme(), text()}
                    .encode();
            case 2: return TableMessage{small_or_extreme(), text(), text()}.encode();
            case 4: return AdmitMessage{small_or_extreme(), small_or_extreme()}.encode();
            case 5: {
                AskFirstIterationMessage ask{extreme(), {}};
                for (uint64_t i = random_.below(3); i > 0; --i)
                    ask.tables.push_back(small_or_extreme());
                return ask.encode();
            }
            case 6: {
                CheckpointOrder order;
                order.step = static_cast<CheckpointOrder::Step>(1 + random_.below(6));
                order.number = random_.below(2) == 0 ? random_.below(3) : extreme();
                order.has_more = random_.below(3) == 0;
                order.folder = text();
                for (uint64_t i = random_.below(3); i > 0; --i)
                    order.tables.push_back({small_or_extreme(), extreme()});
                return order.encode();
            }
            case 3: {
                LeaveMessage leave{static_cast<Errc>(random_.below(30)), text(), {}};
                for (uint64_t i = random_.below(3); i > 0; --i)
                    leave.withdrawn.push_back({small_or_extreme(), extreme(), extreme()});
                return leave.encode();
            }
            default: break;
        }
        std::vector<std::byte> bytes(random_.below(200));
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random_());
        return bytes;
    }

    void say(ConnectionId connection) {
        const std::vector<std::byte> words = body();
        wire::FrameHeader header;
        header.kind = static_cast<wire::Kind>(random_.below(wire::kKindMax + 2));
        header.request = extreme();
        header.status = static_cast<Errc>(random_.below(4) == 0 ? random_.below(1000) : 0);
        header.first = extreme();
        header.body_bytes = static_cast<uint32_t>(words.size());
        if (random_.below(10) == 0) header.body_bytes = small_or_extreme();
        const std::array<std::span<const std::byte>, 2> parts{wire::bytes_of(header), words};
        (void)endpoint_->send(connection, parts);
    }

    std::unique_ptr<transport::Endpoint> endpoint_;
    Random random_;
    uint64_t answers_ = 0;
};

BadFrame control_frame(std::string what, wire::Kind kind, std::span<const std::byte> body,
                       std::string why) {
    wire::FrameHeader header;
    header.kind = kind;
    return {std::move(what), frame_bytes(header, body), std::move(why)};
}

/// Valid frames that a manager accepts from no peer.
std::vector<BadFrame> bad_joins() {
    using Role = JoinMessage::Role;
    const auto join = [](std::string what, const JoinMessage& message, std::string why) {
        return control_frame(std::move(what), wire::Kind::kJoin, message.encode(), std::move(why));
    };
    std::vector<BadFrame> frames{
        join("no such role", {static_cast<Role>(4), 0, 0, {}}, "a malformed join"),
        join("an endless address", {Role::kShard, 0, 0, std::string(600, 'a')}, "a malformed join"),
        join("a worker too many", {Role::kWorker, 9, 3, {}},
             "a join as worker 3 of rank 9, which this job of 3 workers does not expect"),
        join("the last number", {Role::kShard, 9, 0xffffffff, {}},
             "a join as shard 4294967295 of rank 9, which this job of 4 shards does not expect")};
    std::vector<std::byte> body = JoinMessage{Role::kWorker, 0, 0, {}}.encode();
    body.push_back({});
    frames.push_back(control_frame("a byte too many", wire::Kind::kJoin, body, "a malformed join"));
    frames.push_back(control_frame("a byte too few", wire::Kind::kJoin,
                                   std::span(body).first(body.size() - 2), "a malformed join"));
    for (uint8_t kind = 1; kind <= wire::kKindMax; ++kind) {
        wire::FrameHeader header =
            one_key(static_cast<wire::Kind>(kind), wire::kKeysRange | wire::kValuesInline);
        if (header.kind == wire::Kind::kJoin) continue;
        frames.push_back(
            {"kind " + std::to_string(kind), frame_bytes(header, {}), "a frame before joining"});
    }
    return frames;
}

BadFrame asked(WorkAsk what, std::span<const std::byte> body, std::string why) {
    wire::FrameHeader header;
    header.kind = wire::Kind::kWork;
    header.first = static_cast<uint64_t>(what);
    return {"work, question " + std::to_string(header.first), frame_bytes(header, body),
            std::move(why)};
}

/// Valid frames that a manager does not accept from a worker.
std::vector<BadFrame> bad_requests() {
    using wire::Kind;
    const std::vector<std::byte> half(3);
    const auto no_name = TableMessage{0, "", "schema"}.encode();
    const auto long_name = TableMessage{0, std::string(600, 'a'), ""}.encode();
    std::vector<BadFrame> frames{
        control_frame("a third of a schema", Kind::kCreateTable, half, "a malformed table schema"),
        control_frame("no name", Kind::kCreateTable, no_name, "a malformed table schema"),
        control_frame("a long name", Kind::kCreateTable, long_name, "a malformed table schema"),
        control_frame("a cut name", Kind::kOpenTable, half, "a malformed table name"),
        control_frame("a long name", Kind::kOpenTable, long_name, "a malformed table name"),
        control_frame("a cut name", Kind::kDropTable, half, "a malformed table name"),
        control_frame("a cut name", Kind::kRule, half, "a malformed name of a rule"),
        control_frame("a cut leave", Kind::kLeave, half, "a malformed leave"),
        control_frame("a cut question", Kind::kWork, half, "a malformed question for work"),
        control_frame("a checkpoint of something", Kind::kCheckpoint, half,
                      "a malformed question about checkpoints"),
        control_frame("an endless description", Kind::kWork,
                      WorkMessage{1, std::string(4097, 'a')}.encode(),
                      "a malformed question for work"),
        asked(WorkAsk{5}, {}, "a malformed question about work"),
        asked(WorkAsk::kGiveBack, half, "a malformed question about work"),
        asked(WorkAsk::kFinish, half, "a malformed question about work"),
        control_frame("no pieces", Kind::kWork, std::vector<std::byte>(4),
                      "a malformed question for work"),
        control_frame("held rows with a body", Kind::kHeld, std::vector<std::byte>(4),
                      "a malformed count of rows that are held back")};
    // All others, among them what only shards send: a worker that claims to be one.
    const Kind sent_by_workers[] = {Kind::kAdmit,      Kind::kCreateTable, Kind::kOpenTable,
                                    Kind::kDropTable,  Kind::kBarrier,     Kind::kWithdraw,
                                    Kind::kStats,      Kind::kLeave,       Kind::kWork,
                                    Kind::kCheckpoint, Kind::kRule,        Kind::kHeld};
    for (uint8_t number = 1; number <= wire::kKindMax; ++number) {
        const auto kind = static_cast<Kind>(number);
        if (std::ranges::find(sent_by_workers, kind) != std::end(sent_by_workers)) continue;
        const wire::FrameHeader header = one_key(kind, wire::kKeysRange | wire::kValuesInline);
        frames.push_back({"kind " + std::to_string(number), frame_bytes(header, {}),
                          "a frame that workers do not send to a manager"});
    }
    frames.push_back(control_frame("a report of a learner", Kind::kComplete,
                                   CompleteMessage{0, 1, 1}.encode(),
                                   "a frame that workers do not send to a manager"));
    return frames;
}

/// Sends `frame`; its connection must be closed, and the log must say why.
void check_manager_closes(SimCluster& cluster, RawWorker& raw, ConnectionId connection,
                          const BadFrame& frame) {
    REQUIRE(connection != 0);
    cluster.clock.advance(RepeatedLog::kIntervalNs);  // so that the line is logged, not counted
    const LogLines log;
    raw.send_bytes(connection, frame.bytes);
    const bool closed = raw.run_until([&] { return raw.is_closed(connection); }, 50);
    INFO(frame.what << ", logged: " << log.text());
    REQUIRE(closed);
    REQUIRE(closings(log, "manager", frame.why) == 1);
}

/// A process alone on a simulated network with a manager that talks nonsense.
struct Babbled {
    Babbled(uint64_t seed, transport::Access access)
        : network(seed, clock, {}),
          there(network.make_device(0)),
          here(network.make_device(1)),
          manager(*there, seed),
          memory(*here, access) {}

    [[nodiscard]] std::unique_ptr<transport::Endpoint> endpoint() const {
        return std::move(here->make_endpoint({})).value();
    }

    /// Until the process has ended, or has heard enough.
    void run(StateMachine& process) {
        for (int i = 0; i < 3000 && !process.finished(); ++i) {
            manager.poll();
            (void)process.poll();
            if (!network.step()) clock.advance(kMillisecond);
        }
    }

    ManualClock clock;
    transport::sim::Network network;
    std::unique_ptr<transport::Device> there;
    std::unique_ptr<transport::Device> here;
    Babbler manager;
    RegisteredMemory memory;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
};

TableSchema eight_numbers() {
    return dense_table("numbers", 8);
}

void check_push(SimCluster& cluster, uint32_t worker, const TableInfo& table) {
    const std::vector<float> ones(8, 1);
    const auto push =
        cluster.workers[worker]->push(table, KeyRange{0, 8}, std::as_bytes(std::span(ones)), {});
    REQUIRE(cluster.finish(worker, push).has_value());
}

}  // namespace

TEST_SUITE("hostile manager") {
    TEST_CASE("a stranger that sends a bad frame is closed with a reason in the log, no more") {
        SimCluster cluster(1, {}, {});
        REQUIRE(cluster.start());
        RawWorker raw(cluster, 99);
        const auto table = cluster.make_table(1, eight_numbers());
        REQUIRE(table.has_value());
        for (const auto& frames : {malformed_frames(), bad_joins()}) {
            for (const BadFrame& frame : frames) {
                check_manager_closes(cluster, raw, raw.connect(cluster.manager->address()), frame);
                check_push(cluster, 0, *table);
            }
        }
        std::array<ClientCore::CallId, 3> barriers{};
        for (uint32_t worker = 0; worker < 3; ++worker)
            barriers[worker] = cluster.workers[worker]->barrier(0);
        for (uint32_t worker = 0; worker < 3; ++worker)
            CHECK(cluster.finish(worker, barriers[worker]).has_value());
    }

    TEST_CASE("a worker that sends the manager a bad frame is closed for it, others go on") {
        std::vector<BadFrame> frames = bad_requests();
        for (const BadFrame& frame : malformed_frames())
            frames.push_back(frame);
        for (const BadFrame& frame : frames) {
            SimCluster cluster(1, {}, {});
            cluster.workers[2].reset();
            RawWorker raw(cluster, 99);
            const ConnectionId connection = raw.join(2);
            REQUIRE(cluster.run_until(
                [&] { return cluster.workers[0]->ready() && cluster.workers[1]->ready(); }));
            check_manager_closes(cluster, raw, connection, frame);
            const auto table = cluster.make_table(1, eight_numbers());
            REQUIRE(table.has_value());
            check_push(cluster, 1, *table);
        }
    }

    TEST_CASE("strangers that send garbage all day take a line, and one more every minute") {
        SimCluster cluster(1, {}, {});
        REQUIRE(cluster.start());
        RawWorker raw(cluster, 99);
        const LogLines log;
        const std::vector<std::byte> garbage(100, std::byte{7});
        constexpr uint64_t kStrangers = 50;
        for (const std::string& address :
             {cluster.manager->address(), cluster.shards[1]->address()}) {
            for (uint64_t i = 0; i < kStrangers; ++i) {
                const auto connection = raw.connect(address);
                raw.send_bytes(connection, garbage);
                REQUIRE(raw.run_until([&] { return raw.is_closed(connection); }));
            }
        }
        INFO(log.text());
        CHECK(closings(log, "manager", "a malformed frame") == 1);
        CHECK(closings(log, "shard 1", "a malformed frame") == 1);
        CHECK(log.lines().size() == 2);
        cluster.clock.advance(RepeatedLog::kIntervalNs);
        cluster.run_idle(5);
        CHECK(log.count("49 more like this in the last 6") == 2);
        CHECK(log.lines().size() == 4);
    }

    TEST_CASE("strangers at the manager are turned away, and the workers' job goes on") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 20; ++seed) {
            INFO("WEIR_SEED=" << seed);
            SimCluster cluster(seed, {}, {});
            REQUIRE(cluster.start());
            const auto device = cluster.network.make_device(99);
            Babbler stranger(*device, seed);
            for (int i = 0; i < 30; ++i)
                stranger.connect(cluster.manager->address());
            for (int i = 0; i < 2000; ++i) {
                stranger.poll();
                (void)cluster.step();
            }
            std::vector<ClientCore::CallId> barriers;
            for (const auto& worker : cluster.workers)
                barriers.push_back(worker->barrier(0));
            for (uint32_t worker = 0; worker < 3; ++worker)
                REQUIRE(cluster.finish(worker, barriers[worker]).has_value());
            const auto table = cluster.make_table(1, eight_numbers());
            REQUIRE(table.has_value());
            check_push(cluster, 1, *table);
        }
    }

    TEST_CASE("a worker that joins and claims to be more than that is closed, others go on") {
        using Role = JoinMessage::Role;
        SimCluster cluster(1, {}, {});
        REQUIRE(cluster.start());
        RawWorker raw(cluster, 99);
        const auto table = cluster.make_table(1, eight_numbers());
        REQUIRE(table.has_value());
        JoinMessage join{Role::kWorker, 0, 0, {}};
        join.joiner = 5;
        for (const wire::Kind kind : {wire::Kind::kComplete, wire::Kind::kStopped,
                                      wire::Kind::kFirstIteration, wire::Kind::kReply}) {
            cluster.clock.advance(RepeatedLog::kIntervalNs);
            const LogLines log;
            const ConnectionId connection = raw.connect(cluster.manager->address());
            raw.send(connection, testing::frame_header(wire::Kind::kJoin), join.encode());
            raw.send(connection, testing::frame_header(kind), CompleteMessage{0, 1, 1}.encode());
            REQUIRE(raw.run_until([&] { return raw.is_closed(connection); }, 50));
            INFO(log.text());
            CHECK(closings(log, "manager", "a frame before it has joined") == 1);
            check_push(cluster, 0, *table);
        }
        CHECK(cluster.manager->view().workers().size() == 3);
    }

    TEST_CASE("who joins a job of another version of Weir is told so") {
        for (const bool is_shard : {false, true}) {
            CAPTURE(is_shard);
            ManualClock clock;
            transport::sim::Network network(1, clock, {});
            const auto there = network.make_device(0);
            const auto here = network.make_device(1);
            const auto manager = std::move(there->make_endpoint({})).value();
            wire::FrameHeader answer = wire::header_of(wire::Kind::kShutdown);
            answer.magic += 1U << 24;
            RegisteredMemory memory(*here, transport::Access::kRemote);
            const RuleRegistry rules = RuleRegistry::with_builtin_rules();
            auto endpoint = std::move(here->make_endpoint({})).value();
            std::unique_ptr<ClientCore> client;
            std::unique_ptr<Shard> shard;
            if (is_shard) {
                ShardOptions options;
                options.manager_address = manager->address();
                options.join = ShardJoin{5, 1, 1, 0};
                shard = std::make_unique<Shard>(options, std::move(endpoint), clock, memory, rules);
            } else {
                ClientCoreOptions options;
                options.manager_address = manager->address();
                options.joiner = 5;
                client = std::make_unique<ClientCore>(options, std::move(endpoint), clock, memory,
                                                      rules);
            }
            const auto has_ended = [&] {
                return is_shard ? shard->finished() : client->finished();
            };
            for (int i = 0; i < 3000 && !has_ended(); ++i) {
                std::array<transport::Completion, 8> completions;
                const size_t count = manager->poll(completions);
                for (const transport::Completion& completion :
                     std::span(completions).first(count)) {
                    if (completion.event == transport::Event::kReceived)
                        (void)testing::send_frame(*manager, completion.connection, answer, {});
                }
                (void)(is_shard ? shard->poll() : client->poll());
                if (!network.step()) clock.advance(kMillisecond);
            }
            REQUIRE(has_ended());
            const Status ended = is_shard ? shard->outcome() : client->failure();
            REQUIRE(ended.code() == Errc::kProtocol);
            CHECK(ended.error().text().find("another version of Weir") != std::string::npos);
        }
    }

    TEST_CASE("a shard whose manager talks nonsense ends with an error, or waits for sense") {
        uint64_t heard = 0;
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 200; ++seed) {
            INFO("WEIR_SEED=" << seed);
            Babbled host(seed, transport::Access::kLocal);
            ShardOptions options;
            options.manager_address = host.manager.address();
            if (seed % 2 == 0) options.join = ShardJoin{seed, 1, 1, 0};
            Shard shard(options, host.endpoint(), host.clock, host.memory, host.rules);
            host.run(shard);
            heard += host.manager.answers();
            // It may have been told that the job is over.
            if (!shard.outcome()) CHECK_FALSE(shard.outcome().error().text().empty());
        }
        CHECK(heard > 0);
    }

    TEST_CASE("a worker whose manager talks nonsense ends with an error, or waits for sense") {
        uint64_t heard = 0;
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 200; ++seed) {
            INFO("WEIR_SEED=" << seed);
            Babbled host(seed, transport::Access::kRemote);
            ClientCoreOptions options;
            options.manager_address = host.manager.address();
            options.join_timeout_ns = kSecond;
            ClientCore client(options, host.endpoint(), host.clock, host.memory, host.rules);
            host.run(client);
            heard += host.manager.answers();
            CHECK_FALSE(client.ready());
            CHECK(client.finished());
            CHECK_FALSE(client.failure().has_value());
        }
        CHECK(heard > 0);
    }
}

}  // namespace weir::test
