// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Random valid views for tests, with every kind of entry that a view may have.

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/ring/view.h"

namespace weir::testing {

/// Returns about half of the numbers below `next`, in ascending order.
inline std::vector<uint32_t> some_numbers(Random& random, uint32_t next) {
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < next; ++i) {
        if (random.below(2) == 0) numbers.push_back(i);
    }
    return numbers;
}

inline ViewSegment random_segment(Random& random, const ViewData& view, uint64_t first) {
    ViewSegment segment{.first = first};
    if (view.shards.empty() || random.below(8) == 0) return segment;
    std::vector<ViewShard> on_other_servers;
    std::set<uint32_t> servers;
    for (int i = 0; i < 12; ++i) {
        const ViewShard& shard = view.shards[random.below(view.shards.size())];
        if (servers.insert(shard.server).second) on_other_servers.push_back(shard);
    }
    const size_t copies = 1 + random.below(std::min<size_t>(on_other_servers.size(), 4));
    segment.primary = on_other_servers[0].number;
    for (size_t i = 1; i < copies; ++i)
        segment.backups[i - 1] = on_other_servers[i].number;
    if (copies < on_other_servers.size() && random.below(3) == 0) {
        const bool is_more = copies < 4 && random.below(2) == 0;
        const size_t replaced = random.below(copies);
        segment.learner = {.shard = on_other_servers[copies].number,
                           .replaces = is_more ? kNoShard : on_other_servers[replaced].number,
                           .named = random.below(view.epoch + 1)};
    }
    return segment;
}

inline ViewData random_view_data(Random& random, uint64_t epoch) {
    ViewData view;
    view.epoch = epoch;
    view.next_server = static_cast<uint32_t>(random.below(12));
    view.next_worker = static_cast<uint32_t>(random.below(12));
    for (const uint32_t number : some_numbers(random, view.next_server)) {
        view.servers.push_back({number, number + 3, random.below(4), 1 + number % 3});
        for (uint64_t shards = 1 + random.below(3); shards > 0; --shards) {
            view.shards.push_back({view.next_shard++, number, random.below(epoch + 1),
                                   std::string(random.below(40), 'a')});
        }
    }
    std::set<uint64_t> firsts{0};
    for (uint64_t i = random.below(30); i > 0; --i)
        firsts.insert(random() >> random.below(64));
    view.segments.clear();
    for (const uint64_t first : firsts)
        view.segments.push_back(random_segment(random, view, first));
    for (const uint32_t number : some_numbers(random, view.next_worker)) {
        view.workers.push_back({number, number, random.below(2) == 0 ? 1 : kNoIteration});
        for (const uint32_t table : some_numbers(random, 5))
            view.members.push_back({number, table, 1 + random.below(100)});
    }
    for (uint32_t number = 0; number < view.next_worker; ++number) {
        const bool is_listed =
            std::ranges::any_of(view.workers, [&](const auto& of) { return of.number == number; });
        if (is_listed || random.below(3) != 0) continue;
        for (const uint32_t table : some_numbers(random, 5)) {
            const uint64_t first = 1 + random.below(100);
            view.withdrawals.push_back({number, table, first, first + random.below(3)});
        }
    }
    return view;
}

inline View random_view(Random& random, uint64_t epoch) {
    return std::move(View::make(random_view_data(random, epoch))).value();
}

}  // namespace weir::testing
