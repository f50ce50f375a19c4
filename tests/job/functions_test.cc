// SPDX-License-Identifier: Apache-2.0
/// \file
/// Functions on servers, in real jobs: Weir's, and those of a program.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/random.h"
#include "lib/rules.h"
#include "tests/job/small_job.h"
#include "transport/net/reserved_port.h"

namespace weir::test {
namespace {

/// y = keep * y + first + second
struct AddTwo {
    static constexpr std::array kNumbers = {FunctionNumber{.name = "keep", .otherwise = 1}};
    static constexpr uint32_t kTables = 2;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        for (size_t i = 0; i < rows.value_count(); ++i)
            rows.values[i] = static_cast<T>(rows.numbers[0]) * rows.values[i] + rows.with[0][i] +
                             rows.with[1][i];
    }
};

/// The sum of the keys whose first value is above a bound, and how many these are.
struct KeysAbove {
    static constexpr std::array kNumbers = {FunctionNumber{"bound"}};
    static constexpr bool kWantsKeys = true;

    static void begin(std::span<const double>, FunctionResult& result) { result.numbers = {0, 0}; }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        for (size_t i = 0; i < rows.row_count; ++i) {
            if (!(static_cast<double>(rows.values[i * rows.width]) > rows.numbers[0])) continue;
            result.numbers[0] += static_cast<double>(rows.keys[i]);
            ++result.numbers[1];
        }
    }
};

template <class T>
T sum_of_row(const T* values, uint32_t width) {
    return std::accumulate(values, values + width, T{});
}

/// Each value of a row gets the sum of the row of another table, which may be wider or narrower.
struct AddRowSum {
    static constexpr uint32_t kTables = 1;
    static constexpr bool kAnyWidth = true;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        for (size_t i = 0; i < rows.value_count(); ++i)
            rows.values[i] = static_cast<T>(
                rows.values[i] +
                sum_of_row(rows.with[0] + i / rows.width * rows.with_width[0], rows.with_width[0]));
    }
};

/// The products of the sums of two rows.
struct RowSumProducts {
    static constexpr uint32_t kTables = 1;
    static constexpr bool kAnyWidth = true;

    static void begin(std::span<const double>, FunctionResult& result) { result.numbers = {0}; }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult& result) {
        for (size_t i = 0; i < rows.row_count; ++i)
            result.numbers[0] +=
                static_cast<double>(sum_of_row(rows.values + i * rows.width, rows.width)) *
                static_cast<double>(
                    sum_of_row(rows.with[0] + i * rows.with_width[0], rows.with_width[0]));
    }
};

/// The values of four others, one behind the other: y = 1000 a + 100 b + 10 c + d
struct FourDigits {
    static constexpr uint32_t kTables = 4;

    template <class T>
    static void change(const FunctionRows<T>& rows) {
        for (size_t i = 0; i < rows.value_count(); ++i) {
            T digits = 0;
            for (const T* const other : rows.with)
                digits = static_cast<T>(10 * digits + other[i]);
            rows.values[i] = digits;
        }
    }
};

struct ThrowsReading {
    static void begin(std::span<const double>, FunctionResult& result) { result.numbers = {0}; }

    template <class T>
    static void read(const FunctionRows<const T>& rows, FunctionResult&) {
        if (rows.row_count > 0) throw std::runtime_error("no such row");
    }
};

/// Its results have another size than it says.
struct GrowsTooMuch {
    static void begin(std::span<const double>, FunctionResult& result) { result.numbers = {0}; }

    static size_t results_max(std::span<const double>) { return 1; }

    template <class T>
    static void read(const FunctionRows<const T>&, FunctionResult& result) {
        result.numbers.assign(5, 1);
    }
};

struct Throws {
    template <class T>
    static void change(const FunctionRows<T>& rows) {
        if (rows.row_count > 0) throw std::runtime_error("no such step");
    }
};

/// Its results cannot be put together.
struct ThrowsLater {
    static void begin(std::span<const double>, FunctionResult& result) { result.numbers = {0}; }

    static void merge(FunctionResult&, const FunctionResult&, std::span<const double>) {
        throw std::runtime_error("no such sum");
    }

    template <class T>
    static void read(const FunctionRows<const T>&, FunctionResult&) {}
};

