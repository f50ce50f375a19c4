// SPDX-License-Identifier: Apache-2.0
#include "lib/job/pinning.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include <fmt/core.h>

#include "lib/base/machine/sys_file.h"
#include "transport/pool/memory_pool.h"

namespace weir {
namespace {

constexpr size_t kPublishedBytesMax = 4000;  // a little below Bootstrap::kValueBytesMax

/// Takes a number, and the blank after it, from the start of `text`.
bool take_number(std::string_view& text, uint32_t& number) {
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || stop == text.data() + text.size() || *stop != ' ') return false;
    text.remove_prefix(static_cast<size_t>(stop - text.data()) + 1);
    return true;
}

size_t thread_count_of(const RankThreads& rank) {
    return size_t{rank.shard_count} + rank.worker_count + rank.manager_count;
}

}  // namespace

Result<PinPolicy> pin_policy(const Config& config) {
    WEIR_ASSIGN(const std::string word, config.choice("WEIR_PIN"));
    return word == "never"    ? PinPolicy::kNever
           : word == "always" ? PinPolicy::kAlways
                              : PinPolicy::kAuto;
}

std::string RankThreads::encode() const {
    const std::string list = cpu_list_text(cpus);
    const std::string_view fitting =
        list.size() <= kPublishedBytesMax
            ? std::string_view(list)
            : std::string_view(list).substr(0, list.rfind(',', kPublishedBytesMax));
    return fmt::format("{} {} {}\n{}", shard_count, worker_count, fitting, host);
}

std::optional<RankThreads> RankThreads::decode(std::string_view text) {
    RankThreads threads;
    if (!take_number(text, threads.shard_count) || !take_number(text, threads.worker_count))
        return std::nullopt;
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    threads.cpus = parse_cpu_list(text.substr(0, end));
    threads.host = text.substr(end + 1);
    return threads;
}

std::vector<int> choose_cpus(std::span<const RankThreads> ranks, size_t self, PinPolicy policy) {
    const RankThreads& me = ranks[self];
    if (policy == PinPolicy::kNever || me.cpus.empty()) return {};
    if (policy == PinPolicy::kAuto) {
        if (me.cpus.size() == 1 || me.cpus.size() < thread_count_of(me)) {
            return {};
        }
        std::set<int> cpus;
        size_t thread_count = 0;
        for (const RankThreads& rank : ranks) {
            cpus.insert(rank.cpus.begin(), rank.cpus.end());
            thread_count += thread_count_of(rank);
        }
        if (cpus.size() < thread_count) return {};
    }
    std::map<int, uint32_t> shards_on;  // by CPU
    std::vector<int> chosen;
    for (const RankThreads& rank : ranks.first(self + 1)) {
        chosen.clear();
        for (uint32_t shard = 0; shard < rank.shard_count && !rank.cpus.empty(); ++shard) {
            const int cpu =
                *std::min_element(rank.cpus.begin(), rank.cpus.end(),
                                  [&](int a, int b) { return shards_on[a] < shards_on[b]; });
            ++shards_on[cpu];
            chosen.push_back(cpu);
        }
    }
    return chosen;
}

bool threads_share_cpus(std::span<const RankThreads> ranks, size_t self) {
    const std::set<int> mine(ranks[self].cpus.begin(), ranks[self].cpus.end());
    if (mine.empty()) return false;  // unknown
    std::set<int> all;
    size_t thread_count = 0;
    size_t thread_count_on_mine = 0;
    for (const RankThreads& rank : ranks) {
        all.insert(rank.cpus.begin(), rank.cpus.end());
        const size_t threads = size_t{rank.shard_count} + rank.worker_count;
        thread_count += threads;
        const bool only_mine = std::all_of(rank.cpus.begin(), rank.cpus.end(),
                                           [&](int cpu) { return mine.contains(cpu); });
        if (only_mine) thread_count_on_mine += threads;
    }
    return thread_count > all.size() || thread_count_on_mine > mine.size();
}

StorePlan plan_store_pools(std::span<const NumaNode> nodes, std::span<const int> cpus,
                           size_t shard_count) {
    StorePlan one{{transport::kCurrentNode}, std::vector<size_t>(shard_count, 0)};
    if (nodes.size() < 2 || cpus.size() != shard_count) return one;
    StorePlan plan;
    for (const int cpu : cpus) {
        const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const NumaNode& n) {
            return std::find(n.cpus.begin(), n.cpus.end(), cpu) != n.cpus.end();
        });
        if (node == nodes.end()) return one;
        const auto known = std::find(plan.nodes.begin(), plan.nodes.end(), node->index);
        plan.pool_of_shard.push_back(static_cast<size_t>(known - plan.nodes.begin()));
        if (known == plan.nodes.end()) plan.nodes.push_back(node->index);
    }
    return plan;
}

}  // namespace weir
