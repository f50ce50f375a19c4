// SPDX-License-Identifier: Apache-2.0
/// \file
/// Iterations over a simulated network: the rule runs once in each, in their order, on what all
/// workers pushed, and pulls show what they say.

#include <algorithm>
#include <bit>
#include <deque>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/builtin_rules.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kSummedKeys = 160;  // of one shard: more than go into a message
constexpr uint64_t kIterations = 20;
constexpr uint32_t kMembersMax = 3;
constexpr uint64_t kOutOfOrder = uint64_t{1} << 63;
constexpr KeyRange kAllKeys{0, kSummedKeys};

/// The sum of what was pushed. An iteration adds higher bits than all before it: if it does not,
/// kOutOfOrder says so.
struct InOrder : rules::Plain {
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    static inline uint64_t updates_left = 0;  ///< before the one that throws

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        if (updates_left-- == 0) throw std::runtime_error("one too many");
        if (*pushed == 0) return;
        value = *pushed > value ? value + *pushed : value | kOutOfOrder;
    }
};

/// What `worker` pushes for `key` in `iteration`; 0: it does not have the key then. Each part is a
/// bit of its own, so that a sum tells which parts are in it.
uint64_t part(uint32_t worker, uint64_t iteration, uint64_t key) {
    const uint64_t mixed = mix64(uint64_t{worker} * 1000003 + uint64_t{iteration} * 7919 + key + 1);
    if (mixed % 5 == 0) return 0;
    return uint64_t{1} << ((iteration - 1) * kMembersMax + worker);
}

/// The same where the mean is taken: a multiple of 6, so that the mean of up to three is exact.
uint64_t part_of_mean(uint32_t worker, uint64_t iteration, uint64_t key) {
    const uint64_t bit = part(worker, iteration, key);
    return bit == 0 ? 0 : 6 * (1 + mix64(bit + key) % 50);
}

/// Which bits are those of the parts of `iteration`.
uint64_t mask_of(uint64_t iteration) {
    return ((uint64_t{1} << kMembersMax) - 1) << ((iteration - 1) * kMembersMax);
}

TableSchema schema(Layout layout) {
    return table_of(layout, "sums", kSummedKeys, ValueType::kFloat64);
}

enum class Trouble {
    kNone,
    kShortMemory,  ///< of servers, at some times: iterations fail then, for everybody
    kDeath,        ///< of a worker
    kThrow         ///< of the rule, when it runs at the end of an iteration
};

/// One history by its seed. Workers of different speeds push up to max_delay + 1 iterations at
/// once, or without a max_delay some that wait at the servers, and pull.
class IterationHistory {
public:
    IterationHistory(uint64_t seed, Trouble trouble)
        : random_(seed),
          trouble_(trouble),
          shape_(make_shape()),
          network_(make_options()),
          cluster_(random_(), shape_, network_) {
        REQUIRE(cluster_.rules.register_rule<InOrder>("in_order").has_value());
        REQUIRE(cluster_.start());
        InOrder::updates_left =
            trouble == Trouble::kThrow ? random_.below(kSummedKeys * kIterations) : ~uint64_t{0};
        layout_ = random_.below(2) == 0 ? Layout::kDense : Layout::kSparse;
        TableSchema wanted = table_of(layout_, "sums", kSummedKeys, ValueType::kUInt64);
        wanted.rule = "in_order";
        Random aside = random_;  // so that the others are the same histories
        is_mean_ = trouble != Trouble::kShortMemory && aside.below(3) == 0;
        if (is_mean_) {
            wanted = table_of(layout_, "sums", kSummedKeys, ValueType::kFloat64);
            wanted.combine = Combine::kMean;
        }
        wanted.max_delay =
            static_cast<uint32_t>(std::max<int64_t>(0, static_cast<int64_t>(random_.below(7)) - 1));
        for (uint32_t i = 0; i < shape_.workers; ++i) {
            auto table = cluster_.make_table(i, wanted);
            REQUIRE(table.has_value());
            workers_.emplace_back(*std::move(table), 1 + random_.below(16));
        }
        dies_at_ = trouble == Trouble::kDeath ? random_.below(4000) : ~uint64_t{0};
    }