Status add_functions(RuleRegistry& rules) {
    WEIR_TRY(rules.register_function<ThrowsLater>("throws_later"));
    WEIR_TRY(rules.register_function<ThrowsReading>("throws_reading"));
    WEIR_TRY(rules.register_function<GrowsTooMuch>("grows_too_much"));
    WEIR_TRY(rules.register_function<FourDigits>("four_digits"));
    WEIR_TRY(rules.register_function<AddTwo>("add_two"));
    WEIR_TRY(rules.register_function<AddRowSum>("add_row_sum"));
    WEIR_TRY(rules.register_function<RowSumProducts>("row_sum_products"));
    WEIR_TRY(rules.register_function<KeysAbove>("keys_above"));
    return rules.register_function<Throws>("throws");
}

/// Runs `train` with the client of a job over each transport.
template <class Train>
void with_functions_job(uint32_t replicas, Train&& train) {
    for (const char* const transport : {"shm", "tcp"}) {
        CAPTURE(transport);
        JobOptions options;
        options.servers = 2;
        options.replicas = replicas;
        options.shards_per_server = 2;
        options.add_rules = add_functions;
        auto job =
            Job::start(options, Config(Environment(Environment::Map{
                                    {"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", transport}})));
        REQUIRE(job.has_value());
        {
            auto client = std::move((*job)->make_client(0)).value();
            train(client);
            REQUIRE(client.leave().has_value());
        }
        CHECK((*job)->serve().has_value());
    }
}

template <class T>
std::vector<T> pulled(Table<T>& table, const std::vector<uint64_t>& keys) {
    std::vector<T> values(keys.size() * table.width());
    REQUIRE(table.pull(keys, values).wait());
    return values;
}

std::vector<uint64_t> keys_by(uint64_t step, uint64_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t i = 0; i < count; ++i)
        keys[i] = step * i;
    return keys;
}

std::vector<float> drawn_floats(size_t count, uint64_t seed) {
    Random random(seed);
    std::vector<float> values(count);
    for (float& value : values)
        value = static_cast<float>(random.below(2001)) / 1000 - 1;
    return values;
}

double number_of(Table<float>& table, std::string_view function,
                 const FunctionOptions& options = {}) {
    const Result<double> number = table.number(function, options);
    INFO(function);
    REQUIRE(number);
    return *number;
}

void check_refused(Task task, Errc code, std::string_view text) {
    const Status status = task.wait();
    REQUIRE_FALSE(status.has_value());
    INFO(status.error().message());
    CHECK(status.code() == code);
    CHECK(status.error().message().find(text) != std::string::npos);
}

/// Rows of two tables of these widths: the values of row i are i % 5 and i % 7.
void check_widths(Client& client, const TableOptions& options, uint32_t width, uint32_t of_other) {
    constexpr uint64_t kKeys = 3000;
    const uint64_t step = options.layout == Layout::kDense ? 1 : 1000003;
    const std::vector<uint64_t> keys = keys_by(step, kKeys);
    TableOptions wide = options;
    const auto make = [&](std::string_view name, uint32_t its_width, uint64_t modulus) {
        wide.width = its_width;
        auto table = std::move(client.create_table<float>(name, wide)).value();
        std::vector<float> values(kKeys * its_width);
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(i / its_width % modulus);
        REQUIRE(table.push(keys, values).wait());
        return table;
    };
    auto y = make("y", width, 5);
    auto x = make("x", of_other, 7);
    double products = 0;
    for (uint64_t i = 0; i < kKeys; ++i)
        products += static_cast<double>(i % 5 * width * (i % 7) * of_other);
    CHECK(number_of(y, "row_sum_products", {.with = x}) == products);
    REQUIRE(y.call("add_row_sum", keys, {.with = x}).wait());
    uint64_t calls = 1;
    if (options.layout == Layout::kDense) {
        REQUIRE(y.call("add_row_sum", {.with = x}).wait());
        ++calls;
    }
    const std::vector<float> now = pulled(y, keys);
    bool is_right = true;
    for (size_t i = 0; i < now.size(); ++i) {
        const uint64_t row = i / width;
        is_right = is_right && now[i] == static_cast<float>(row % 5 + calls * (row % 7) * of_other);
    }
    CHECK(is_right);
    check_refused(y.call("axpy", keys, {.numbers = {1}, .with = x}), Errc::kTypeMismatch,
                  "table 'x' has another layout, type, width or number of keys");
    REQUIRE(client.drop_table("y").has_value());
    REQUIRE(client.drop_table("x").has_value());
}

