// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/filters/filter_calls.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/jobs/work.h"
#include "lib/base/check.h"

namespace weir::bench {
namespace {

/// Lists that are drawn at a time, outside of the measured time.
constexpr uint64_t kCallsOfBatch = 8;
constexpr uint64_t kComparedPushes = 8;

/// Each key stands for two keys of the table: lists of one of both differ.
constexpr uint64_t key_of(uint64_t key, uint64_t which) noexcept {
    return 2 * key + which;
}

bool is_by_range(FilterCall call) noexcept {
    return call == FilterCall::kRange || call == FilterCall::kIteration;
}

}  // namespace

std::string_view to_string(FilterCall call) noexcept {
    switch (call) {
        case FilterCall::kKnownList: return "known list";
        case FilterCall::kUnseenList: return "unseen list";
        case FilterCall::kRange: return "range";
        case FilterCall::kIteration: break;
    }
    return "iteration";
}

Result<FilterCalls> FilterCalls::make(Client& client, const std::string& table,
                                      const Payloads& payloads, FilterCall call,
                                      const Filters& filters) {
    TableOptions options;
    options.layout = is_by_range(call) ? Layout::kDense : Layout::kSparse;
    options.key_count = payloads.keys.size() * (call == FilterCall::kUnseenList ? 2 : 1);
    options.width = payloads.width;
    options.filters = filters;
    WEIR_ASSIGN(Table<float> made, client.create_table<float>(table, options));
    FilterCalls calls(client, payloads, call, std::move(made));
    WEIR_TRY(calls.make_buffers());
    return calls;
}

Status FilterCalls::make_buffers() {
    for (const std::vector<float>& values : payloads_->values) {
        WEIR_ASSIGN(Buffer<float> buffer, client_->make_buffer<float>(values.size()));
        std::ranges::copy(values, buffer.begin());
        values_.push_back(std::move(buffer));
    }
    WEIR_ASSIGN(pulled_, client_->make_buffer<float>(payloads_->value_count()));
    const uint64_t list_count = call_ == FilterCall::kUnseenList ? kCallsOfBatch : 1;
    WEIR_ASSIGN(lists_, client_->make_buffer<uint64_t>(list_count * payloads_->keys.size()));
    for (uint64_t i = 0; i < list_count; ++i)
        draw_list(list_of(i));
    return {};
}

/// One that the servers have not seen, unless it is to be known.
void FilterCalls::draw_list(std::span<uint64_t> list) {
    uint64_t bits = 0;
    for (size_t i = 0; i < list.size(); ++i) {
        if (i % 64 == 0 && call_ == FilterCall::kUnseenList) bits = random_();
        list[i] = key_of(payloads_->keys[i], bits >> (i % 64) & 1);
    }
}

std::span<uint64_t> FilterCalls::list_of(uint64_t number) {
    const size_t count = payloads_->keys.size();
    return lists_.span().subspan(
        call_ == FilterCall::kUnseenList ? number % kCallsOfBatch * count : 0, count);
}

std::span<const float> FilterCalls::values_of(uint64_t number) const {
    return values_[number % values_.size()].span();
}

Task FilterCalls::push(uint64_t number, std::span<const uint64_t> list) {
    ++call_count_;
    const KeyRange range{0, payloads_->keys.size()};
    if (call_ == FilterCall::kIteration)
        return table_.push(range, values_of(number), {.iteration = ++iteration_});
    if (call_ == FilterCall::kRange) return table_.push(range, values_of(number));
    return table_.push(list, values_of(number));
}

Status FilterCalls::iterate() {
    const KeyRange range{0, payloads_->keys.size()};
    for (uint64_t i = 0; i < kCallsOfBatch; ++i) {
        Task pushed = push(i, {});
        Task pulled = table_.pull(range, pulled_.span(), {.iteration = iteration_});
        WEIR_TRY(pushed.wait());
        WEIR_TRY(pulled.wait());
    }
    return {};
}

Status FilterCalls::run_batch() {
    if (call_ == FilterCall::kIteration) return iterate();
    Flight flight(kInFlight);
    for (uint64_t i = 0; i < kCallsOfBatch; ++i) {
        WEIR_TRY(flight.room());
        flight.add(push(i, list_of(i)), 0);
    }
    return flight.finish();
}

Result<double> FilterCalls::run(uint64_t ns) {
    const SteadyClock clock;
    uint64_t all_ns = 0;
    uint64_t count = 0;
    while (all_ns < ns) {
        for (uint64_t i = 0; call_ == FilterCall::kUnseenList && i < kCallsOfBatch; ++i)
            draw_list(list_of(i));
        const uint64_t begin_ns = clock.now_ns();
        WEIR_TRY(run_batch());
        all_ns += clock.now_ns() - begin_ns;
        count += kCallsOfBatch;
    }
    return static_cast<double>(count) * 1e9 / static_cast<double>(all_ns);
}

/// All rows of the table, as pushes without filters would see them.
Result<std::vector<float>> FilterCalls::pull_all() {
    const uint64_t count = payloads_->keys.size();
    const PullOptions plain{.filters = Filters()};
    if (is_by_range(call_)) {
        std::vector<float> rows(count * payloads_->width);
        WEIR_TRY(table_.pull(KeyRange{0, count}, rows, plain).wait());
        return rows;
    }
    std::vector<uint64_t> keys;
    for (const uint64_t key : payloads_->keys) {
        keys.push_back(key_of(key, 0));
        keys.push_back(key_of(key, 1));
    }
    std::vector<float> rows(keys.size() * payloads_->width);
    WEIR_TRY(table_.pull(keys, rows, plain).wait());
    return rows;
}

Result<double> FilterCalls::error() {
    const uint32_t width = payloads_->width;
    WEIR_ASSIGN(std::vector<float> expected, pull_all());
    const bool has_pairs = !is_by_range(call_);  // of rows, for each key of the payloads
    for (uint64_t i = 0; i < kComparedPushes; ++i) {
        const std::span<const uint64_t> list = list_of(i);
        WEIR_TRY(push(i, list).wait());
        const std::span<const float> values = values_of(i);
        for (size_t at = 0; at < list.size(); ++at) {
            const size_t row = has_pairs ? 2 * at + (list[at] & 1) : at;
            for (uint32_t column = 0; column < width; ++column)
                expected[row * width + column] += values[at * width + column];
        }
    }
    WEIR_ASSIGN(const std::vector<float> found, pull_all());
    WEIR_CHECK(found.size() == expected.size());
    double difference = 0;
    double length = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
        length += std::pow(static_cast<double>(expected[i]), 2);
    }
    return length == 0 ? 0.0 : std::sqrt(difference / length);
}

Status FilterCalls::drop() {
    return client_->drop_table(table_.schema().name);
}

}  // namespace weir::bench