    /// Returns the number of iterations that failed.
    uint64_t run() {
        const bool over = cluster_.run_until([&] {
            disturb();
            bool finished = true;
            for (uint32_t i = 0; i < shape_.workers; ++i) {
                if (cluster_.workers[i] == nullptr) continue;
                if (random_.below(workers_[i].period) == 0) take_turn(i);
                finished = finished && workers_[i].finished;
            }
            return finished;
        });
        REQUIRE(over);
        const bool has_thrown =
            trouble_ == Trouble::kThrow && InOrder::updates_left > kSummedKeys * kIterations;
        for (uint32_t i = 0; i < shape_.workers && has_thrown; ++i) {
            const ClientCore& client = *cluster_.workers[i];
            REQUIRE(cluster_.run_until([&] { return !client.failure(); }));
            REQUIRE(client.failure().code() == Errc::kException);
            REQUIRE(client.failure().error().text().find("rule 'in_order' of table 'sums'") !=
                    std::string::npos);
        }
        return static_cast<uint64_t>(std::count_if(
            ended_.begin(), ended_.end(), [](auto ended) { return ended && *ended != Errc::kOk; }));
    }

    /// Whether the mean of the parts is added, and not their sum.
    [[nodiscard]] bool is_mean() const { return is_mean_; }

private:
    struct Push {
        uint64_t iteration = 0;
        ClientCore::CallId call = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
    };

    struct Pull {
        uint64_t asked = 0;
        ClientCore::CallId call = 0;
        std::vector<uint64_t> keys;
        Block values;  ///< registered, so that servers write to it
    };

    struct Worker {
        Worker(TableInfo of, uint64_t one_turn_in) : table(std::move(of)), period(one_turn_in) {}

        TableInfo table;
        uint64_t period;  ///< it takes one turn in so many steps
        uint64_t pushed = 0;
        std::deque<Push> pushes;
        std::deque<Pull> pulls;
        bool stopped = false;  ///< another one is lost, or the job ends: it pushes nothing more
        bool last_pull = false;
        bool finished = false;
    };

    SimShape make_shape() {
        SimShape shape;
        shape.message_bytes_max = random_.below(2) == 0 ? 8192 : 1024;
        shape.fetch_bytes_max = 512;
        // Where there is one shard, a pull says exactly what that has shown.
        if (random_.below(3) == 0) shape.servers = shape.shards = 1;
        shape.eager_bytes = random_.below(2) == 0 ? 64 : 4096;
        shape.workers = static_cast<uint32_t>(1 + random_.below(kMembersMax));
        return shape;
    }

    transport::sim::Options make_options() {
        transport::sim::Options options;
        options.maps_memory = random_.below(2) == 0;
        options.delay_ns_max = kMicrosecond * (2 + random_.below(100));
        options.step_bytes = 64;
        return options;
    }

    void disturb() {
        for (uint32_t server = 0; trouble_ == Trouble::kShortMemory && server < shape_.servers;
             ++server) {
            if (random_.below(40) == 0) cluster_.memory_of_server(server).set_limit(0);
            if (random_.below(20) == 0) cluster_.memory_of_server(server).set_limit(~size_t{0});
        }
        if (dies_at_-- != 0) return;
        const uint32_t last = shape_.workers - 1;
        cluster_.network.kill(cluster_.host_of_worker(last));
        cluster_.workers[last].reset();
    }

    void take_turn(uint32_t number) {
        Worker& w = workers_[number];
        std::erase_if(w.pushes, [&](const Push& push) { return end_push(number, push); });
        std::erase_if(w.pulls, [&](const Pull& pull) { return end_pull(number, pull); });
        const uint64_t ahead = w.table.schema.max_delay > 0 ? w.table.schema.window() : 4;
        const bool may_push = w.pushed < kIterations && !w.stopped;
        const uint64_t open = w.pushes.empty() ? 0 : w.pushed - w.pushes.front().iteration + 1;
        if (may_push && open < ahead && random_.below(3) != 0) {
            begin_push(number);
        } else if (may_push && open == ahead && random_.below(4) == 0) {
            push_too_early(number);
        } else if (w.pushed > 0 && w.pulls.size() < 3 && random_.below(2) == 0 &&
                   (may_push || !w.pushes.empty())) {
            begin_pull(number, 1 + random_.below(w.pushed));
        } else if (!may_push && w.pushes.empty() && w.pulls.empty()) {
            w.finished = w.last_pull || w.stopped;
            if (!w.finished) begin_pull(number, kIterations);
            w.last_pull = true;
        }
    }