/// Functions that change, each once, on `keys` of two tables that hold `x` and `y`.
void check_changes(Table<float>& to, Table<float>& with, const std::vector<uint64_t>& keys,
                   std::vector<float> y, const std::vector<float>& x, const auto& call) {
    const auto check = [&](std::string_view function, const FunctionOptions& options,
                           const auto& expected) {
        INFO(function);
        REQUIRE(call(function, options));
        for (size_t i = 0; i < y.size(); ++i)
            y[i] = expected(y[i], x[i]);
        CHECK(pulled(to, keys) == y);
    };
    check("axpy", {.numbers = {0.5}, .with = with},
          [](float of, float other) { return of + 0.5F * other; });
    check("scale", {.numbers = {-3}}, [](float of, float) { return of * -3; });
    check("clip", {.numbers = {-0.75, 1.25}},
          [](float of, float) { return std::clamp(of, -0.75F, 1.25F); });
    check("axpy", {.numbers = {-1}, .with = with},
          [](float of, float other) { return of - other; });
    check("copy", {.with = with}, [](float, float other) { return other; });
    check("add_two", {.numbers = {2}, .with = {with, with}},
          [](float of, float other) { return 2 * of + other + other; });
    check("assign", {.numbers = {0.25}}, [](float, float) { return 0.25F; });
    CHECK(pulled(with, keys) == x);
}

}  // namespace

