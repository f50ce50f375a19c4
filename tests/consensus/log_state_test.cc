// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/log_state.h"

#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

using consensus::LogState;

/// Of the entries from `first` on, and of the snapshot.
void check_same(const LogState& state, const std::map<uint64_t, uint64_t>& terms, uint64_t first,
                uint64_t last) {
    REQUIRE(state.last() == last);
    for (uint64_t index = 0; index <= last + 2; ++index) {
        const auto term = terms.find(index);
        const bool is_here = term != terms.end() && index >= first && index <= last;
        const bool is_snapshot = state.snapshot && state.snapshot->index == index;
        const uint64_t of_snapshot = is_snapshot ? state.snapshot->term : 0;
        REQUIRE(state.term_of(index) == (is_here ? term->second : of_snapshot));
    }
}

}  // namespace

TEST_SUITE("log_state") {
    TEST_CASE("the terms that are known are those behind the last cut and of the snapshot") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        LogState state;
        std::map<uint64_t, uint64_t> terms{{1, 1}};
        uint64_t first = 1;
        uint64_t last = 1;
        uint64_t term = 1;
        for (int step = 0; step < 1000; ++step) {
            const uint64_t covered = state.snapshot ? state.snapshot->index : 0;
            switch (random.below(8)) {
                case 0:
                    if (last <= covered) break;
                    last = covered + random.below(last - covered);
                    state.truncate(last + 1);
                    first = std::min(first, last + 1);
                    break;
                case 1: state.truncate(last + 1 + random.below(3)); break;
                case 2: {  // its own snapshot
                    if (last <= covered) break;
                    const uint64_t index = covered + 1 + random.below(last - covered);
                    const uint64_t kept = 1 + random.below(10);
                    state.put_snapshot({index, terms[index], {}}, kept);
                    first = std::max(first, index + 1 - std::min(kept, index));
                    break;
                }
                case 3:  // another replica's
                    last += 1 + random.below(5);
                    terms[last] = ++term;
                    state.put_snapshot({last, term, {}}, 0);
                    first = last + 1;
                    break;
                default:
                    term += random.below(2);
                    terms[++last] = term;
                    state.terms.push_back(term);
            }
            check_same(state, terms, first, last);
        }
    }
}

}  // namespace weir::testing