    void begin_push(uint32_t number) {
        Worker& w = workers_[number];
        Push& push = w.pushes.emplace_back();
        push.iteration = ++w.pushed;
        const bool nothing = random_.below(8) == 0;
        const bool by_range = !nothing && layout_ == Layout::kDense && random_.below(2) == 0;
        for (uint64_t key = 0; key < kSummedKeys && !nothing; ++key) {
            const uint64_t value = is_mean_ ? part_of_mean(number, push.iteration, key)
                                            : part(number, push.iteration, key);
            if (value == 0 && !by_range) continue;
            push.keys.push_back(key);
            push.values.push_back(is_mean_ ? std::bit_cast<uint64_t>(static_cast<double>(value))
                                           : value);
            pushed_[push.iteration][key] += value;
            ++part_counts_[push.iteration][key];
        }
        ClientCore& client = *cluster_.workers[number];
        const auto values = std::as_bytes(std::span(push.values));
        const CallOptions options{push.iteration};
        push.call = by_range ? client.push(w.table, kAllKeys, values, options)
                             : client.push(w.table, push.keys, values, options);
    }

    /// One more than may be open is refused at once, and changes nothing.
    void push_too_early(uint32_t number) {
        const Worker& w = workers_[number];
        ClientCore& client = *cluster_.workers[number];
        if (w.table.schema.max_delay == 0 || client.done(w.pushes.front().call)) return;
        if (!client.failure()) return;
        const auto call = client.push(w.table, KeyRange{0, 0}, {}, {w.pushed + 1});
        REQUIRE(client.done(call));
        REQUIRE(client.take(call).code() == Errc::kInvalidArgument);
    }

    void begin_pull(uint32_t number, uint64_t asked) {
        Worker& w = workers_[number];
        Pull& pull = w.pulls.emplace_back();
        pull.asked = asked;
        const bool all = random_.below(2) == 0 || w.pushed == kIterations;
        for (uint64_t key = 0; key < kSummedKeys && all; ++key)
            pull.keys.push_back(key);
        if (!all) pull.keys.push_back(random_.below(kSummedKeys));
        pull.values = Block(cluster_.memory_of(number), pull.keys.size() * sizeof(uint64_t));
        const std::span<std::byte> out(pull.values.data(), pull.values.bytes());
        ClientCore& client = *cluster_.workers[number];
        pull.call = all && layout_ == Layout::kDense && random_.below(2) == 0
                        ? client.pull(w.table, kAllKeys, out, {asked})
                        : client.pull(w.table, pull.keys, out, {asked});
    }

    /// False: it has not ended.
    bool end_push(uint32_t number, const Push& push) {
        ClientCore& client = *cluster_.workers[number];
        if (!client.done(push.call)) return false;
        const Status status = client.take(push.call);
        check_status(number, status);
        std::optional<Errc>& ended = ended_[push.iteration];
        if (!ended) ended = status.code();
        // The same for all, unless the job ends.
        if (!may_end()) REQUIRE(status.code() == *ended);
        if (status.code() == Errc::kNoMemory) {
            REQUIRE(status.error().message().find("failed at shard ") != std::string::npos);
        }
        return true;
    }

    bool end_pull(uint32_t number, const Pull& pull) {
        ClientCore& client = *cluster_.workers[number];
        if (!client.done(pull.call)) return false;
        const std::optional<uint64_t> shown = client.iteration_shown(pull.call);
        const Status status = client.take(pull.call);
        check_status(number, status);
        REQUIRE(shown.has_value() == status.has_value());
        if (!status) return true;
        INFO("worker " << number << " asked for iteration " << pull.asked << ", got " << *shown);
        REQUIRE(*shown >= pull.asked);
        REQUIRE(*shown <= kIterations);
        for (size_t i = 0; i < pull.keys.size(); ++i) {
            const uint64_t value = pull.values.as<uint64_t>()[i];
            if (is_mean_) {
                INFO("key " << pull.keys[i]);
                check_means(pull.keys[i], std::bit_cast<double>(value), *shown,
                            pull.keys.size() == 1);
                continue;
            }
            const uint64_t wrong =
                wrong_iteration(pull.keys[i], value, *shown, pull.keys.size() == 1);
            if (wrong == 0 && value < kOutOfOrder) continue;
            INFO("key " << pull.keys[i] << " has the bits " << value << "; iteration " << wrong);
            REQUIRE(wrong == 0);
            REQUIRE(value < kOutOfOrder);
        }
        return true;
    }

