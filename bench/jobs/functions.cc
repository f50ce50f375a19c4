// SPDX-License-Identifier: Apache-2.0
// weir bench functions: functions on servers, beside one core that does the same to arrays of its own.
#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "bench/jobs/keys.h"
#include "lib/linalg/vectors.h"

namespace weir::bench {
namespace {

/// Two tables, and arrays of the same values.
class FunctionsBench {
public:
    FunctionsBench(Client& client, const BenchFlags& flags, BenchReport& report)
        : client_(client), flags_(flags), report_(report) {}

    Status run(Layout layout);

private:
    using Timed = std::function<Status()>;

    Status add(const std::string& name, const Timed& weir, const Timed& limit);
    [[nodiscard]] Result<double> values_per_second(const Timed& work) const;

    Client& client_;
    const BenchFlags& flags_;
    BenchReport& report_;
    size_t count_ = 0;
    double kept_ = 0;  ///< so that nothing is left out
};

Result<double> FunctionsBench::values_per_second(const Timed& work) const {
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    uint64_t now_ns = begin_ns;
    size_t rounds = 0;
    for (; now_ns - begin_ns < flags_.part_ns() || rounds == 0; now_ns = clock.now_ns(), ++rounds)
        WEIR_TRY(work());
    return static_cast<double>(rounds * count_) * 1e9 / static_cast<double>(now_ns - begin_ns);
}

Status FunctionsBench::add(const std::string& name, const Timed& weir, const Timed& limit) {
    WEIR_TRY(weir());
    WEIR_TRY(limit());
    WEIR_ASSIGN(const uint64_t copied_before, copied_bytes(client_));
    Turns turns(name, count_, sizeof(float), 1);
    for (int i = 0; i < flags_.repetitions(); ++i) {
        WEIR_ASSIGN(const double of_weir, values_per_second(weir));
        WEIR_ASSIGN(const double of_limit, values_per_second(limit));
        turns.add(of_weir, of_limit);
    }
    WEIR_ASSIGN(const uint64_t copied_after, copied_bytes(client_));
    turns.flight.times_ns().push_back(0);
    report_.add(turns.row(copied_after - copied_before));
    return {};
}

Status FunctionsBench::run(Layout layout) {
    const bool is_dense = layout == Layout::kDense;
    const std::string kind = is_dense ? "dense" : "sparse";
    const size_t bytes = (flags_.brief ? size_t{8} : size_t{256}) << 20;
    count_ = is_dense ? bytes / sizeof(float) : bytes / 256;
    const TableOptions options{.layout = layout, .key_count = count_};
    WEIR_ASSIGN(auto y, client_.create_table<float>(kind + " y", options));
    WEIR_ASSIGN(auto x, client_.create_table<float>(kind + " x", options));
    std::vector<float> own_x(count_, 0.25F);
    std::vector<float> own_y(count_, 1);
    std::vector<uint64_t> keys(is_dense ? 0 : count_);
    for (size_t i = 0; i < keys.size(); ++i)
        keys[i] = 1'000'003 * i;
    if (is_dense) {
        WEIR_TRY(x.call("assign", {.numbers = {0.25}}).wait());
        WEIR_TRY(y.call("assign", {.numbers = {1}}).wait());
    } else {
        WEIR_TRY(x.push(keys, own_x).wait());
        WEIR_TRY(y.push(keys, own_y).wait());
    }
    CallResult result;
    const auto reads = [&](std::string_view function, const OtherTables& with) {
        return [&, function, with]() -> Status {
            WEIR_TRY(y.call(function, {.with = with, .result = &result}).wait());
            kept_ += result.numbers[0];
            return {};
        };
    };
    const std::span<const float> all_x(own_x);
    WEIR_TRY(add(kind + " sum", reads("sum", {}), [&]() -> Status {
        kept_ += linalg::kernels::norm1(own_y);
        return {};
    }));
    WEIR_TRY(add(kind + " dot", reads("dot", x), [&]() -> Status {
        kept_ += linalg::kernels::dot(all_x, own_y);
        return {};
    }));
    double factor = 1e-3;  // and back
    const FunctionOptions of_x{.with = x};
    const auto axpy = [&]() -> Status {
        FunctionOptions with = of_x;
        with.numbers = {factor = -factor};
        return is_dense ? y.call("axpy", with).wait() : y.call("axpy", keys, with).wait();
    };
    WEIR_TRY(add(kind + " axpy", axpy, [&]() -> Status {
        linalg::kernels::axpy(factor = -factor, all_x, own_y);
        return {};
    }));
    WEIR_TRY(client_.drop_table(kind + " x"));
    return client_.drop_table(kind + " y");
}

}  // namespace

Status bench_functions(Client& client, const BenchFlags& flags, BenchReport& report) {
    FunctionsBench bench(client, flags, report);
    WEIR_TRY(bench.run(Layout::kDense));
    return bench.run(Layout::kSparse);
}

}  // namespace weir::bench
