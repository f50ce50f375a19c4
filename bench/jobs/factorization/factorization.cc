// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/factorization/factorization.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/factorization/factorization_report.h"
#include "bench/jobs/factorization/ratings.h"
#include "bench/jobs/keys.h"
#include "bench/jobs/unseen_lists.h"
#include "bench/limits/wide_table.h"
#include "bench/micro/arena.h"
#include "lib/data/output_file.h"
#include "lib/key/key_batch.h"
#include "lib/worker/iterations.h"

namespace weir::bench {
namespace {

using limits::WideTable;

constexpr Consistency kTogether = Consistency::bounded(2);
constexpr size_t kGivenBatches = 256;  ///< of a worker, again and again
constexpr size_t kErrorBatches = 16;   ///< the last ones, whose error is told

/// One of the two tables, and what one batch needs of it.
struct Side {
    KeyBatch keys;
    Buffer<float> rows;
    Buffer<float> gradients;

    [[nodiscard]] Status make(Client& client) {
        WEIR_ASSIGN(rows, client.make_buffer<float>(kBatch * kRank));
        WEIR_ASSIGN(gradients, client.make_buffer<float>(kBatch * kRank));
        return {};
    }

    [[nodiscard]] size_t count() const { return keys.keys().size(); }

    [[nodiscard]] std::span<float> pulled() & { return rows.span().first(count() * kRank); }

    [[nodiscard]] Pulling pulling(Table<float>& table) {
        return table.pulling(keys.keys(), pulled());
    }

    /// `values`: has room for a row of each sample.
    [[nodiscard]] Pushing pushing(Table<float>& table, std::span<const float> values) {
        return table.pushing(keys.keys(), values.first(count() * kRank));
    }
};

struct BatchUnderWay {
    Side users;
    Side items;
    Task pull;  ///< one message, as the push is
    Task push;
};

struct FactorTables {
    Table<float> users;
    Table<float> items;
};

/// A training of all workers.
class Training {
public:
    Training(Client& client, const Ratings& ratings)
        : client_(client), ratings_(ratings), iterations_(client, kTogether) {}

    [[nodiscard]] Status make(const std::string& name, bool is_together) {
        TableOptions options{.layout = Layout::kSparse, .key_count = kUsers, .width = kRank};
        options.rule = sgd(kFactorRate);
        options.initial_value = normal(0, 0.1, 1);
        const auto table = [&](const char* of) {
            const std::string full = fmt::format("{} {}", name, of);
            return is_together ? iterations_.create_table<float>(full, options)
                               : client_.create_table<float>(full, options);
        };
        WEIR_ASSIGN(Table<float> users, table("users"));
        options.key_count = kItems;
        options.initial_value = normal(0, 0.1, 2);
        WEIR_ASSIGN(Table<float> items, table("items"));
        tables_.emplace(FactorTables{std::move(users), std::move(items)});
        for (BatchUnderWay& slot : slots_) {
            WEIR_TRY(slot.users.make(client_));
            WEIR_TRY(slot.items.make(client_));
        }
        return {};
    }

    /// Pushes change the tables when they come. While a batch is computed, the pull of the next one and
    /// the push of the one before are under way.
    [[nodiscard]] Status run_alone(size_t batches) {
        WEIR_TRY(begin_alone(0));
        for (size_t b = 0; b < batches; ++b) {
            if (b + 1 < batches) WEIR_TRY(begin_alone(b + 1));
            BatchUnderWay& slot = slots_[b % 2];
            WEIR_TRY(slot.pull.wait());
            compute(b, batches, slot, slot.users.gradients.data(), slot.items.gradients.data());
            slot.push =
                client_.push({slot.users.pushing(tables_->users, slot.users.gradients.span()),
                              slot.items.pushing(tables_->items, slot.items.gradients.span())});
        }
        return finish();
    }

