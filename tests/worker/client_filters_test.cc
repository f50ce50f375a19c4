// SPDX-License-Identifier: Apache-2.0
/// \file
/// Calls that go through filters: what they send, and that what arrives is what was pushed or pulled.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/filter/filters.h"
#include "lib/worker/filters/table_filters.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kFilteredKeys = 3000;

/// Workers with a table of floats, of sums.
class FilteredTable : public SimCluster {
public:
    explicit FilteredTable(Layout layout, const SimShape& shape = two_workers(), uint32_t width = 1,
                           const char* rule = "add", uint64_t seed = 1)
        : SimCluster(seed, shape, {}) {
        REQUIRE(start());
        TableSchema schema = table_of(layout, "sums", kFilteredKeys, ValueType::kFloat32);
        schema.width = width;
        schema.rule = rule;
        auto made = make_table(0, schema);
        REQUIRE_MESSAGE(made, made.error().text());
        table = *made;
        keys.resize(kFilteredKeys);
        std::iota(keys.begin(), keys.end(), 0);
    }

    static SimShape two_workers() {
        SimShape shape;
        shape.workers = 2;
        return shape;
    }

    void use(std::string_view text, uint32_t worker = 0) {
        const Result<Filters> filters = Filters::parse(text);
        REQUIRE_MESSAGE(filters, filters.error().text());
        const Status set = workers[worker]->set_filters(table, *filters);
        REQUIRE_MESSAGE(set, set.error().text());
    }

    [[nodiscard]] Status push(std::span<const float> values, const CallOptions& options = {},
                              uint32_t worker = 0) {
        const auto bytes = std::as_bytes(values);
        ClientCore& client = *workers[worker];
        return finish(worker, table.schema.layout == Layout::kDense
                                  ? client.push(table, KeyRange{0, kFilteredKeys}, bytes, options)
                                  : client.push(table, keys, bytes, options));
    }

    [[nodiscard]] std::vector<float> values(const CallOptions& options = {}, uint32_t worker = 0) {
        std::vector<float> out(kFilteredKeys * table.schema.width);
        const auto bytes = std::as_writable_bytes(std::span(out));
        ClientCore& client = *workers[worker];
        const Status pulled =
            finish(worker, table.schema.layout == Layout::kDense
                               ? client.pull(table, KeyRange{0, kFilteredKeys}, bytes, options)
                               : client.pull(table, keys, bytes, options));
        REQUIRE_MESSAGE(pulled, pulled.error().text());
        return out;
    }

    [[nodiscard]] Status flush(uint32_t worker = 0) {
        Status first;
        for (const ClientCore::CallId call : workers[worker]->flush()) {
            Status flushed = finish(worker, call);
            if (first) first = std::move(flushed);
        }
        return first;
    }

    TableInfo table;
    std::vector<uint64_t> keys;
};

/// Small whole numbers in some of so many places: sums of them are exact.
std::vector<float> some_values(Random& random, size_t count, uint64_t percent) {
    std::vector<float> values(count);
    for (float& value : values) {
        if (random.below(100) < percent) value = static_cast<float>(random.below(7)) - 3;
    }
    return values;
}

constexpr const char* kLossless[] = {"zeros",
                                     "integers",
                                     "compress",
                                     "zeros,compress",
                                     "zeros,integers",
                                     "integers,compress",
                                     "zeros,integers,compress",
                                     "auto"};

}  // namespace