    /// A value has the means of all iterations up to `shown`, or, because another shard may show more, up
    /// to a later one.
    void check_means(uint64_t key, double value, uint64_t shown, bool exactly) const {
        const uint64_t first = trouble_ == Trouble::kNone ? shown : 0;
        const uint64_t last = exactly ? shown : kIterations;
        double sum = 0;
        bool is_found = false;
        for (uint64_t t = 0; t <= last; ++t) {
            const uint32_t parts = part_counts_[t][key];
            if (parts > 0) sum += static_cast<double>(pushed_[t][key]) / parts;
            is_found = is_found || (t >= first && value == sum);
        }
        INFO("the value is " << value << ", and the means up to iteration " << last << " are "
                             << sum);
        REQUIRE(is_found);
    }

    void check_status(uint32_t number, const Status& status) {
        if (status) return;
        INFO(status.error().message());
        REQUIRE(trouble_ != Trouble::kNone);
        REQUIRE(status.code() == (trouble_ == Trouble::kDeath   ? Errc::kPeerLost
                                  : trouble_ == Trouble::kThrow ? Errc::kException
                                                                : Errc::kNoMemory));
        if (may_end()) workers_[number].stopped = true;
    }

    /// What fails once fails for the rest of the job.
    [[nodiscard]] bool may_end() const noexcept {
        return trouble_ == Trouble::kDeath || trouble_ == Trouble::kThrow;
    }

    /// A value has all parts of each iteration up to `shown`, or none if that failed; of a later
    /// one all or none, because another shard may show more. `exactly`: only one shard was asked.
    /// Returns the first iteration for which this is not so; 0: none.
    [[nodiscard]] uint64_t wrong_iteration(uint64_t key, uint64_t value, uint64_t shown,
                                           bool exactly) const {
        for (uint64_t t = 1; t <= kIterations; ++t) {
            const uint64_t bits = value & mask_of(t);
            const bool all = bits == pushed_[t][key];
            const bool must_be_in =
                t <= shown && (trouble_ == Trouble::kNone || ended_[t] == Errc::kOk);
            const bool must_be_out = t > shown && exactly;
            if ((bits != 0 && (!all || must_be_out)) || (must_be_in && !all)) return t;
        }
        return 0;
    }

    Random random_;
    Trouble trouble_;
    SimShape shape_;
    transport::sim::Options network_;
    SimCluster cluster_;
    Layout layout_ = Layout::kDense;
    bool is_mean_ = false;
    std::deque<Worker> workers_;
    uint64_t dies_at_ = 0;
    std::vector<std::vector<uint64_t>> pushed_ = std::vector<std::vector<uint64_t>>(
        kIterations + 1, std::vector<uint64_t>(kSummedKeys, 0));  ///< by iteration and key
    std::vector<std::vector<uint32_t>> part_counts_ = std::vector<std::vector<uint32_t>>(
        kIterations + 1, std::vector<uint32_t>(kSummedKeys, 0));  ///< the same
    /// By iteration: how the first push of it that has ended did so.
    std::vector<std::optional<Errc>> ended_ = std::vector<std::optional<Errc>>(kIterations + 1);
};