    /// The servers sum the pushes of all workers in an iteration, and change each row once.
    [[nodiscard]] Status run_together(size_t batches) {
        for (size_t b = 0; b < batches; ++b) {
            const uint64_t iteration = iterations_.last() + 1;  // in both tables
            WEIR_TRY(iterations_.begin(iteration));
            BatchUnderWay& slot = slots_[b % slots_.size()];
            WEIR_TRY(take_keys(b, slot));
            const uint64_t oldest = kTogether.finished_before(iteration);
            PullOptions shows;
            if (oldest > 0) shows.iteration = oldest;
            slot.pull = client_.pull(
                {slot.users.pulling(tables_->users), slot.items.pulling(tables_->items)}, shows);
            WEIR_ASSIGN(const std::span<float> of_users,
                        iterations_.values(tables_->users, kBatch * kRank));
            WEIR_ASSIGN(const std::span<float> of_items,
                        iterations_.values(tables_->items, kBatch * kRank));
            WEIR_TRY(slot.pull.wait());
            compute(b, batches, slot, of_users.data(), of_items.data());
            slot.push = client_.push({slot.users.pushing(tables_->users, of_users),
                                      slot.items.pushing(tables_->items, of_items)},
                                     {.iteration = iteration});
            WEIR_TRY(iterations_.add(slot.push));
        }
        return finish();
    }

    /// Root of the mean square of the last batches of the last run.
    [[nodiscard]] double error() const {
        return std::sqrt(squares_ / static_cast<double>(kErrorBatches * kBatch));
    }

private:
    /// Once nothing uses the keys that were there.
    [[nodiscard]] Status take_keys(size_t b, BatchUnderWay& slot) {
        WEIR_TRY(slot.push.wait());
        slot.users.keys.assign(Ratings::batch(ratings_.users, b));
        slot.items.keys.assign(Ratings::batch(ratings_.items, b));
        return {};
    }

    [[nodiscard]] Status begin_alone(size_t b) {
        BatchUnderWay& slot = slots_[b % 2];
        WEIR_TRY(take_keys(b, slot));
        slot.pull =
            client_.pull({slot.users.pulling(tables_->users), slot.items.pulling(tables_->items)});
        return {};
    }

    void compute(size_t b, size_t batches, BatchUnderWay& slot, float* of_users, float* of_items) {
        const double squares = set_gradients(
            Ratings::batch(ratings_.ratings, b),
            {slot.users.rows.data(), slot.users.keys.places(), of_users}, slot.users.count(),
            {slot.items.rows.data(), slot.items.keys.places(), of_items}, slot.items.count());
        if (b == 0) squares_ = 0;
        if (b + kErrorBatches >= batches) squares_ += squares;
    }

    [[nodiscard]] Status finish() {
        for (BatchUnderWay& slot : slots_)
            WEIR_TRY(slot.push.wait());
        return {};
    }

    Client& client_;
    const Ratings& ratings_;
    Iterations iterations_;
    std::optional<FactorTables> tables_;
    std::array<BatchUnderWay, kTogether.tau() + 1> slots_;
    double squares_ = 0;
};

/// What one thread does without Weir, and what a server does with other tables.
class Alone {
public:
    Alone(Client& client, const BenchFlags& flags, const Ratings& ratings)
        : client_(client),
          flags_(flags),
          ratings_(ratings),
          user_rows_(kUsers * kRank, 0.1F),
          item_rows_(kItems * kRank, 0.1F),
          of_users_(kBatch * kRank),
          of_items_(kBatch * kRank) {}

    [[nodiscard]] Status make();
    [[nodiscard]] Status measure(size_t batches, FactorizationRound& round);

private:
    /// Of one core's tables that are looked up.
    struct CoreTable {
        CoreTable(bench::Arena& arena, size_t keys, const limits::WideStep& step)
            : table({arena.array<WideTable::Bucket>(limits::line_buckets_for(keys)),
                     limits::line_buckets_for(keys)},
                    arena.array<float>(keys * step.row_floats(kRank)), kRank, step) {}

        WideTable table;
        std::vector<std::vector<uint64_t>> lists = {};
    };

    [[nodiscard]] Status measure_lookup(FactorizationRound& round);
    void run_batched(size_t batches);
    void run_core(size_t batches);