TEST_SUITE("client_filters") {
    TEST_CASE("codecs change nothing of what is pushed and pulled") {
        WEIR_TEST_SEED(seed, 71);
        Random random(seed);
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const uint32_t width : {1U, 3U}) {
                FilteredTable job(layout, FilteredTable::two_workers(), width);
                std::vector<float> sums(kFilteredKeys * width);
                for (const char* text : kLossless) {
                    CAPTURE(text);
                    job.use(text);
                    for (const uint64_t percent : {1, 10, 60, 100}) {
                        const std::vector<float> pushed = some_values(random, sums.size(), percent);
                        for (size_t i = 0; i < sums.size(); ++i)
                            sums[i] += pushed[i];
                        const Status status = job.push(pushed);
                        REQUIRE_MESSAGE(status, status.error().text());
                        CHECK(job.values() == sums);
                        CHECK(job.values({}, 1) == sums);  // of a worker without filters
                    }
                }
            }
        }
    }

    TEST_CASE("a call has its own filters in the place of the table's") {
        FilteredTable job(Layout::kDense);
        job.use("significant=10");
        const std::vector<float> ones(kFilteredKeys, 1);
        const Filters none;
        CallOptions options;
        options.filters = &none;
        REQUIRE(job.push(ones, options));
        CHECK(job.values() == ones);
        REQUIRE(job.push(ones));  // held
        CHECK(job.values() == ones);
        REQUIRE(job.flush());
        CHECK(job.values() == std::vector<float>(kFilteredKeys, 2));
    }

    TEST_CASE("what is held back is exact after a flush") {
        WEIR_TEST_SEED(seed, 72);
        Random random(seed);
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const char* text :
                 {"significant=4", "significant-relative=0.5", "significant=4,zeros,compress",
                  "top=10000:4000", "significant=2,top=10000:4000,integers"}) {
                CAPTURE(text);
                FilteredTable job(layout);
                job.use(text);
                std::vector<float> sums(kFilteredKeys);
                for (int call = 0; call < 8; ++call) {
                    const std::vector<float> pushed = some_values(random, sums.size(), 50);
                    for (size_t i = 0; i < sums.size(); ++i)
                        sums[i] += pushed[i];
                    REQUIRE(job.push(pushed));
                }
                CHECK(job.workers[0]->held_count(job.table.schema.id) > 0);
                CHECK(job.values() != sums);
                const Status flushed = job.flush();
                REQUIRE_MESSAGE(flushed, flushed.error().text());
                CHECK(job.workers[0]->held_count(job.table.schema.id) == 0);
                CHECK(job.values() == sums);
            }
        }
    }

    TEST_CASE("a call that a later filter refuses leaves held what was") {
        FilteredTable cluster(Layout::kSparse);
        cluster.use("significant=1e4,round=float16");
        const std::vector<float> first(kFilteredKeys, 9000);
        REQUIRE(cluster.push(first));  // all is held
        const std::vector<float> second(kFilteredKeys, 60'000);
        CHECK_FALSE(cluster.push(second));  // 69,000 is no float16
        CHECK(cluster.values() == std::vector<float>(kFilteredKeys));
        REQUIRE(cluster.flush());
        CHECK(cluster.values() == first);
    }

    TEST_CASE("what a flush has taken and cannot send is held again") {
        HeldRows rows({ValueType::kFloat32, 2, Combine::kSum}, std::nullopt);
        const std::vector<uint64_t> keys{3, 5, 900};
        const std::vector<float> values{1, 2, 0, 4, 5, -6};
        SelectedRows all;
        all.keys = keys;
        const auto bytes = std::as_bytes(std::span(values));
        all.values = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
        std::ranges::copy(bytes, all.values.get());
        rows.put_back(all);
        CHECK(rows.count() == 3);
        const std::shared_ptr<SelectedRows> taken = rows.take_all();
        CHECK(rows.count() == 0);
        rows.put_back(*taken);
        const std::shared_ptr<SelectedRows> again = rows.take_all();
        CHECK(again->keys == keys);
        CHECK(std::ranges::equal(std::span(again->values.get(), bytes.size()), bytes));
    }

    TEST_CASE("what is held and what is pushed may not be an infinity together") {
        FilteredTable cluster(Layout::kDense);
        cluster.use("significant=1e38");
        std::vector<float> values(kFilteredKeys, 0.9e38F);
        REQUIRE(cluster.push(values));
        values.assign(kFilteredKeys, 3e38F);
        const Status refused = cluster.push(values);
        CHECK(refused.code() == Errc::kNotFinite);
        CHECK(refused.error().text().find("flush() more often") != std::string::npos);
        REQUIRE(cluster.flush());
        CHECK(cluster.values() == std::vector<float>(kFilteredKeys, 0.9e38F));
    }

    TEST_CASE("a push of two tables of which one refuses leaves held what was in the other") {
        FilteredTable cluster(Layout::kSparse);
        cluster.use("significant=100");
        const std::vector<float> first(kFilteredKeys, 60);
        REQUIRE(cluster.push(first));
        const auto other =
            cluster.make_table(0, table_of(Layout::kSparse, "other", 0, ValueType::kFloat32));
        REQUIRE(other.has_value());
        ClientCore& client = *cluster.workers[0];
        REQUIRE(client.set_filters(*other, *Filters::parse("round=float16")));
        const std::vector<float> large(kFilteredKeys, 1e6F);
        std::vector<Operation> both(2);
        both[0].table = &cluster.table;
        both[1].table = &*other;
        for (Operation& one : both) {
            one.keys = cluster.keys;
            one.row_bytes = sizeof(float);
        }
        both[0].values = std::as_bytes(std::span(first));  // 120 would travel
        both[1].values = std::as_bytes(std::span(large));
        CHECK_FALSE(cluster.finish(0, client.start(both)));
        CHECK(cluster.values() == std::vector<float>(kFilteredKeys));
        REQUIRE(cluster.flush());
        CHECK(cluster.values() == first);
    }

    TEST_CASE("what is held back of a table that is dropped is gone, and no flush fails by it") {
        FilteredTable job(Layout::kSparse);
        job.use("significant=4");
        REQUIRE(job.push(std::vector<float>(kFilteredKeys, 1)));
        CHECK(job.workers[0]->held_count(job.table.schema.id) == kFilteredKeys);
        REQUIRE(job.finish(0, job.workers[0]->drop_table("sums")));
        const Status flushed = job.flush();
        CHECK_MESSAGE(flushed, flushed.error().text());
        CHECK(job.workers[0]->held_count(job.table.schema.id) == 0);
    }

    TEST_CASE("rows that are not kept are not touched by the rule") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            FilteredTable job(layout, FilteredTable::two_workers(), 1, "assign");
            REQUIRE(job.push(std::vector<float>(kFilteredKeys, 5)));
            job.use("tail=2");  // the first push of a key is dropped
            std::vector<float> pushed(kFilteredKeys, 7);
            REQUIRE(job.push(pushed));
            CHECK(job.values() == std::vector<float>(kFilteredKeys, 5));
            REQUIRE(job.push(pushed));
            CHECK(job.values() == pushed);
        }
    }

    TEST_CASE("in iterations the next part takes along what was held when flush() was called") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            FilteredTable job(layout);
            job.use("significant=3");
            const std::vector<float> twos(kFilteredKeys, 2);
            for (uint64_t iteration = 1; iteration <= 2; ++iteration) {
                CallOptions options;
                options.iteration = iteration;
                const auto bytes = std::as_bytes(std::span(twos));
                ClientCore& first = *job.workers[0];
                // Of every other key first, then of the others.
                std::vector<uint64_t> half;
                for (uint64_t key = iteration - 1; key < kFilteredKeys; key += 2)
                    half.push_back(key);
                const auto call =
                    first.push(job.table, half, bytes.first(half.size() * sizeof(float)), options);
                REQUIRE(job.push(twos, options, 1));
                const Status pushed = job.finish(0, call);
                REQUIRE_MESSAGE(pushed, pushed.error().text());
                CHECK(job.values({.iteration = iteration}, 1) ==
                      std::vector<float>(kFilteredKeys, iteration == 1 ? 2.F : 6.F));
                REQUIRE(job.flush());  // pushes nothing by itself
                CHECK(first.held_count(job.table.schema.id) == (iteration == 1 ? half.size() : 0));
            }
        }
    }

    TEST_CASE("what was held travels with the next part, also when that has no filters any more") {
        FilteredTable job(Layout::kDense);
        job.use("significant=3");
        const std::vector<float> twos(kFilteredKeys, 2);
        const auto iterate = [&](uint64_t iteration) {
            CallOptions options;
            options.iteration = iteration;
            const auto call = job.workers[0]->push(job.table, KeyRange{0, kFilteredKeys},
                                                   std::as_bytes(std::span(twos)), options);
            REQUIRE(job.push(twos, options, 1));
            REQUIRE(job.finish(0, call));
        };
        iterate(1);
        CHECK(job.values({}, 1) == twos);
        job.use("none");
        REQUIRE(job.flush());
        iterate(2);
        CHECK(job.values({}, 1) == std::vector<float>(kFilteredKeys, 8));
    }

    TEST_CASE("factors are multiplied out, whatever their size") {
        WEIR_TEST_SEED(seed, 74);
        Random random(seed);
        constexpr uint32_t kWidth = 24;
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            FilteredTable job(layout, FilteredTable::two_workers(), kWidth);
            std::vector<float> sums(kFilteredKeys * kWidth);
            for (const char* text : {"none", "zeros,compress", "auto", "significant=5"}) {
                job.use(text);
                // Up to more numbers than the rows have; a few keys, and all.
                for (const uint32_t rank : {1U, 3U, 30U}) {
                    for (const uint64_t count : {uint64_t{3}, kFilteredKeys}) {
                        CAPTURE(text);
                        CAPTURE(rank);
                        const std::vector<float> left = some_values(random, count * rank, 70);
                        const std::vector<float> right = some_values(random, rank * kWidth, 70);
                        Operation push;
                        push.table = &job.table;
                        push.keys = std::span(job.keys).first(count);
                        push.by_range = layout == Layout::kDense;
                        push.range = {0, count};
                        push.values = std::as_bytes(std::span(left));
                        push.own_extras().right = std::as_bytes(std::span(right));
                        push.own_extras().rank = rank;
                        push.row_bytes = rank * sizeof(float);
                        const Status pushed = job.finish(0, job.workers[0]->start({push}));
                        REQUIRE_MESSAGE(pushed, pushed.error().text());
                        for (size_t i = 0; i < count * kWidth; ++i) {
                            for (uint32_t k = 0; k < rank; ++k)
                                sums[i] +=
                                    left[i / kWidth * rank + k] * right[k * kWidth + i % kWidth];
                        }
                        REQUIRE(job.values() == sums);
                    }
                }
            }
            const FilterBytes factors = job.workers[0]->filter_traffic().factors;
            CHECK(factors.after < factors.before);
        }
    }

    TEST_CASE("factors that do not fit to the table are refused") {
        FilteredTable job(Layout::kDense, FilteredTable::two_workers(), 4);
        const std::vector<float> left(8, 1);
        const std::vector<float> right(8, 1);
        const auto pushed = [&](uint32_t rank, size_t left_count, size_t right_count) {
            Operation push;
            push.table = &job.table;
            push.by_range = true;
            push.range = {0, 4};
            push.values = std::as_bytes(std::span(left).first(left_count));
            push.own_extras().right = std::as_bytes(std::span(right).first(right_count));
            push.own_extras().rank = rank;
            push.row_bytes = rank * sizeof(float);
            return job.finish(0, job.workers[0]->start({push})).code();
        };
        CHECK(pushed(2, 8, 8) == Errc::kOk);
        CHECK(pushed(2, 8, 7) == Errc::kInvalidArgument);
        CHECK(pushed(2, 7, 8) == Errc::kInvalidArgument);
        CHECK(pushed(1, 4, 8) == Errc::kInvalidArgument);
        CHECK(pushed(0, 0, 3) == Errc::kInvalidArgument);
    }

    TEST_CASE("rounding and random skips are right in the mean") {
        WEIR_TEST_SEED(seed, 73);
        Random random(seed);
        std::vector<float> pushed(kFilteredKeys);
        for (float& value : pushed)
            value = static_cast<float>(random.uniform()) - 0.5F;
        constexpr int kPushes = 8;
        constexpr uint64_t kSeeds = 40;
        for (const char* text : {"round=fixed8:no-rests", "round=bfloat16:no-rests",
                                 "round=float16:no-rests", "round=fixed16:no-rests,compress",
                                 "random-skip=0.5", "round=fixed8:no-rests,integers"}) {
            CAPTURE(text);
            std::vector<double> sums(kFilteredKeys);
            std::vector<double> squares(kFilteredKeys);  // of errors
            for (uint64_t i = 0; i < kSeeds; ++i) {
                FilteredTable job(Layout::kDense, FilteredTable::two_workers(), 1, "add",
                                  mix64(seed + i));
                job.use(text);
                for (int push = 0; push < kPushes; ++push)
                    REQUIRE(job.push(pushed));
                const std::vector<float> values = job.values();
                for (size_t k = 0; k < values.size(); ++k) {
                    const double error = values[k] - kPushes * double{pushed[k]};
                    sums[k] += error;
                    squares[k] += error * error;
                }
            }
            double error = 0;
            double all = 0;
            for (size_t k = 0; k < sums.size(); ++k) {
                error += sums[k];
                all += squares[k];
            }
            // Each key's mean over the seeds within four standard errors, but for luck: of 3,000 keys it lets about
            // one miss that. A key that is hardly ever rounded up has too few errors to tell; what others have counts.
            size_t beyond = 0;
            for (size_t k = 0; k < sums.size(); ++k) {
                const double most = std::max(squares[k], all / kFilteredKeys);
                if (std::abs(sums[k]) > 4 * std::sqrt(most)) ++beyond;
            }
            CHECK(beyond <= 3);
            CHECK(all > 0);
            CHECK(std::abs(error) <= 4 * std::sqrt(all));  // the mean of all
        }
    }

    TEST_CASE("the rests of rounding make sums exact after a flush") {
        FilteredTable job(Layout::kSparse);
        job.use("round=fixed8,integers");
        std::vector<float> pushed(kFilteredKeys);
        for (size_t i = 0; i < pushed.size(); ++i)
            pushed[i] = static_cast<float>(i % 200) * 0x1p-10F;
        for (int i = 0; i < 4; ++i)
            REQUIRE(job.push(pushed));
        REQUIRE(job.flush());
        const std::vector<float> sums = job.values();
        for (size_t i = 0; i < sums.size(); ++i)
            CHECK(sums[i] == 4 * pushed[i]);
    }

    TEST_CASE(
        "codecs, and selectors that hold nothing back, also go with a table that takes means") {
        FilteredTable job(Layout::kDense, FilteredTable::two_workers(), 1, "mean");
        job.use("zeros,compress");
        const std::vector<float> ones(kFilteredKeys, 1);
        CallOptions first;
        first.iteration = 1;
        job.use("tail=1,zeros", 1);  // one that keeps all
        ClientCore& client = *job.workers[0];
        const auto own = client.push(job.table, KeyRange{0, kFilteredKeys},
                                     std::as_bytes(std::span(ones)), first);
        const Status others = job.push(ones, first, 1);
        CHECK_MESSAGE(others, others.error().text());
        CHECK(job.finish(0, own));
        CHECK(job.values(first) == ones);
        CHECK(job.workers[0]->held_count(job.table.schema.id) == 0);
    }

    TEST_CASE("calls name some filters again and again, not new ones for ever") {
        FilteredTable job(Layout::kSparse);
        CallOptions options;
        const std::vector<float> values(kFilteredKeys, 1);
        for (int i = 0; i < 100; ++i) {
            const Filters filters{filters::significant(0.001 * (1 + i % 60))};
            options.filters = &filters;
            REQUIRE(job.push(values, options));
        }
        Status last;
        for (int i = 100; last && i < 200; ++i) {
            const Filters filters{filters::significant(i)};
            options.filters = &filters;
            last = job.push(values, options);
        }
        CHECK(last.code() == Errc::kInvalidArgument);
        CHECK(last.error().text().find("64 different filters") != std::string::npos);
    }

    TEST_CASE("filters that a table cannot have are refused, and it keeps its own") {
        FilteredTable job(Layout::kDense, FilteredTable::two_workers(), 1, "mean");
        const auto refused = [&](std::string_view text) {
            const Status set = job.workers[0]->set_filters(job.table, *Filters::parse(text));
            CHECK(set.code() == Errc::kInvalidArgument);
            CHECK(set.error().text().find("sums") != std::string::npos);
        };
        refused("significant=1");
        refused("top=1000:1000");
    }
}

}  // namespace weir::test