/// Workers push parts of some keys to a table of "mean", while a server joins and another one may die.
void check_means(uint64_t seed) {
    constexpr uint64_t kMeanIterations = 8;
    constexpr uint64_t kDivisible = 6;  // so means of up to three are exact
    Random random(seed);
    SimShape shape;
    shape.servers = 3;
    shape.shards = 1;
    shape.workers = static_cast<uint32_t>(1 + random.below(kMembersMax));
    shape.replicas = static_cast<uint32_t>(random.below(2));
    shape.is_manager_apart = true;
    shape.eager_bytes = random.below(2) == 0 ? 64 : 4096;
    SimCluster cluster(random(), shape, {.maps_memory = random.below(2) == 0});
    REQUIRE(cluster.start());
    TableSchema wanted = schema(random.below(2) == 0 ? Layout::kDense : Layout::kSparse);
    wanted.rule = "mean";
    const auto made = cluster.make_table(0, wanted);
    REQUIRE(made.has_value());
    const auto are_copied = [&] {
        return std::ranges::all_of(
            cluster.manager->view().segments(), [&](const ViewSegment& segment) {
                return segment.backup_count() >= shape.replicas && !segment.has_learner();
            });
    };
    std::vector<double> expected(kSummedKeys);
    std::vector<double> values(kSummedKeys);
    std::vector<uint64_t> all(kSummedKeys);
    std::iota(all.begin(), all.end(), 0);
    const uint64_t joins_at = 1 + random.below(kMeanIterations);
    const uint64_t dies_at = shape.replicas == 0 ? 0 : 1 + random.below(kMeanIterations);
    for (uint64_t iteration = 1; iteration <= kMeanIterations; ++iteration) {
        std::vector<double> sums(kSummedKeys);
        std::vector<double> counts(kSummedKeys);
        std::vector<std::vector<uint64_t>> keys(shape.workers);
        std::vector<std::vector<double>> pushed(shape.workers);
        std::vector<ClientCore::CallId> calls;
        if (iteration == joins_at) (void)cluster.add_server({.shards = 1});
        if (iteration == dies_at) REQUIRE(cluster.run_until(are_copied));
        for (uint32_t worker = 0; worker < shape.workers; ++worker) {
            for (const uint64_t key : all) {
                if (random.below(3) == 0) continue;
                keys[worker].push_back(key);
                pushed[worker].push_back(static_cast<double>(kDivisible * random.below(1000)));
                sums[key] += pushed[worker].back();
                ++counts[key];
            }
            calls.push_back(cluster.workers[worker]->push(
                *made, keys[worker], std::as_bytes(std::span(pushed[worker])), {iteration}));
            cluster.run_idle(random.below(4));
        }
        if (iteration == dies_at) cluster.kill_host(1);
        for (uint32_t worker = 0; worker < shape.workers; ++worker)
            REQUIRE(cluster.finish(worker, calls[worker]).has_value());
        for (const uint64_t key : all) {
            if (counts[key] > 0) expected[key] = sums[key] / counts[key];
        }
        const auto pull = cluster.workers[0]->pull(
            *made, all, std::as_writable_bytes(std::span(values)), {iteration});
        REQUIRE(cluster.finish(0, pull).has_value());
        REQUIRE(values == expected);
    }
}

/// Returns the number of failed iterations.
uint64_t run_histories(Trouble trouble, uint64_t count) {
    const uint64_t first = testing::seed_or(1);
    MESSAGE("histories by WEIR_SEED from " << first << " to " << first + count - 1);
    uint64_t failed = 0;
    uint64_t of_means = 0;
    for (uint64_t seed = first; seed < first + count; ++seed) {
        INFO("WEIR_SEED=" << seed);
        IterationHistory history(seed, trouble);
        failed += history.run();
        of_means += history.is_mean() ? 1 : 0;
    }
    MESSAGE("failed iterations: " << failed << ", histories of means: " << of_means);
    if (trouble != Trouble::kShortMemory) CHECK(of_means >= testing::fewest_of(count, 0.33));
    return failed;
}

}  // namespace

