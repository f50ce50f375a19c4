// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/elastic/elastic_load.h"

#include <algorithm>

#include "bench/jobs/work.h"

namespace weir::bench {
namespace {

constexpr KeyRange kTheOnlyKey{0, 1};

TableOptions dense_table(uint64_t key_count) {
    return {.layout = Layout::kDense, .key_count = key_count};
}

}  // namespace

ElasticLoad::ElasticLoad(Client& client, uint64_t table_mib, uint64_t key_count)
    : client_(client), random_(client.worker() + 1) {
    for (uint64_t i = 0; i < key_count; ++i)
        keys_.push_back(mix64(i + 1));  // the same on all workers
    std::ranges::sort(keys_);
    sparse_sums_.resize(key_count);
    dense_sums_.resize((table_mib << 20) / sizeof(uint64_t));
    iteration_sums_.resize(kPageValues);
    for (size_t list = 0; list < kListCount; ++list) {
        for (size_t i = 0; i < kListKeys; ++i)
            lists_[list].push_back(keys_[list_key(list, i)]);
    }
}

/// The i-th key of a list, as an index into keys_.
size_t ElasticLoad::list_key(size_t list, size_t i) const {
    return list + i * ((keys_.size() - kListCount) / kListKeys);
}

template <class Work>
Status ElasticLoad::in_parts(size_t count, Work&& work) {
    for (size_t at = 0; at < count; at += kBulkValues) {
        const size_t part = std::min(kBulkValues, count - at);
        WEIR_TRY(work(at, values_[0].span().first(part)));
    }
    return {};
}

Status ElasticLoad::prepare() {
    WEIR_ASSIGN(sparse_, client_.create_table<uint64_t>("elastic.sparse", {}));
    WEIR_ASSIGN(dense_,
                client_.create_table<uint64_t>("elastic.dense", dense_table(dense_sums_.size())));
    WEIR_ASSIGN(iterations_,
                client_.create_table<uint64_t>("elastic.iterations", dense_table(kPageValues)));
    WEIR_ASSIGN(last_turn_, client_.create_table<uint64_t>("elastic.last_turn", dense_table(1)));
    for (Buffer<uint64_t>& buffer : values_) {
        WEIR_ASSIGN(buffer, client_.make_buffer<uint64_t>(kBulkValues));
    }
    if (client_.worker() == 0) {
        WEIR_TRY(in_parts(keys_.size(), [&](size_t at, std::span<uint64_t> values) {
            fill(values, std::span(sparse_sums_).subspan(at));
            return sparse_->push(std::span(keys_).subspan(at, values.size()), values).wait();
        }));
    }
    return client_.barrier();
}

void ElasticLoad::fill(std::span<uint64_t> values, std::span<uint64_t> sums) {
    constexpr uint64_t kStep = 0x9e3779b97f4a7c15;  // any odd number
    uint64_t number = random_();
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = number;
        sums[i] += number;
        number += kStep;
    }
}

Task ElasticLoad::push_range(Table<uint64_t>& table, Numbers& sums, uint64_t first,
                             std::span<uint64_t> values, const PushOptions& options) {
    fill(values, std::span(sums).subspan(first));
    return table.push(KeyRange{first, first + values.size()}, values, options);
}

Task ElasticLoad::push_list(size_t slot) {
    const std::span<uint64_t> values = values_[slot].span().first(kListKeys);
    const size_t list = random_.below(kListCount);
    for (size_t i = 0; i < kListKeys; ++i) {
        values[i] = random_();
        sparse_sums_[list_key(list, i)] += values[i];
    }
    return sparse_->push(lists_[list], values);
}

