// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/row_spill.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace weir::data {
namespace {

/// Before the rows of one call of add(): the numbers of rows and non-zeros, and whether there are values.
using SpillHead = std::array<uint64_t, 3>;
constexpr size_t kCountersAhead = 24;
constexpr uint64_t kHeadWords = sizeof(SpillHead) / sizeof(uint32_t);

uint64_t words_of(const SpillHead& head) {
    return head[0] + head[1];
}

}  // namespace

Status SpillFeatures::add(std::span<const uint64_t> keys, std::span<uint32_t> out) {
    const std::lock_guard lock(mutex_);
    WEIR_TRY(dictionary_.insert(keys, out));
    if (out.empty()) return {};
    const size_t greatest = std::ranges::max(out);
    if (greatest >= counts_.size()) counts_.resize(greatest + 1);
    for (size_t i = 0; i < out.size(); ++i) {
        if (i + kCountersAhead < out.size())
            __builtin_prefetch(&counts_[out[i + kCountersAhead]], 1);
        ++counts_[out[i]];
    }
    return {};
}

std::vector<uint64_t> SpillFeatures::take_keys() {
    std::vector<uint64_t> keys = dictionary_.take_keys();
    keys.shrink_to_fit();
    return keys;
}

std::vector<uint32_t> SpillFeatures::take_counts() {
    counts_.shrink_to_fit();
    return std::exchange(counts_, {});
}

Status RowSpill::add(const ParsedLines& lines, SpillFeatures& known) {
    if (lines.labels.empty()) return {};
    const SpillHead head{lines.lengths.size(), lines.keys.size(), lines.all_ones ? 0U : 1U};
    words_.resize(kHeadWords + words_of(head));
    uint32_t* at = words_.data();
    std::memcpy(at, head.data(), sizeof(head));
    at = std::ranges::copy(lines.lengths, at + kHeadWords).out;
    const std::span<uint32_t> features(at, lines.keys.size());
    WEIR_TRY(known.add(lines.keys, features));
    labels.insert(labels.end(), lines.labels.begin(), lines.labels.end());
    all_ones = all_ones && lines.all_ones;
    WEIR_TRY(append(std::as_bytes(std::span(words_))));
    return lines.all_ones ? Status() : append(std::as_bytes(std::span(lines.values)));
}

Status RowSpill::append(std::span<const std::byte> bytes) {
    WEIR_TRY(file_.write(bytes_, bytes));
    bytes_ += bytes.size();
    return {};
}

Status RowSpill::drain(const Consumer& consume) {
    uint64_t place = 0;
    while (place < bytes_) {
        SpillHead head{};
        WEIR_TRY(file_.read(place, std::as_writable_bytes(std::span(head))));
        words_.resize(words_of(head));
        values_.resize(head[2] != 0 ? head[1] : 0);
        const auto words = std::as_writable_bytes(std::span(words_));
        const auto values = std::as_writable_bytes(std::span(values_));
        WEIR_TRY(file_.read(place + sizeof(head), words));
        WEIR_TRY(file_.read(place + sizeof(head) + words.size(), values));
        const std::span<const uint32_t> rows(words_);
        WEIR_TRY(consume({rows.first(head[0]), rows.subspan(head[0]), values_}));
        const uint64_t next = place + sizeof(head) + words.size() + values.size();
        file_.give_back(place, next);
        place = next;
    }
    values_ = {};
    words_ = {};
    file_ = {};
    return {};
}

}  // namespace weir::data