TEST_SUITE("iteration_history") {
    TEST_CASE("a pull after an iteration has every worker's part once, in hundreds of histories") {
        CHECK(run_histories(Trouble::kNone, testing::histories_or(200)) == 0);
    }

    TEST_CASE("an iteration that fails at a shard fails for everybody, in hundreds of histories") {
        const uint64_t count = testing::histories_or(200);
        const uint64_t failed = run_histories(Trouble::kShortMemory, count);
        if (count >= 200) CHECK(failed > 100);
    }

    TEST_CASE("whenever a worker dies, the others' calls end, in hundreds of histories") {
        const uint64_t count = testing::histories_or(200);
        const uint64_t failed = run_histories(Trouble::kDeath, count);
        if (count >= 200) CHECK(failed > 100);
    }

    TEST_CASE("a rule that throws at an iteration's end ends the job and shows nothing of it") {
        const uint64_t count = testing::histories_or(200);
        const uint64_t failed = run_histories(Trouble::kThrow, count);
        if (count >= 200) CHECK(failed > 100);
    }

    TEST_CASE("means are those of the parts that have the key, also after moves and takeovers") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + testing::histories_or(60); ++seed) {
            INFO("WEIR_SEED=" << seed);
            check_means(seed);
        }
    }

    TEST_CASE("a worker that dies ends the others' iteration with an error that names it") {
        StartedCluster cluster(5, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        std::vector<double> values(kSummedKeys, 1);
        CallOptions options;
        options.iteration = 1;
        const auto call = cluster.workers[0]->push(table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), options);
        cluster.network.kill(cluster.host_of_worker(2));
        cluster.workers[2].reset();
        const Status ended = cluster.finish(0, call);
        CHECK(ended.code() == Errc::kPeerLost);
        CHECK(ended.error().message().find("worker 2") != std::string::npos);
    }

    TEST_CASE("an iteration for which a worker has done its part ends well after its death") {
        StartedCluster cluster(5, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        const std::vector<double> values(kSummedKeys, 1);
        const auto push = [&](uint32_t worker, uint64_t iteration) {
            return cluster.workers[worker]->push(table, KeyRange{0, kSummedKeys},
                                                 std::as_bytes(std::span(values)), {iteration, 0});
        };
        (void)push(2, 1);
        const auto first = push(0, 1);
        cluster.run_idle(3);  // both parts are in
        cluster.network.kill(cluster.host_of_worker(2));
        cluster.workers[2].reset();
        cluster.run_idle(200);  // the shards have seen it die
        CHECK_FALSE(cluster.workers[0]->done(first));
        CHECK(cluster.finish(1, push(1, 1)).has_value());
        CHECK(cluster.finish(0, first).has_value());
        std::vector<double> sums(kSummedKeys);
        const auto pull = cluster.workers[0]->pull(table, KeyRange{0, kSummedKeys},
                                                   std::as_writable_bytes(std::span(sums)), {1, 0});
        REQUIRE(cluster.finish(0, pull).has_value());
        CHECK(sums[kSummedKeys - 1] == 3);
        CHECK(cluster.finish(0, push(0, 2)).code() == Errc::kPeerLost);
    }

    TEST_CASE(
        "who waits for a worker's part is told when that one gives up, and keeps its client") {
        StartedCluster cluster(9, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        const std::vector<double> values(kSummedKeys, 1);
        const auto push = [&](uint32_t worker) {
            return cluster.workers[worker]->push(table, KeyRange{0, kSummedKeys},
                                                 std::as_bytes(std::span(values)), {1, 0});
        };
        const auto waiting = push(0);
        const auto own = push(2);  // under way when it gives up
        const auto leaving = cluster.workers[1]->leave(Error(Errc::kNoMemory, "disk full"), 0);
        const uint64_t before_ns = cluster.clock.now_ns();
        CHECK(cluster.finish(1, leaving).has_value());
        for (const auto& [worker, call] : {std::pair{0U, waiting}, {2U, own}}) {
            const Status ended = cluster.finish(worker, call);
            CHECK(ended.code() == Errc::kPeerLost);
            CHECK(ended.error().message().find("worker 1") != std::string::npos);
        }
        CHECK(cluster.clock.now_ns() - before_ns < kSecond);
        CHECK(cluster.workers[1]->take(push(1)).code() == Errc::kUnavailable);
    }

    TEST_CASE("a server that dies ends every call with an error that names it, others go on") {
        StartedCluster cluster(6, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        std::vector<double> values(kSummedKeys, 1);
        cluster.network.kill(1);
        const auto call = cluster.workers[0]->push(table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), {});
        const Status ended = cluster.finish(0, call);
        CHECK((ended.code() == Errc::kPeerLost || ended.code() == Errc::kDeadline));
        CHECK(ended.error().message().find("server 1") != std::string::npos);
    }

    TEST_CASE("who waits in vain for a worker that neither works nor dies is told what for") {
        StartedCluster cluster(8, {}, schema(Layout::kDense));
        const TableInfo& table = cluster.table;
        const std::vector<double> values(kSummedKeys, 1);
        const auto call = cluster.workers[0]->push(table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), {1, kSecond});
        const Status ended = cluster.finish(0, call);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("another worker's part of iteration 1") !=
              std::string::npos);
    }

    TEST_CASE("a partition ends a call at its deadline at the latest, and names the server") {
        SimShape shape;
        transport::sim::Options network;
        network.tries_max = 1'000'000;  // the network itself never gives up
        network.silence_ns = 1000 * kSecond;
        SimCluster cluster(7, shape, network);
        REQUIRE(cluster.start());
        auto table = cluster.make_table(0, schema(Layout::kDense));
        REQUIRE(table.has_value());
        cluster.network.partition(1, cluster.host_of_worker(0));
        std::vector<double> values(kSummedKeys, 1);
        CallOptions options;
        options.deadline_ns = kSecond;
        const uint64_t before_ns = cluster.clock.now_ns();
        const auto call = cluster.workers[0]->push(*table, KeyRange{0, kSummedKeys},
                                                   std::as_bytes(std::span(values)), options);
        const Status ended = cluster.finish(0, call);
        CHECK(ended.code() == Errc::kDeadline);
        CHECK(ended.error().message().find("server 1") != std::string::npos);
        CHECK(cluster.clock.now_ns() - before_ns < 3 * kSecond);
    }
}

}  // namespace weir::test