Task ElasticLoad::start(PushKind kind, size_t slot) {
    const std::span<uint64_t> values = values_[slot].span();
    switch (kind) {
        case PushKind::kKey: {
            const uint64_t i = random_.below(keys_.size());
            fill(values.first(1), std::span(sparse_sums_).subspan(i));
            return sparse_->push(std::span(keys_).subspan(i, 1), values.first(1));
        }
        case PushKind::kList: return push_list(slot);
        case PushKind::kPage: {
            const uint64_t page = random_.below(dense_sums_.size() / kPageValues);
            return push_range(*dense_, dense_sums_, page * kPageValues, values.first(kPageValues));
        }
        case PushKind::kBulk: {
            const uint64_t part = random_.below(dense_sums_.size() / kBulkValues);
            return push_range(*dense_, dense_sums_, part * kBulkValues, values);
        }
        case PushKind::kIteration:
            return push_range(*iterations_, iteration_sums_, 0, values.first(kPageValues),
                              {.iteration = ++iteration_});
    }
    return {};
}

Status ElasticLoad::push(const PushKindInfo& kind, std::vector<uint32_t>& times_ns) {
    Flight flight(kind.in_flight);
    for (size_t i = 0; i < kind.per_turn; ++i) {
        WEIR_TRY(flight.room());
        const uint64_t now_ns = clock_.now_ns();
        flight.add(start(kind.kind, i % kind.in_flight), now_ns);
    }
    WEIR_TRY(flight.finish());
    push_count_ += kind.per_turn;
    times_ns.insert(times_ns.end(), flight.times_ns().begin(), flight.times_ns().end());
    return {};
}

Status ElasticLoad::push_all() {
    WEIR_TRY(in_parts(keys_.size(), [&](size_t at, std::span<uint64_t> values) {
        fill(values, std::span(sparse_sums_).subspan(at));
        return sparse_->push(std::span(keys_).subspan(at, values.size()), values).wait();
    }));
    return in_parts(dense_sums_.size(), [&](size_t at, std::span<uint64_t> values) {
        return push_range(*dense_, dense_sums_, at, values).wait();
    });
}

Result<bool> ElasticLoad::end_turn() {
    ++turn_;
    std::array<uint64_t, 1> last{};
    WEIR_TRY(last_turn_->pull(kTheOnlyKey, last).wait());
    return last[0] == turn_;
}

Status ElasticLoad::stop() {
    const std::array<uint64_t, 1> last{turn_ + 1};
    return last_turn_->push(kTheOnlyKey, last).wait();
}

Status ElasticLoad::take_back() {
    const auto negate = [](std::span<uint64_t> values, const uint64_t* sums) {
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = 0 - sums[i];
    };
    WEIR_TRY(in_parts(keys_.size(), [&](size_t at, std::span<uint64_t> values) {
        negate(values, &sparse_sums_[at]);
        return sparse_->push(std::span(keys_).subspan(at, values.size()), values).wait();
    }));
    const auto take_back_range = [&](Table<uint64_t>& table, const Numbers& sums) {
        return in_parts(sums.size(), [&](size_t at, std::span<uint64_t> values) {
            negate(values, &sums[at]);
            return table.push(KeyRange{at, at + values.size()}, values).wait();
        });
    };
    WEIR_TRY(take_back_range(*dense_, dense_sums_));
    WEIR_TRY(take_back_range(*iterations_, iteration_sums_));
    return client_.barrier();
}

Result<uint64_t> ElasticLoad::count_wrong_values() {
    WEIR_TRY(take_back());
    if (client_.worker() != 0) return uint64_t{0};
    return look_at_values();
}

Result<uint64_t> ElasticLoad::look_at_values() {
    uint64_t wrong = 0;
    const auto look = [&](std::span<const uint64_t> values) {
        wrong += values.size() - static_cast<size_t>(std::ranges::count(values, uint64_t{0}));
    };
    Status pulled = in_parts(keys_.size(), [&](size_t at, std::span<uint64_t> values) {
        Status done = sparse_->pull(std::span(keys_).subspan(at, values.size()), values).wait();
        look(values);
        return done;
    });
    for (std::optional<Table<uint64_t>>* table : {&dense_, &iterations_}) {
        WEIR_TRY(pulled);
        const uint64_t count = (*table)->schema().key_count;
        pulled = in_parts(count, [&](size_t at, std::span<uint64_t> values) {
            Status done = (*table)->pull(KeyRange{at, at + values.size()}, values).wait();
            look(values);
            return done;
        });
    }
    WEIR_TRY(pulled);
    return wrong;
}

}  // namespace weir::bench
