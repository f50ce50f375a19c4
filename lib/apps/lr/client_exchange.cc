// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/client_exchange.h"

#include <utility>

#include <fmt/core.h>

#include "lib/apps/lbfgs/functions.h"
#include "lib/base/prox.h"
#include "lib/store/rules/builtin_rules.h"

namespace weir::apps {
namespace {

constexpr std::string_view kMaxRule = "lr_max";

/// The value becomes the greatest of all workers' pushes.
struct MaxOfIteration : rules::Assign {
    static constexpr Combine kCombine = Combine::kMax;
};

// The tables of an exchange, behind its name.
constexpr std::string_view kWeights = ".weights";
constexpr std::string_view kSumsByKey = ".by-key";
constexpr std::string_view kMaximaByKey = ".max-by-key";
constexpr std::string_view kLists = ".lists";
constexpr std::string_view kSums = ".sums";

std::string table_name(std::string_view exchange, std::string_view table) {
    return fmt::format("{}{}", exchange, table);
}

}  // namespace

void add_exchange_rules(RuleRegistry& rules) {
    WEIR_CHECK(rules.register_rule<MaxOfIteration>(kMaxRule).has_value());
    WEIR_CHECK(lbfgs::register_functions(rules).has_value());
}

Result<std::unique_ptr<ClientExchange>> ClientExchange::make(Client& client, std::string_view name,
                                                             double l1, data::Part place,
                                                             const Filters& filters,
                                                             uint32_t max_delay) {
    TableOptions weights;
    weights.layout = Layout::kSparse;
    weights.rule = prox_l1(l1, kFirstTrust);
    weights.filters = filters;
    weights.max_delay = max_delay;
    return make(client, name, weights, place, filters);
}

Result<std::unique_ptr<ClientExchange>> ClientExchange::make(Client& client, std::string_view name,
                                                             const TableOptions& weights,
                                                             data::Part place,
                                                             const Filters& filters) {
    TableOptions by_key;  // what workers agree on in between; a job that goes on begins anew
    by_key.in_checkpoints = false;
    by_key.layout = Layout::kSparse;
    by_key.rule = weir::sum();
    by_key.filters = filters.without_selectors();
    TableOptions greatest_by_key = by_key;
    greatest_by_key.rule = kMaxRule;
    TableOptions lists;
    lists.in_checkpoints = false;
    lists.layout = Layout::kDense;
    lists.key_count = kReduceValueCountMax;
    lists.rule = assign();
    lists.filters = by_key.filters;
    TableOptions sums = lists;
    sums.rule = weir::sum();
    WEIR_ASSIGN(Table<double> a, client.create_table<double>(table_name(name, kWeights), weights));
    WEIR_ASSIGN(Table<double> b, client.create_table<double>(table_name(name, kSumsByKey), by_key));
    WEIR_ASSIGN(Table<double> c,
                client.create_table<double>(table_name(name, kMaximaByKey), greatest_by_key));
    WEIR_ASSIGN(Table<uint64_t> d, client.create_table<uint64_t>(table_name(name, kLists), lists));
    WEIR_ASSIGN(Table<double> e, client.create_table<double>(table_name(name, kSums), sums));
    return std::unique_ptr<ClientExchange>(new ClientExchange(
        client, place, {std::move(a), std::move(b), std::move(c), std::move(d), std::move(e)}));
}

Result<uint64_t> ClientExchange::read_weights(Client& client, std::string_view name,
                                              std::span<const uint64_t> keys, std::span<double> out,
                                              uint32_t width) {
    WEIR_ASSIGN(Table<double> weights,
                client.open_table<double>(table_name(name, kWeights), width));
    Task pull = weights.pull(keys, out);
    WEIR_TRY(pull.wait());
    return pull.iteration_shown().value_or(0);
}

Status ClientExchange::drop(Client& client, std::string_view name, bool keeps_weights) {
    for (const std::string_view table : {kWeights, kSumsByKey, kMaximaByKey, kLists, kSums}) {
        if (keeps_weights && table == kWeights) continue;
        Status dropped = client.drop_table(table_name(name, table));
        if (!dropped && dropped.code() != Errc::kNotFound) return dropped;
    }
    return {};
}

std::optional<std::string_view> ClientExchange::exchange_of_weights(
    std::string_view table) noexcept {
    if (!table.ends_with(kWeights)) return std::nullopt;
    return table.substr(0, table.size() - kWeights.size());
}

Result<std::span<double>> ClientExchange::make_buffer(uint64_t count) {
    WEIR_ASSIGN(Buffer<double> buffer, client_.make_buffer<double>(count));
    buffers_.push_back(std::move(buffer));
    return buffers_.back().span();
}

void ClientExchange::push(uint64_t iteration, std::span<const uint64_t> keys,
                          std::span<const double> pairs, double rest) {
    pushed_ = iteration;
    PushOptions options{.iteration = iteration};
    if (rest != 0) options.arguments = {{"rest", rest}};  // without it, the push has no arguments
    outstanding_.push_back({iteration, tables_.weights.push(keys, pairs, options)});
}

void ClientExchange::pull(uint64_t iteration, std::span<const uint64_t> keys,
                          std::span<double> out) {
    PullOptions options{.iteration = iteration};
    if (iteration == 0) options.iteration.reset();  // as the weights are before the first one
    outstanding_.push_back({iteration, tables_.weights.pull(keys, out, options)});
}

template <class Wait>
Status ClientExchange::waiting(Wait&& wait) {
    const uint64_t before_ns = clock_.now_ns();
    Status status = wait();
    waited_ns_ += clock_.now_ns() - before_ns;
    return status;
}

Status ClientExchange::finish(Task task) {
    if (task.test()) return task.wait();  // saves the two clock reads
    return waiting([&] { return task.wait(); });
}

/// The outstanding tasks may wait for other workers, and other workers for this one. After
/// leave() neither side waits any more: the tasks end soon and release their buffers. If
/// the work is taken anew, all tasks of these tables end.
Status ClientExchange::fail(Status why) {
    if (why.code() != Errc::kReassigned) (void)client_.leave(why);
    return why;
}

Status ClientExchange::wait(uint64_t iteration) {
    Status first;
    while (!outstanding_.empty() && (!first || outstanding_.front().iteration <= iteration)) {
        Status ended = finish(std::move(outstanding_.front().task));
        outstanding_.pop_front();
        if (ended || !first) continue;
        first = fail(std::move(ended));
    }
    return first;
}

uint64_t ClientExchange::arrived() {
    for (Outstanding& outstanding : outstanding_) {
        if (!outstanding.task.test()) return outstanding.iteration - 1;
    }
    return pushed_;
}

void ClientExchange::start_sum(std::span<const double> mine, std::span<double> all) {
    const KeyRange place{0, mine.size()};
    const uint64_t iteration = ++sum_iteration_;
    sum_pushed_ = tables_.sums.push(place, mine, {iteration});
    sum_pulled_ = tables_.sums.pull(place, all, {iteration});
}

Status ClientExchange::finish_sum() {
    Status first;
    for (std::optional<Task>* const task : {&sum_pushed_, &sum_pulled_}) {
        if (!*task) continue;
        Status ended = finish(*std::exchange(*task, std::nullopt));
        if (!ended && first) first = fail(std::move(ended));
    }
    return first;
}

template <class T, class Keys>
Status ClientExchange::push_part(Table<T>& table, uint64_t iteration, Keys keys,
                                 std::span<const T> values) {
    return finish(table.push(keys, values, {iteration}));
}

template <class T, class Keys>
Status ClientExchange::pull_whole(Table<T>& table, uint64_t iteration, Keys keys,
                                  std::span<T> out) {
    return finish(table.pull(keys, out, {iteration}));
}

Status ClientExchange::sum(std::span<double> values) {
    return waiting([&] { return client_.allreduce(values); });
}

Status ClientExchange::sum_at_first(std::span<double> values) {
    const KeyRange place{0, values.size()};
    WEIR_TRY(push_part<double>(tables_.sums, ++sum_iteration_, place, values));
    if (worker_index() != 0) return {};
    return pull_whole(tables_.sums, sum_iteration_, place, values);
}

Status ClientExchange::max(std::span<double> values) {
    return waiting([&] { return client_.allreduce(values, Reduce::kMax); });
}

Status ClientExchange::barrier() {
    return waiting([&] { return client_.barrier(); });
}

Status ClientExchange::sum_by_key(std::span<const uint64_t> keys, std::span<double> values) {
    WEIR_TRY(push_part<double>(tables_.sums_by_key, ++sum_by_key_iteration_, keys, values));
    return pull_whole(tables_.sums_by_key, sum_by_key_iteration_, keys, values);
}

Status ClientExchange::max_by_key(std::span<const uint64_t> keys, std::span<double> values) {
    WEIR_TRY(push_part<double>(tables_.maxima_by_key, ++max_by_key_iteration_, keys, values));
    return pull_whole(tables_.maxima_by_key, max_by_key_iteration_, keys, values);
}

Status ClientExchange::concatenate(uint64_t begin, std::span<const uint64_t> mine,
                                   std::span<uint64_t> all) {
    const KeyRange place{begin, begin + mine.size()};
    WEIR_TRY(push_part<uint64_t>(tables_.lists, ++list_iteration_, place, mine));
    if (all.empty()) return {};
    return pull_whole(tables_.lists, list_iteration_, KeyRange{0, all.size()}, all);
}

}  // namespace weir::apps
