// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rules of the program that throw: the job ends with an error that names the rule, at everybody, and
/// nothing of what threw leaves its shard: no answer, no record, no takeover.

#include <array>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/builtin_rules.h"
#include "lib/store/rules/rule_threw.h"
#include "tests/cluster/equal_copies.h"
#include "tests/cluster/managed_shard.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

constexpr double kPoison = 1000;
constexpr uint64_t kPoisonedKeys = 60;
constexpr uint32_t kPoisonedWidth = 3;

enum class Thrown : uint8_t { kError, kNumber, kShortage };

struct ThrowCounts {
    static inline uint64_t updates = 0;
    static inline uint64_t throws = 0;
};

template <Thrown kThrown>
[[noreturn]] void throw_it() {
    ++ThrowCounts::throws;
    if constexpr (kThrown == Thrown::kNumber) throw 7;
    if constexpr (kThrown == Thrown::kShortage) throw std::bad_alloc();
    throw std::runtime_error("no such\nrow");
}

/// `add` that throws in the middle of a row, when what is pushed there is large.
template <Thrown kThrown>
struct Poisoned : rules::Plain {
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, double>;

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        ++ThrowCounts::updates;
        if (*pushed >= kPoison) throw_it<kThrown>();
        value += *pushed;
    }
};

/// The same by row.
struct PoisonedRow {
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    static constexpr bool kWantsKeys = true;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, double>;

    static const char* check(const RuleParameters&, uint32_t) { return nullptr; }

    template <class T>
    static constexpr size_t state_bytes(size_t) {
        return 0;
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext&) {
        for (uint32_t i = 0; i < row.width; ++i)
            Poisoned<Thrown::kError>::update<T>(row.values[i], nullptr, row.pushed + i, {});
    }
};

/// A rule that throws when it is asked about itself.
struct PoisonedState : Poisoned<Thrown::kError> {
    static constexpr std::array kParameters = {RuleParameter{.name = "poison"}};

    static double initial_state(const RuleParameters& parameters) {
        if (parameters.value[0] > 0) throw std::runtime_error("no state");
        return 0;
    }
};

/// A rule that keeps no state of narrow rows, and throws when it is asked for that.
struct NarrowPoisoned : PoisonedRow {
    template <class T>
    static size_t state_bytes(size_t width) {
        return width < 5 ? throw std::runtime_error("too narrow") : sizeof(T);
    }
};

struct PoisonKind {
    std::string_view rule;
    Layout layout;
    uint32_t replicas;
    bool in_iteration;
    uint32_t managers = 1;
};

/// Two workers, and a table whose rule may throw. Its keys have been pushed to once.
class PoisonCluster : public SimCluster {
public:
    explicit PoisonCluster(const PoisonKind& kind)
        : SimCluster(1, shape_of(kind), {.maps_memory = false}), kind_(kind) {
        REQUIRE(rules.register_rule<Poisoned<Thrown::kError>>("error").has_value());
        REQUIRE(rules.register_rule<Poisoned<Thrown::kNumber>>("number").has_value());
        REQUIRE(rules.register_rule<Poisoned<Thrown::kShortage>>("shortage").has_value());
        REQUIRE(rules.register_rule<PoisonedRow>("row").has_value());
        REQUIRE(rules.register_rule<PoisonedState>("state").has_value());
        REQUIRE(start());
        ThrowCounts::throws = 0;
        TableSchema schema =
            table_of(kind.layout, "poisoned", kPoisonedKeys, ValueType::kFloat64, kPoisonedWidth);
        schema.rule = kind.rule;
        auto made = make_table(0, schema);
        REQUIRE(made.has_value());
        table_ = *std::move(made);
        for (uint64_t key = 0; key < kPoisonedKeys; ++key)
            keys_.push_back(key);
        REQUIRE(run_until([&] { return has_all_copies(); }));
        for (const bool has_ended : push_all(1))
            REQUIRE(has_ended);
    }

