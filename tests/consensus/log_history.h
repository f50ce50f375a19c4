// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A random history of a group of replicas: what a seed says happens to them, one thing after the other, while
/// entries are proposed. At the end everything is mended, and all must agree.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/consensus/log_group.h"

namespace weir::testing {

class LogHistory {
public:
    explicit LogHistory(LogGroupOptions options)
        : options_(std::move(options)), random_(options_.seed), group_(options_) {}

    /// What was wrong in it; nothing if all was right.
    [[nodiscard]] std::vector<std::string> run() {
        const uint64_t happenings = 20 + random_.below(60);
        for (uint64_t i = 0; i < happenings && group_.facts.faults.empty(); ++i) {
            happen();
            group_.run(between_ns());
            propose_everywhere();
            look_for_ends();
        }
        mend();
        look_for_ends();
        return group_.facts.faults;
    }

    [[nodiscard]] LogGroup& group() { return group_; }

    uint64_t handovers = 0;  ///< that were begun

private:
    using Replica = LogGroup::Replica;

    uint64_t between_ns() {
        // Often so short that the next thing happens within an election.
        return kMillisecond * (1 + random_.below(random_.below(2) == 0 ? 15 : 300));
    }

    Replica& any() { return group_.at(1 + random_.below(group_.replicas().size())); }

    std::pair<uint64_t, uint64_t> any_two() {
        const uint64_t count = group_.replicas().size();
        const uint64_t one = random_.below(count);
        return {one + 1, (one + 1 + random_.below(count - 1)) % count + 1};
    }

    /// Whether a replica may lose its memory for good: a majority must stay.
    [[nodiscard]] bool may_go() {
        if (options_.memory_comes_back) return true;
        size_t gone = 0;
        for (const Replica& replica : group_.replicas())
            gone += replica.is_gone ? 1U : 0U;
        return 2 * (gone + 1) < group_.replicas().size();
    }

    /// Of those that claim to lead, too.
    void propose_everywhere() {
        for (Replica& replica : group_.replicas())
            if (replica.log != nullptr && replica.ledger->is_leader)
                (void)group_.propose(replica, random_.below(6));
    }

    void end(Replica& replica) {
        if (replica.log != nullptr && may_go()) group_.kill(replica);
    }

    void happen() {
        switch (random_.below(12)) {
            case 0: end(any()); break;
            case 1:
                if (group_.leader() != nullptr) end(*group_.leader());
                break;
            case 2: return_at_once(any()); break;
            case 3:
            case 4: start_all(); break;
            case 5: group_.pause(any(), kMillisecond * random_.below(1000)); break;
            case 6: {
                const auto [a, b] = any_two();
                group_.partition(a, b);
                break;
            }
            case 7: isolate(any()); break;
            case 8: {
                const auto [from, to] = any_two();
                group_.set_way(from, to, random_.below(2) == 0 ? Way::kLosing : Way::kHolding);
                break;
            }
            case 9: group_.heal_all(); break;
            case 10: {
                const auto [a, b] = any_two();
                group_.reset(a, b);
                break;
            }
            default: hand_over(any()); break;
        }
    }

    /// None may end by itself.
    void look_for_ends() {
        for (const Replica& replica : group_.replicas())
            if (replica.log != nullptr && replica.log->finished())
                group_.facts.fault("a replica has ended: " + replica.log->outcome().error().text());
    }

    /// Whoever leads, or believes so.
    void hand_over(const Replica& to) {
        for (Replica& replica : group_.replicas())
            if (replica.log != nullptr && replica.log->hand_over(to.id)) ++handovers;
    }

    void return_at_once(Replica& replica) {
        end(replica);
        group_.run(kMillisecond * random_.below(3));
        group_.start(replica);
    }

    void isolate(const Replica& replica) {
        for (const Replica& other : group_.replicas())
            if (other.id != replica.id) group_.partition(replica.id, other.id);
    }

    void start_all() {
        for (Replica& replica : group_.replicas())
            group_.start(replica);
    }

    void mend() {
        if (!group_.facts.faults.empty()) return;
        group_.heal_all();
        start_all();
        const size_t before = group_.facts.applied.size();
        const bool goes_on = group_.run_until(10 * kSecond, [&] {
            if (!group_.facts.faults.empty()) return true;
            Replica* const leader = group_.leader();
            if (leader != nullptr && group_.facts.applied.size() < before + 5)
                (void)group_.propose(*leader);
            return group_.facts.applied.size() >= before + 5 && group_.agree();
        });
        if (!goes_on)
            group_.facts.fault("they do not agree after all is mended: " + group_.states());
    }

    LogGroupOptions options_;
    Random random_;
    LogGroup group_;
};

}  // namespace weir::testing
