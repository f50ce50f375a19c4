// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/client_exchange.h"

#include <fmt/core.h>

#include "lib/base/prox.h"
#include "lib/store/builtin_rules.h"

namespace weir::apps {
namespace {

constexpr std::string_view kSumRule = "lr_sum";
constexpr std::string_view kMaxRule = "lr_max";

/// The value becomes the sum of all workers' pushes.
struct SumOfIteration : rules::Plain {
    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleParameters&) {
        value = *pushed;
    }
};

/// The value becomes the greatest of all workers' pushes.
struct MaxOfIteration : SumOfIteration {
    static constexpr Combine kCombine = Combine::kMax;
};

}  // namespace

void add_exchange_rules(RuleRegistry& rules) {
    WEIR_CHECK(rules.register_rule<SumOfIteration>(kSumRule).has_value());
    WEIR_CHECK(rules.register_rule<MaxOfIteration>(kMaxRule).has_value());
}

Result<std::unique_ptr<ClientExchange>> ClientExchange::make(Client& client, std::string_view name,
                                                             double l1) {
    TableOptions weights;
    weights.layout = Layout::kSparse;
    weights.rule = "prox_l1";
    weights.parameters.value = {l1, kFirstTrust, 0, 0};
    TableOptions reduced;
    reduced.layout = Layout::kDense;
    reduced.key_count = kReduceValueCountMax;
    reduced.rule = kSumRule;
    TableOptions greatest = reduced;
    greatest.rule = kMaxRule;
    TableOptions by_key;
    by_key.layout = Layout::kSparse;
    by_key.rule = kSumRule;
    WEIR_ASSIGN(Table<double> a,
                client.create_table<double>(fmt::format("{}.weights", name), weights));
    WEIR_ASSIGN(Table<double> b,
                client.create_table<double>(fmt::format("{}.sums", name), reduced));
    WEIR_ASSIGN(Table<double> c,
                client.create_table<double>(fmt::format("{}.maxima", name), greatest));
    WEIR_ASSIGN(Table<double> d,
                client.create_table<double>(fmt::format("{}.by-key", name), by_key));
    return std::unique_ptr<ClientExchange>(
        new ClientExchange(client, {std::move(a), std::move(b), std::move(c), std::move(d)}));
}

Result<std::span<double>> ClientExchange::make_buffer(uint64_t count) {
    WEIR_ASSIGN(Buffer<double> buffer, client_.make_buffer<double>(count));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().span();
}

Status ClientExchange::push(uint64_t iteration, std::span<const uint64_t> keys,
                            std::span<const double> pairs) {
    PushOptions options;
    options.iteration = iteration;
    outstanding_.push_back({iteration, tables_.weights.push(keys, pairs, options)});
    return {};
}

Status ClientExchange::pull(uint64_t iteration, std::span<const uint64_t> keys,
                            std::span<double> out) {
    PullOptions options;
    options.iteration = iteration;
    outstanding_.push_back({iteration, tables_.weights.pull(keys, out, options)});
    return {};
}

Status ClientExchange::finish(Task task) {
    if (task.test()) return task.wait();  // asking for the time is not free
    const uint64_t before_ns = clock_.now_ns();
    Status status = task.wait();
    waited_ns_ += clock_.now_ns() - before_ns;
    return status;
}

Status ClientExchange::wait(uint64_t iteration) {
    Status first;
    while (!outstanding_.empty() && (!first || outstanding_.front().iteration <= iteration)) {
        Status ended = finish(std::move(outstanding_.front().task));
        outstanding_.pop_front();
        if (ended || !first) continue;
        first = std::move(ended);
        // What is still under way may wait for other workers, and they for us. Nobody waits for a
        // worker that has given up, nor does it: so the rest ends soon, and its buffers are free.
        (void)client_.leave(first);
    }
    return first;
}

Status ClientExchange::reduce(Table<double>& table, uint64_t& iteration, std::span<double> values) {
    ++iteration;
    const KeyRange keys{0, values.size()};
    Task pushed = table.push(keys, std::span<const double>(values), {iteration, {}});
    WEIR_TRY(finish(std::move(pushed)));
    return finish(table.pull(keys, values, {iteration, {}}));
}

Status ClientExchange::sum(std::span<double> values) {
    return reduce(tables_.sums, sum_iteration_, values);
}

Status ClientExchange::max(std::span<double> values) {
    return reduce(tables_.maxima, max_iteration_, values);
}

Status ClientExchange::barrier() {
    const uint64_t before_ns = clock_.now_ns();
    Status status = client_.barrier();
    waited_ns_ += clock_.now_ns() - before_ns;
    return status;
}

Status ClientExchange::sum_by_key(std::span<const uint64_t> keys, std::span<double> values) {
    ++by_key_iteration_;
    const PushOptions options{by_key_iteration_, {}};
    Task pushed = tables_.sums_by_key.push(keys, std::span<const double>(values), options);
    WEIR_TRY(finish(std::move(pushed)));
    return finish(tables_.sums_by_key.pull(keys, values, {by_key_iteration_, {}}));
}

}  // namespace weir::apps