    /// All workers push these keys, or parts of an iteration. Returns whose calls have ended well.
    std::vector<bool> push_all(double value) {
        begin(value);
        std::vector<bool> ended;
        for (uint32_t i = 0; i < calls_.size(); ++i)
            ended.push_back(finish(i, calls_[i]).has_value());
        return ended;
    }

    void begin(double value) {
        values_.assign(keys_.size() * kPoisonedWidth, 1);
        poisoned_ = values_;
        poisoned_[(keys_.size() / 2) * kPoisonedWidth + 1] = value;
        ++iteration_;
        calls_.clear();
        for (uint32_t i = 0; i < workers.size(); ++i) {
            if (!kind_.in_iteration && i > 0) break;
            CallOptions options;
            if (kind_.in_iteration) options.iteration = iteration_;
            calls_.push_back(workers[i]->push(
                table_, keys_, std::as_bytes(std::span(i == 0 ? poisoned_ : values_)), options));
        }
    }

    [[nodiscard]] Status ended(uint32_t worker) { return finish(worker, calls_[worker]); }

    /// Those that are not of who threw: values of the key in all copies.
    [[nodiscard]] std::vector<double> copies_of(uint64_t key) const {
        std::vector<double> copies;
        const View view = managers_view();
        for (const auto& shard : shards) {
            if (shard->primary().contains(shard->tables()[0]->positions.position(key))) continue;
            for (size_t i = 0; i < view.segments().size(); ++i) {
                const CopiedRows rows = rows_of(*shard->tables()[0], view.range(i));
                const auto row = rows.find(key);
                if (row == rows.end()) continue;
                for (size_t v = 0; v < kPoisonedWidth; ++v) {
                    double value = 0;
                    std::memcpy(&value, row->second.data() + v * sizeof(double), sizeof(double));
                    copies.push_back(value);
                }
            }
        }
        return copies;
    }

    [[nodiscard]] bool has_all_copies() const {
        const View view = managers_view();
        return std::ranges::all_of(view.segments(), [&](const ViewSegment& segment) {
            return segment.backup_count() >= kind_.replicas;
        });
    }

    [[nodiscard]] bool all_have_ended() const {
        return is_managed_to_end() &&
               std::ranges::all_of(shards, [](const auto& one) { return one->finished(); });
    }

    [[nodiscard]] uint64_t poisoned_key() const { return keys_[keys_.size() / 2]; }

    [[nodiscard]] size_t update_count() const { return keys_.size() * kPoisonedWidth; }

private:
    static SimShape shape_of(const PoisonKind& kind) {
        SimShape shape;
        shape.servers = 3;
        shape.shards = 1;
        shape.workers = 2;
        shape.replicas = kind.replicas;
        shape.managers = kind.managers;
        shape.is_manager_apart = kind.managers == 1;
        return shape;
    }

    PoisonKind kind_;
    TableInfo table_;
    std::vector<uint64_t> keys_;
    std::vector<double> values_;
    std::vector<double> poisoned_;
    uint64_t iteration_ = 0;
    std::vector<ClientCore::CallId> calls_;
};

/// A shard with a table whose rule may throw, and its worker.
class PoisonedShard : public ManagedShard {
public:
    explicit PoisonedShard(const std::shared_ptr<ManagerLife>& life = nullptr)
        : ManagedShard(1, {.life = life}) {
        REQUIRE(cluster.rules.register_rule<Poisoned<Thrown::kError>>("error").has_value());
        TableSchema schema = dense_table("poisoned", 8, ValueType::kFloat64);
        schema.rule = "error";
        make_table(0, schema);
        worker_ = raw.hello(shard(), 0, 1);
        run();
    }

    void push(double value) {
        send_push(value);
        run();
    }