    Client& client_;
    const BenchFlags& flags_;
    const Ratings& ratings_;
    UnseenLists lists_;
    std::optional<Table<float>> looked_up_;
    Buffer<float> pushed_;
    Buffer<float> pulled_;
    std::vector<float> user_rows_;
    std::vector<float> item_rows_;
    std::vector<float> of_users_;
    std::vector<float> of_items_;
    std::optional<bench::Arena> arena_;
    std::array<std::optional<CoreTable>, 2> core_;
};

constexpr uint32_t kLookupInFlight = 4;  // as `weir bench lookup`

Status Alone::make() {
    WEIR_TRY(lists_.make(client_, flags_.brief ? 4 : 1'000'000 / UnseenLists::kListKeys));
    TableOptions options{
        .layout = Layout::kSparse, .key_count = lists_.key_count(), .width = kRank};
    options.rule = sgd(kFactorRate);
    WEIR_ASSIGN(looked_up_, client_.create_table<float>("factorization lookup", options));
    constexpr size_t kListValues = UnseenLists::kListKeys * kRank;
    WEIR_ASSIGN(pushed_, client_.make_buffer<float>(kListValues));
    WEIR_ASSIGN(pulled_, client_.make_buffer<float>(kLookupInFlight * kListValues));
    fill_with_updates(pushed_.span());
    FactorizationRound first;  // which makes the rows
    WEIR_TRY(measure_lookup(first));

    limits::WideStep step;
    step.kind = limits::WideStep::Kind::kSgd;
    step.rate = kFactorRate;
    arena_.emplace(size_t{32} << 20);
    const std::array<std::pair<uint64_t, const std::vector<uint64_t>*>, 2> sides = {
        {{kUsers, &ratings_.users}, {kItems, &ratings_.items}}};
    for (size_t side = 0; side < sides.size(); ++side) {
        const auto& [keys, drawn] = sides[side];
        CoreTable& table = core_[side].emplace(*arena_, keys, step);
        std::vector<uint64_t> all(keys);
        for (uint64_t key = 0; key < keys; ++key)
            all[key] = key;
        table.table.insert(all);
        KeyBatch batch;
        for (size_t b = 0; b < ratings_.batch_count(); ++b) {
            batch.assign(Ratings::batch(*drawn, b));
            table.lists.emplace_back(batch.keys().begin(), batch.keys().end());
        }
    }
    return {};
}

Status Alone::measure_lookup(FactorizationRound& round) {
    constexpr size_t kListValues = UnseenLists::kListKeys * kRank;
    lists_.shuffle();
    Flight flight(kLookupInFlight);
    WEIR_ASSIGN(round.push_keys_per_s, lists_.time(flight, [&](size_t i) {
        return looked_up_->push(lists_.list(i), pushed_.span());
    }));
    lists_.shuffle();
    WEIR_ASSIGN(round.pull_keys_per_s, lists_.time(flight, [&](size_t i) {
        return looked_up_->pull(
            lists_.list(i), pulled_.span().subspan(i % kLookupInFlight * kListValues, kListValues));
    }));
    return {};
}

void Alone::run_batched(size_t batches) {
    KeyBatch users;
    KeyBatch items;
    std::vector<float> p(kBatch * kRank);
    std::vector<float> q(kBatch * kRank);
    const auto gather = [](const KeyBatch& keys, const std::vector<float>& rows, float* to) {
        for (const uint64_t key : keys.keys())
            to = std::copy_n(rows.data() + key * kRank, kRank, to);
    };
    for (size_t b = 0; b < batches; ++b) {
        users.assign(Ratings::batch(ratings_.users, b));
        items.assign(Ratings::batch(ratings_.items, b));
        gather(users, user_rows_, p.data());
        gather(items, item_rows_, q.data());
        (void)set_gradients(Ratings::batch(ratings_.ratings, b),
                            {p.data(), users.places(), of_users_.data()}, users.keys().size(),
                            {q.data(), items.places(), of_items_.data()}, items.keys().size());
        take_steps(users.keys(), of_users_.data(), user_rows_.data());
        take_steps(items.keys(), of_items_.data(), item_rows_.data());
    }
}

void Alone::run_core(size_t batches) {
    for (size_t b = 0; b < batches; ++b) {
        for (std::optional<CoreTable>& side : core_) {
            const std::vector<uint64_t>& list = side->lists[b % side->lists.size()];
            side->table.pull(list, of_users_.data());
            side->table.push(list, of_items_.data());
        }
    }
}

Status Alone::measure(size_t batches, FactorizationRound& round) {
    WEIR_TRY(measure_lookup(round));
    const SteadyClock clock;
    const auto samples_per_s = [&](auto&& work) {
        const uint64_t begin_ns = clock.now_ns();
        work();
        return static_cast<double>(batches * kBatch) * 1e9 /
               static_cast<double>(clock.now_ns() - begin_ns);
    };
    round.loop = samples_per_s([&] {
        for (size_t b = 0; b < batches; ++b)
            take_samples(Ratings::batch(ratings_.users, b), Ratings::batch(ratings_.items, b),
                         Ratings::batch(ratings_.ratings, b), user_rows_.data(), item_rows_.data());
    });
    round.batched = samples_per_s([&] { run_batched(batches); });
    std::ranges::fill(of_items_, 0.0F);
    round.core =
        on_core(flags_.limit_cpus[0], [&] { return samples_per_s([&] { run_core(batches); }); });
    return {};
}

/// Runs `train` at all workers at once and returns the samples per second of all of them.
template <class Train>
Result<double> of_all(Client& client, size_t batches, Train&& train) {
    WEIR_TRY(client.barrier());
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    WEIR_TRY(train());
    std::array<double, 1> took_ns = {static_cast<double>(clock.now_ns() - begin_ns)};
    std::array<double, 1> samples = {static_cast<double>(batches * kBatch)};
    WEIR_TRY(client.allreduce(took_ns, Reduce::kMax));
    WEIR_TRY(client.allreduce(samples));
    return samples[0] * 1e9 / took_ns[0];
}

}  // namespace

Status bench_factorization(Client& client, const BenchFlags& flags, const JobShape& shape) {
    const bool reports = client.worker() == 0;
    if (reports && !flags.json.empty()) WEIR_TRY(data::check_output(flags.json));
    // About as long as a part is to take, at 4 M samples/s for each worker.
    const auto batches = std::max<size_t>(
        kErrorBatches,
        static_cast<size_t>(static_cast<double>(flags.part_ns()) * 4e6 * 1e-9 / kBatch));
    const Ratings ratings(1 + client.worker(), std::min(batches, kGivenBatches));
    Training alone(client, ratings);
    Training together(client, ratings);
    WEIR_TRY(alone.make("factorization", false));
    WEIR_TRY(together.make("factorization in iterations", true));
    const double all_samples = static_cast<double>(kBatch) * shape.worker_count;
    const FactorizationRows rows{rows_per_sample(kBatch), rows_per_sample(all_samples)};
    std::optional<FactorizationReport> report;
    std::optional<Alone> without;
    if (reports) {
        report.emplace(shape, rows);
        WEIR_TRY(without.emplace(client, flags, ratings).make());
    }
    for (int i = 0; i < flags.repetitions(); ++i) {
        FactorizationRound round;
        if (reports) WEIR_TRY(without->measure(batches, round));
        WEIR_ASSIGN(round.alone.samples_per_s,
                    of_all(client, batches, [&] { return alone.run_alone(batches); }));
        WEIR_ASSIGN(round.together.samples_per_s,
                    of_all(client, batches, [&] { return together.run_together(batches); }));
        if (!reports) continue;
        const auto complete = [&](FactorizationRound::Variant& of, double applied, double error) {
            of.limit = 1 / (rows.of_one / round.pull_keys_per_s + applied / round.push_keys_per_s);
            of.ratio = of.samples_per_s / of.limit;
            of.of_core = of.samples_per_s / round.core;
            of.of_batched = of.samples_per_s / round.batched;
            of.error = error;
        };
        complete(round.alone, rows.of_one, alone.error());
        complete(round.together, rows.of_all, together.error());
        report->add(round);
    }
    if (!reports) return {};
    report->print();
    return flags.json.empty() ? Status() : report->write_json(flags.json);
}

}  // namespace weir::bench