TEST_SUITE("functions") {
    TEST_CASE(
        "functions that change all rows, some of a range, or some of a list of a dense table") {
        with_functions_job(1, [](Client& client) {
            constexpr uint64_t kKeys = 5000;
            constexpr uint32_t kWidth = 3;
            TableOptions options = dense_options(kKeys);
            options.width = kWidth;
            auto y = std::move(client.create_table<float>("y", options)).value();
            auto x = std::move(client.create_table<float>("x", options)).value();
            const std::vector<uint64_t> all = keys_by(1, kKeys);
            const auto of_x = drawn_floats(kKeys * kWidth, 1);
            const auto of_y = drawn_floats(kKeys * kWidth, 2);
            REQUIRE(x.push(all, of_x).wait());
            REQUIRE(y.push(all, of_y).wait());
            check_changes(y, x, all, of_y, of_x,
                          [&](std::string_view function, const FunctionOptions& how) {
                              return y.call(function, how).wait().has_value();
                          });
            // Of a part, and nothing else of the rest.
            REQUIRE(y.call("assign", {.numbers = {7}}).wait());
            REQUIRE(y.call("assign", KeyRange{100, 4000}, {.numbers = {8}}).wait());
            const std::vector<uint64_t> list = keys_by(9, 500);
            for (int round = 0; round < 3;
                 ++round)  // then it is known by its hash, and in the other table not yet
                REQUIRE(y.call("axpy", list, {.numbers = {1}, .with = x}).wait());
            const std::vector<float> now = pulled(y, all);
            bool is_right = true;
            for (uint64_t i = 0; i < kKeys * kWidth; ++i) {
                const uint64_t key = i / kWidth;
                float expected = key >= 100 && key < 4000 ? 8 : 7;
                for (int round = 0; round < 3 && key % 9 == 0 && key < 4500; ++round)
                    expected += of_x[i];
                is_right = is_right && now[i] == expected;
            }
            CHECK(is_right);
        });
    }

    TEST_CASE(
        "functions that change lists of a sparse table make rows of keys that were not there") {
        with_functions_job(1, [](Client& client) {
            TableOptions options;
            options.width = 2;
            auto y = std::move(client.create_table<float>("y", options)).value();
            options.initial_value = uniform(-1, 1, 5);
            auto x = std::move(client.create_table<float>("x", options)).value();
            const std::vector<uint64_t> keys = keys_by(1000003, 3000);
            const auto of_y = drawn_floats(2 * keys.size(), 3);
            REQUIRE(y.push(keys, of_y).wait());
            // x has no rows at all: its initial values count, and none is made.
            const std::vector<float> of_x = pulled(x, keys);
            check_changes(y, x, keys, of_y, of_x,
                          [&](std::string_view function, const FunctionOptions& how) {
                              return y.call(function, keys, how).wait().has_value();
                          });
            CHECK(client.stats()->servers_keys_held == 2 * keys.size());  // and copies
            const std::vector<uint64_t> others = keys_by(1000003, 4000);
            REQUIRE(y.call("assign", others, {.numbers = {2}}).wait());
            CHECK(pulled(y, others) == std::vector<float>(2 * others.size(), 2));
            CHECK(client.stats()->servers_keys_held == 2 * others.size());
            KeyBatch batch(std::vector<uint64_t>{7, 5, 7});
            REQUIRE(y.call("assign", batch, {.numbers = {3}}).wait());
            CHECK(pulled(y, {5, 7}) == std::vector<float>(4, 3));
        });
    }

    TEST_CASE("functions that read find what a loop over the pulled values finds") {
        with_functions_job(0, [](Client& client) {
            for (const bool is_dense : {true, false}) {
                CAPTURE(is_dense);
                constexpr uint64_t kCount = 40'000;
                TableOptions options = is_dense ? dense_options(kCount) : TableOptions();
                const char* const names[] = {is_dense ? "dy" : "sy", is_dense ? "dx" : "sx"};
                auto y = std::move(client.create_table<float>(names[0], options)).value();
                auto x = std::move(client.create_table<float>(names[1], options)).value();
                const std::vector<uint64_t> keys = keys_by(is_dense ? 1 : 977, kCount);
                const auto of_y = drawn_floats(kCount, 11);
                const auto of_x = drawn_floats(kCount, 12);
                REQUIRE(y.push(keys, of_y).wait());
                REQUIRE(x.push(keys, of_x).wait());
                double dot = 0, sum = 0, norm1 = 0, norm2 = 0, above = 0, keys_above = 0;
                for (size_t i = 0; i < kCount; ++i) {
                    const double value = of_y[i];
                    dot += value * of_x[i];
                    sum += value;
                    norm1 += std::abs(value);
                    norm2 += value * value;
                    above += value >= 0.25 && value <= 0.5 ? 1 : 0;
                    keys_above += value > 0.75 ? static_cast<double>(keys[i]) : 0;
                }
                CHECK(number_of(y, "dot", {.with = x}) == doctest::Approx(dot).epsilon(1e-9));
                CHECK(number_of(y, "dot", {.with = y}) == doctest::Approx(norm2).epsilon(1e-9));
                CHECK(number_of(y, "sum") == doctest::Approx(sum).epsilon(1e-9));
                CHECK(number_of(y, "norm1") == doctest::Approx(norm1).epsilon(1e-9));
                CHECK(number_of(y, "norm2") == doctest::Approx(std::sqrt(norm2)).epsilon(1e-9));
                CHECK(number_of(y, "min") == *std::ranges::min_element(of_y));
                CHECK(number_of(y, "max") == *std::ranges::max_element(of_y));
                CHECK(number_of(y, "count", {.numbers = {0.25, 0.5}}) == above);
                CHECK(number_of(y, "count") == kCount);
                CHECK(number_of(y, "keys_above", {.numbers = {0.75}}) ==
                      doctest::Approx(keys_above).epsilon(1e-12));

                CallResult histogram;
                REQUIRE(
                    y.call("histogram", {.numbers = {-0.5, 0.5, 4}, .result = &histogram}).wait());
                std::vector<double> expected(7);
                for (const float value : of_y) {
                    const double at = std::floor((static_cast<double>(value) + 0.5) * 4);
                    ++expected[at < 0 ? 0 : at >= 4 ? 5 : 1 + static_cast<size_t>(at)];
                }
                CHECK(histogram.numbers == expected);

                for (const double of_sizes : {0.0, 1.0}) {
                    CallResult top;
                    REQUIRE(y.call("top", {.numbers = {50, of_sizes}, .result = &top}).wait());
                    std::vector<size_t> order(kCount);
                    std::iota(order.begin(), order.end(), size_t{0});
                    const auto score = [&](size_t i) {
                        return of_sizes != 0 ? std::abs(of_y[i]) : of_y[i];
                    };
                    std::ranges::stable_sort(
                        order, [&](size_t a, size_t b) { return score(a) > score(b); });
                    REQUIRE(top.numbers.size() == 50);
                    bool is_right = true;
                    for (size_t i = 0; i < 50; ++i)
                        is_right = is_right && top.keys[i] == keys[order[i]] &&
                                   top.numbers[i] == of_y[order[i]];
                    CHECK(is_right);
                }

                // Of a range.
                CallResult some;
                const KeyRange range{keys[100], keys[20'000]};
                REQUIRE(y.call("count", range, {.result = &some}).wait());
                CHECK(some.numbers == std::vector<double>{19'900});
                REQUIRE(y.call("sum", KeyRange{5, 5}, {.result = &some}).wait());
                CHECK(some.numbers == std::vector<double>{0});
            }
        });
    }

    TEST_CASE("tables without a row, of integers, and of narrow values") {
        with_functions_job(0, [](Client& client) {
            auto none = std::move(client.create_table<float>("none", TableOptions())).value();
            CHECK(number_of(none, "sum") == 0);
            CHECK(number_of(none, "max") == -std::numeric_limits<double>::infinity());
            CallResult top;
            REQUIRE(none.call("top", {.numbers = {5}, .result = &top}).wait());
            CHECK(top.keys.empty());

            auto whole =
                std::move(client.create_table<int32_t>("whole", dense_options(3000))).value();
            REQUIRE(whole.call("assign", {.numbers = {1e12}}).wait());
            CHECK(*whole.number("min") == std::numeric_limits<int32_t>::max());
            REQUIRE(whole.call("clip", {.numbers = {-5, 9.75}}).wait());
            CHECK(*whole.number("sum") == 9 * 3000);
            check_refused(whole.call("scale", {.numbers = {2}}), Errc::kTypeMismatch,
                          "takes no values of int32");

            TableOptions options = dense_options(3000);
            options.store_as = ValueType::kBFloat16;
            auto narrow = std::move(client.create_table<float>("narrow", options)).value();
            auto other = std::move(client.create_table<float>("other", options)).value();
            REQUIRE(narrow.call("assign", {.numbers = {0.5}}).wait());
            REQUIRE(other.call("assign", {.numbers = {2}}).wait());
            REQUIRE(narrow.call("axpy", {.numbers = {1.5}, .with = other}).wait());
            CHECK(number_of(narrow, "dot", {.with = other}) == 3.5 * 2 * 3000);
            const std::vector<uint64_t> list = keys_by(2, 20);
            REQUIRE(narrow.call("copy", list, {.with = other}).wait());
            CHECK(number_of(narrow, "sum") == 3.5 * 2980 + 2 * 20);
        });
    }

    TEST_CASE("rows of several values, numbers beyond 2^53, and values that are no numbers") {
        with_functions_job(0, [](Client& client) {
            TableOptions options = dense_options(500);
            options.width = 3;
            auto wide = std::move(client.create_table<float>("wide", options)).value();
            std::vector<float> values = drawn_floats(1500, 21);
            values[3 * 200 + 1] = 7;
            values[3 * 300 + 2] = -9;
            const std::vector<uint64_t> keys = keys_by(1, 500);
            REQUIRE(wide.push(keys, values).wait());
            double sum = 0;
            for (const float value : values)
                sum += static_cast<double>(value);
            CHECK(number_of(wide, "sum") == doctest::Approx(sum).epsilon(1e-9));
            CHECK(number_of(wide, "count") == 1500);
            CallResult top;
            REQUIRE(wide.call("top", {.numbers = {2, 1}, .result = &top}).wait());
            CHECK(top.keys == std::vector<uint64_t>{300, 200});
            CHECK(top.numbers == std::vector<double>{-9, 7});

            auto large = std::move(client.create_table<int64_t>("large", dense_options(4))).value();
            const std::vector<uint64_t> four = keys_by(1, 4);
            const std::vector<int64_t> beyond = {(int64_t{1} << 60) + 1, -3, 5, 0};
            REQUIRE(large.push(four, beyond).wait());
            CHECK(*large.number("max") == 0x1p60);
            CHECK(*large.number("min") == -3);

            TableOptions any = dense_options(4);
            any.allow_not_finite = true;
            auto odd = std::move(client.create_table<float>("odd", any)).value();
            const std::vector<float> some = {1, std::nanf(""), 3, -2};
            REQUIRE(odd.push(four, some).wait());
            CHECK(std::isnan(number_of(odd, "sum")));
            CallResult histogram;
            REQUIRE(odd.call("histogram", {.numbers = {0, 2, 2}, .result = &histogram}).wait());
            CHECK(histogram.numbers == std::vector<double>{1, 0, 1, 1, 1});
        });
    }

    TEST_CASE("a function reads four other tables, and may be called in a handler") {
        with_functions_job(1, [](Client& client) {
            std::vector<Table<float>> tables;
            for (const char* const name : {"y", "a", "b", "c", "d"})
                tables.push_back(
                    std::move(client.create_table<float>(name, dense_options(1000))).value());
            for (size_t i = 1; i < tables.size(); ++i)
                REQUIRE(tables[i].call("assign", {.numbers = {static_cast<double>(i)}}).wait());
            const std::vector<uint64_t> keys = {7};
            const std::vector<float> one = {1};
            Task pushed = tables[4].push(keys, one);
            Task called;
            REQUIRE(pushed
                        .then([&](const Status& done) {
                            if (done)
                                called = tables[0].call(
                                    "four_digits",
                                    {.with = {tables[1], tables[2], tables[3], tables[4]}});
                        })
                        .has_value());
            REQUIRE(pushed.wait());
            REQUIRE(called.wait());
            CHECK(number_of(tables[0], "sum") == 1234.0 * 1000 + 1);
        });
    }

    TEST_CASE("a function that finds more than it says ends its call") {
        with_functions_job(0, [](Client& client) {
            auto y = std::move(client.create_table<float>("y", dense_options(100))).value();
            check_refused(y.call("grows_too_much"), Errc::kOutOfRange,
                          "'grows_too_much': it has found a result of another size");
            CHECK(number_of(y, "count") == 100);
        });
    }

    TEST_CASE("a server that does not have a function says so") {
        JobOptions options;
        options.servers = 1;
        options.on_worker_loss = OnWorkerLoss::kContinue;
        const auto port = std::move(transport::ReservedPort::make()).value();
        const std::string at = fmt::format("127.0.0.1:{}", port.number());
        auto job =
            start_job(options, {{"WEIR_RENDEZVOUS", at}, {"WEIR_RANK", "0"}, {"WEIR_SIZE", "1"}});
        {
            auto client = std::move(job->make_client(0)).value();
            auto mine = std::move(client.create_table<float>("y", dense_options(10))).value();
            JoinOptions joiner;
            joiner.contact = at;
            joiner.workers = 1;
            joiner.add_rules = add_functions;
            auto joined = Job::join(joiner, small_pools({}));
            REQUIRE(joined.has_value());
            auto other = std::move((*joined)->make_client(0)).value();
            auto y = std::move(other.open_table<float>("y")).value();
            check_refused(y.call("keys_above", {.numbers = {0}}), Errc::kUnavailable, "keys_above");
            CHECK(number_of(y, "count") == 10);
            REQUIRE(other.leave().has_value());
            REQUIRE(client.leave().has_value());
        }
        CHECK(job->serve().has_value());
    }

    TEST_CASE("the penalty of a table's rule") {
        with_functions_job(0, [](Client& client) {
            TableOptions options;
            options.rule = ftrl(0.1, 1, 0.5, 4);
            auto weights = std::move(client.create_table<double>("ftrl", options)).value();
            const std::vector<uint64_t> keys = keys_by(3, 1000);
            std::vector<double> gradients(keys.size());
            for (size_t i = 0; i < keys.size(); ++i)
                gradients[i] = std::sin(static_cast<double>(i)) * 3;
            REQUIRE(weights.push(keys, gradients).wait());
            double penalty = 0;
            for (const double value : pulled(weights, keys))
                penalty += 0.5 * std::abs(value) + 2 * value * value;
            CHECK(penalty > 1);
            CHECK(*weights.number("penalty") == doctest::Approx(penalty));
            options.rule = prox_l1(0.25);
            auto prox = std::move(client.create_table<double>("prox", options)).value();
            const std::vector<double> moves = {
                -3, -1, 2, -1};  // a gradient of -3 with a curvature of -1: a move
            const std::vector<uint64_t> moved = {4, 9};
            REQUIRE(prox.push(moved, moves).wait());
            CHECK(*prox.number("penalty") == doctest::Approx(0.25 * *prox.number("norm1")));
            options.rule = max();
            auto other = std::move(client.create_table<double>("max", options)).value();
            CHECK(other.number("penalty").error().text().find("rule 'max' names no penalty") !=
                  std::string::npos);
        });
    }

    TEST_CASE("functions on all rows of a sparse table, and rows below a bound that end") {
        with_functions_job(1, [](Client& client) {
            TableOptions options;
            options.width = 2;
            options.erasable = true;
            auto y = std::move(client.create_table<float>("y", options)).value();
            auto x = std::move(client.create_table<float>("x", options)).value();
            const std::vector<uint64_t> keys = keys_by(7919, 100'000);
            std::vector<float> values(2 * keys.size());
            for (size_t i = 0; i < keys.size(); ++i)
                values[2 * i + 1] = static_cast<float>(i % 10) * (i % 2 == 0 ? 1.0F : -1.0F);
            REQUIRE(x.push(keys, values).wait());
            REQUIRE(call_on_rows(y, "axpy", x, {.numbers = {2}, .with = x}));
            REQUIRE(call_on_rows(y, "scale", {.numbers = {0.5}}));
            CHECK(pulled(y, keys) == values);
            CHECK(number_of(y, "count") == 2.0 * static_cast<double>(keys.size()));
            const Result<uint64_t> found = prune(y, 4.5);
            REQUIRE(found);
            CHECK(*found == keys.size() / 2);
            CHECK(number_of(y, "count") == static_cast<double>(keys.size()));
            CHECK(number_of(y, "count", {.numbers = {5, 9, 1}}) ==
                  static_cast<double>(keys.size()) / 2);
            CHECK(*prune(y, 4.5) == 0);
            // Judged by the servers: what has become large stays.
            const std::vector<uint64_t> two = {7919 * 5, 7919 * 6};
            const std::vector<float> back = {0, -1, 0, 0};
            REQUIRE(y.push(two, back).wait());  // -5 - 1, 6
            REQUIRE(y.prune(two, 6).wait());
            CHECK(pulled(y, two) == std::vector<float>{0, -6, 0, 6});
            REQUIRE(y.prune(two, 6.5).wait());
            CHECK(pulled(y, two) == std::vector<float>(4));
            check_refused(y.prune(two, 0), Errc::kInvalidArgument,
                          "prune() below 0: give a number above 0");
            auto stays = std::move(client.create_table<float>("stays", TableOptions())).value();
            check_refused(stays.prune(two, 1), Errc::kInvalidArgument,
                          "prune(): its rows have no stamps");
        });
    }

    TEST_CASE("a function that takes any width reads rows of wider and of narrower tables") {
        with_functions_job(1, [](Client& client) {
            for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
                TableOptions options =
                    layout == Layout::kDense ? dense_options(3000) : TableOptions();
                check_widths(client, options, 1, 21);
                check_widths(client, options, 40, 3);
                options.store_as = ValueType::kBFloat16;
                check_widths(client, options, 2, 9);
            }
            auto y = std::move(client.create_table<float>("y", dense_options(100))).value();
            auto longer = std::move(client.create_table<float>("l", dense_options(101))).value();
            check_refused(y.call("add_row_sum", {.with = longer}), Errc::kTypeMismatch,
                          "table 'l' has another layout, type or number of keys");
        });
    }

    TEST_CASE("functions cut one list differently, by how many tables they read") {
        with_functions_job(0, [](Client& client) {
            auto y = std::move(client.create_table<float>("y", TableOptions())).value();
            auto x = std::move(client.create_table<float>("x", TableOptions())).value();
            auto z = std::move(client.create_table<float>("z", TableOptions())).value();
            const std::vector<uint64_t> keys = keys_by(1000003, 120'000);
            for (int round = 0; round < 2; ++round) {
                REQUIRE(x.call("assign", keys, {.numbers = {1}}).wait());
                REQUIRE(z.call("assign", keys, {.numbers = {2}}).wait());
                REQUIRE(y.call("assign", keys, {.numbers = {4}}).wait());
                REQUIRE(y.call("add_two", keys, {.with = {x, z}}).wait());
            }
            CHECK(number_of(y, "sum") == 7.0 * 120'000);
        });
    }

    TEST_CASE("a call waits for tasks, in the order of pushes") {
        with_functions_job(1, [](Client& client) {
            auto y = std::move(client.create_table<float>("y", dense_options(2000))).value();
            auto x = std::move(client.create_table<float>("x", dense_options(2000))).value();
            const std::vector<uint64_t> keys = keys_by(1, 2000);
            const std::vector<float> ones(keys.size(), 1);
            CallResult sum;
            Task first = x.push(keys, ones);
            Task second = y.call("axpy", {.numbers = {2}, .with = x, .after = {first.id()}});
            Task third = y.call("sum", {.result = &sum, .after = {second.id()}});
            Task pushed = y.push(keys, ones);  // of the same table: behind no other task
            REQUIRE(third.wait());
            CHECK((sum.numbers[0] == 4000 || sum.numbers[0] == 6000));
            REQUIRE(pushed.wait());
            for (int i = 0; i < 20; ++i) {  // without a wait in between: each in its turn
                Task scaled = y.call("scale", {.numbers = {2}});
                Task added = y.push(keys, ones);
                (void)scaled.id();
            }
            double expected = 3;
            for (int i = 0; i < 20; ++i)
                expected = 2 * expected + 1;
            REQUIRE(client.barrier().has_value());
            CHECK(number_of(y, "sum") == doctest::Approx(expected * 2000).epsilon(1e-6));
            check_refused(y.call("sum", {.deadline = std::chrono::nanoseconds(-1)}),
                          Errc::kDeadline, "");
        });
    }

    TEST_CASE("wrong calls are refused with what is wrong") {
        with_functions_job(0, [](Client& client) {
            auto y = std::move(client.create_table<float>("y", dense_options(100))).value();
            auto longer =
                std::move(client.create_table<float>("longer", dense_options(101))).value();
            auto of_doubles =
                std::move(client.create_table<double>("doubles", dense_options(100))).value();
            auto sparse = std::move(client.create_table<float>("sparse", TableOptions())).value();
            const Errc kWrong = Errc::kInvalidArgument;
            CallResult result;
            check_refused(y.call("no_such"), Errc::kNotFound,
                          "no function 'no_such' in this process");
            check_refused(y.call("axpy", {.with = y}), kWrong, "none of those that it reads");
            check_refused(y.call("axpy", {.numbers = {1}}), kWrong, "reads 1 other table");
            check_refused(y.call("axpy", {.numbers = {1}, .with = longer}), Errc::kTypeMismatch,
                          "table 'longer'");
            check_refused(y.call("axpy", {.numbers = {1}, .with = of_doubles}), Errc::kTypeMismatch,
                          "'doubles'");
            check_refused(y.call("axpy", {.numbers = {1}, .with = sparse}), Errc::kTypeMismatch,
                          "'sparse'");
            check_refused(y.call("scale"), kWrong, "needs the number 'factor'");
            check_refused(y.call("scale", {.numbers = {1, 2}}), kWrong, "takes 1 number; got 2");
            check_refused(y.call("scale", {.numbers = {std::nan("")}}), kWrong, "cannot be nan");
            check_refused(y.call("scale", {.numbers = {2}, .result = &result}), kWrong,
                          "has no result");
            check_refused(y.call("clip", {.numbers = {2, 1}}), kWrong, "'least' is above 'most'");
            check_refused(y.call("top", {.numbers = {0}, .result = &result}), kWrong,
                          "whole number");
            check_refused(y.call("histogram", {.numbers = {0, 1, 2.5}}), kWrong, "whole number");
            check_refused(sparse.call("scale", {.numbers = {2}}), kWrong,
                          "give the keys as a list");
            const std::vector<uint64_t> keys = {1, 2};
            check_refused(y.call("sum", keys, {.result = &result}), kWrong,
                          "takes no list of keys");
            check_refused(y.call("scale", KeyRange{50, 101}, {.numbers = {2}}), Errc::kOutOfRange,
                          "keys 50 to 100");
            check_refused(y.call("sum", KeyRange{50, 101}), Errc::kOutOfRange, "ends at key 101");
            check_refused(y.call("sum", {.stamp = 3}), kWrong, "takes no stamp");
            check_refused(y.call("scale", {.numbers = {2}, .stamp = 3}), kWrong, "it is dense");
            const std::vector<uint64_t> unsorted = {2, 1};
            check_refused(y.call("scale", unsorted, {.numbers = {2}}), kWrong, "");
            check_refused(y.call("throws_later"), Errc::kException,
                          "'throws_later' threw as results were put together: no such sum");
            CHECK(number_of(y, "count") == 100);
            REQUIRE(client.drop_table("longer").has_value());
            check_refused(longer.call("sum"), Errc::kNotFound, "dropped");
        });
    }

    TEST_CASE("a function that throws ends the job with its name") {
        for (const auto& [name, text] :
             {std::pair("throws", "no such step"), std::pair("throws_reading", "no such row")}) {
            JobOptions options;
            options.servers = 1;
            options.add_rules = add_functions;
            auto job = start_job(options);
            {
                auto client = std::move(job->make_client(0)).value();
                auto y = std::move(client.create_table<float>("y", dense_options(100))).value();
                const Status status = y.call(name).wait();
                REQUIRE_FALSE(status.has_value());
                INFO(status.error().message());
                CHECK(status.error().message().find(
                          fmt::format("function '{}' on table 'y' threw: {}", name, text)) !=
                      std::string::npos);
            }
            CHECK_FALSE(job->serve().has_value());
        }
    }
}

}  // namespace weir::test