    void send_push(double value) {
        wire::FrameHeader header = testing::frame_header(wire::Kind::kPush, ++requests_);
        header.value_type = static_cast<uint8_t>(ValueType::kFloat64);
        header.flags = wire::kKeysRange | wire::kValuesInline;
        header.count = 1;
        header.epoch = static_cast<uint32_t>(view.epoch);
        raw.send(worker_, header, std::as_bytes(std::span(&value, 1)));
    }

private:
    transport::ConnectionId worker_ = 0;
    uint64_t requests_ = 0;
};

std::vector<PoisonKind> poison_kinds() {
    std::vector<PoisonKind> kinds;
    for (const uint32_t replicas : {0, 1, 2}) {
        for (const bool in_iteration : {false, true}) {
            for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
                for (const char* const rule : {"error", "row"})
                    kinds.push_back({rule, layout, replicas, in_iteration});
            }
        }
    }
    kinds.push_back({"number", Layout::kSparse, 1, false});
    kinds.push_back({"shortage", Layout::kSparse, 1, false});
    kinds.push_back({"error", Layout::kSparse, 1, false, 3});
    kinds.push_back({"error", Layout::kSparse, 1, true, 3});
    return kinds;
}

}  // namespace

TEST_SUITE("throwing rules") {
    TEST_CASE("a rule that throws ends the job with its name, and nobody takes over") {
        for (const PoisonKind& kind : poison_kinds()) {
            CAPTURE(kind.rule);
            CAPTURE(static_cast<int>(kind.layout));
            CAPTURE(kind.replicas);
            CAPTURE(kind.in_iteration);
            CAPTURE(kind.managers);
            PoisonCluster cluster(kind);
            const uint64_t epoch = cluster.managers_view().epoch();
            const std::vector<double> copies = cluster.copies_of(cluster.poisoned_key());
            CHECK(copies.size() == kind.replicas * kPoisonedWidth);
            cluster.begin(kPoison);
            const std::string what = kind.rule == "number" ? "something that is no std::exception"
                                     : kind.rule == "shortage" ? "std::bad_alloc"
                                                               : "no such?row";
            const std::string where =
                kind.rule == "row" ? " at key " + std::to_string(cluster.poisoned_key()) : "";
            const std::string expected = "rule '" + std::string(kind.rule) +
                                         "' of table 'poisoned' threw" + where + ": " + what + " (";
            const auto names_it = [&](const Status& outcome) {
                INFO((outcome ? std::string("ok") : outcome.error().text()));
                CHECK(outcome.code() == Errc::kException);
                CHECK((!outcome && outcome.error().text().find(expected) != std::string::npos));
            };
            names_it(cluster.ended(0));
            if (kind.in_iteration) names_it(cluster.ended(1));
            REQUIRE(cluster.run_until([&] { return cluster.all_have_ended(); }));
            for (const auto& shard : cluster.shards)
                names_it(shard->outcome());
            for (const auto& worker : cluster.workers)
                names_it(worker->failure());
            if (cluster.manager != nullptr) names_it(cluster.manager->outcome());
            CHECK(cluster.managers_view().epoch() == epoch);
            CHECK(ThrowCounts::throws == 1);
            CHECK(cluster.copies_of(cluster.poisoned_key()) == copies);
        }
    }

    TEST_CASE("a worker that has nothing to do with it learns of it, and so does one that waits") {
        PoisonCluster cluster({"error", Layout::kSparse, 1, false});
        const auto barrier = cluster.workers[1]->barrier(60 * kSecond);
        CHECK(cluster.push_all(kPoison) == std::vector{false});
        const Status waited = cluster.finish(1, barrier);
        CHECK(waited.code() == Errc::kException);
        CHECK(waited.error().text().find("rule 'error' of table 'poisoned' threw") !=
              std::string::npos);
    }

    TEST_CASE("copies run no code of the program") {
        ThrowCounts::updates = 0;
        PoisonCluster cluster({"error", Layout::kSparse, 2, false});
        cluster.run_idle(100);
        CHECK(ThrowCounts::updates == cluster.update_count());
    }

    TEST_CASE("a shard that throws while it does not reach the manager ends the job when it does") {
        PoisonCluster cluster({"error", Layout::kSparse, 1, false});
        cluster.run_idle(100);
        for (uint32_t host = 0; host < 3; ++host)
            cluster.cut_from_manager(host);
        cluster.begin(kPoison);
        CHECK(cluster.ended(0).code() == Errc::kException);
        CHECK(cluster.run_until([&] { return cluster.all_have_ended(); }));
        CHECK(ThrowCounts::throws == 1);
    }

    TEST_CASE("who takes over from a shard that throws while it is out of reach throws, too") {
        PoisonCluster cluster({"error", Layout::kSparse, 1, false});
        cluster.run_idle(100);
        const View view = cluster.managers_view();
        const PositionMap map = PositionMap::sparse();
        const uint32_t primary = view.owner(map.position(cluster.poisoned_key()));
        const uint32_t host = view.shard(primary)->server;
        cluster.part_from_manager(host, SimCluster::Way::kBoth);
        cluster.begin(kPoison);
        CHECK(cluster.ended(0).code() == Errc::kException);
        CHECK(ThrowCounts::throws == 2);
        for (const auto& shard : cluster.shards) {
            if (shard.get() != cluster.shards[host].get())
                CHECK(cluster.run_until([&] { return shard->finished(); }));
        }
    }

    TEST_CASE("a shard that throws when its manager is gone for good ends by itself") {
        PoisonedShard job;
        job.close_manager();
        REQUIRE_FALSE(job.shard().finished());  // it serves until its worker is gone
        job.push(kPoison);
        CHECK(job.run_until([&] { return job.shard().finished(); }));
        CHECK(job.shard().outcome().code() == Errc::kException);
    }

    TEST_CASE("what comes in one batch with the push that throws is not lost: the manager's end") {
        PoisonedShard job;
        job.send_push(kPoison);
        std::unique_ptr<Shard> shard = std::move(job.cluster.shards[0]);
        job.cluster.shards.clear();  // it does not run meanwhile
        job.run();
        job.close_manager();
        job.cluster.shards.push_back(std::move(shard));
        CHECK(job.run_until([&] { return job.shard().finished(); }));
        CHECK(job.shard().outcome().code() == Errc::kException);
    }

    TEST_CASE("a shard that has thrown replies to nobody, and ends when its manager is silent") {
        const auto life = std::make_shared<ManagerLife>();
        PoisonedShard job(life);
        job.push(kPoison);
        job.push(1);
        CHECK(job.raw.answers().empty());
        REQUIRE_FALSE(job.shard().finished());  // the manager ends the job
        life->is_silent = true;
        CHECK(job.run_until([&] { return job.shard().finished(); }));
        CHECK(job.shard().outcome().code() == Errc::kException);
    }

    TEST_CASE("a shard asks a rule about rows of the table's width alone, and refuses the table") {
        ManagedShard job(1);
        REQUIRE(job.cluster.rules.register_rule<NarrowPoisoned>("narrow").has_value());
        TableSchema schema = dense_table("t", 8, ValueType::kFloat64, 4);
        schema.rule = "narrow";
        job.send(wire::Kind::kCreateTable,
                 TableMessage{0, schema.name, encode_schema(schema)}.encode());
        job.run();
        CHECK(job.made() == Errc::kException);
        schema.width = 5;
        REQUIRE(name_code(schema, job.cluster.rules));
        job.make_table(1, schema);
    }

    TEST_CASE("a rule that throws when it is asked about itself refuses the table alone") {
        PoisonCluster cluster({"error", Layout::kSparse, 0, false});
        TableSchema schema = sparse_table("other", ValueType::kFloat64);
        schema.rule = "state";
        schema.parameters.value[0] = 1;
        const auto made = cluster.make_table(0, schema);
        REQUIRE_FALSE(made.has_value());
        CHECK(made.error().code() == Errc::kException);
        CHECK(made.error().text() == "table 'other': rule 'state' threw: no state");
        CHECK(cluster.push_all(1) == std::vector{true});
    }
}

}  // namespace weir::test
