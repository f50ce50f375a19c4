// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/members/first_iterations.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace weir {

void FirstIterations::ask(uint64_t epoch, std::vector<uint32_t> shards,
                          const std::vector<uint32_t>& tables) {
    is_open_ = true;
    epoch_ = epoch;
    shards_ = std::move(shards);
    answers_.clear();
    missing_count_ = 0;
    for (const uint32_t table : tables)
        add_table(table);
}

void FirstIterations::add_table(uint32_t table) {
    const auto [at, is_new] = answers_.try_emplace(table);
    if (!is_new) return;
    at->second.is_here.resize(shards_.size());
    missing_count_ += shards_.size();
}

Status FirstIterations::take(uint32_t shard, uint64_t epoch, uint32_t table, uint64_t first) {
    if (first == 0 || first > kIterationMax) {
        return Error(Errc::kProtocol, fmt::format("shard {} named iteration {} of table {} as the "
                                                  "first one of a new worker",
                                                  shard, first, table));
    }
    if (epoch < epoch_ || (epoch == epoch_ && !is_open_)) return {};
    const auto at = std::lower_bound(shards_.begin(), shards_.end(), shard);
    const auto answers = answers_.find(table);
    const bool was_asked = is_open_ && epoch == epoch_ && at != shards_.end() && *at == shard &&
                           answers != answers_.end();
    if (!was_asked) {
        return Error(Errc::kProtocol,
                     fmt::format("shard {} named a first iteration of table {} in epoch {}, which "
                                 "it was not asked for",
                                 shard, table, epoch));
    }
    const auto i = static_cast<size_t>(at - shards_.begin());
    if (answers->second.is_here[i]) return {};
    answers->second.is_here[i] = true;
    answers->second.first = std::max(answers->second.first, first);
    --missing_count_;
    return {};
}

}  // namespace weir
