// SPDX-License-Identifier: Apache-2.0
#include "lib/consensus/log_state.h"

#include <algorithm>
#include <utility>

namespace weir::consensus {

uint64_t LogState::term_of(uint64_t index) const noexcept {
    if (index >= first && index <= last()) return terms[index - first];
    return snapshot && snapshot->index == index ? snapshot->term : 0;
}

void LogState::truncate(uint64_t index) {
    if (index > last()) return;
    terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(index < first ? 0 : index - first),
                terms.end());
}

void LogState::put_snapshot(Snapshot newer, uint64_t kept) {
    const uint64_t behind = newer.index + 1;
    const bool goes_on = kept > 0 && behind >= first && newer.index <= last();
    const uint64_t next = goes_on ? std::max(first, behind - std::min(kept, newer.index)) : behind;
    if (goes_on) {
        terms.erase(terms.begin(), terms.begin() + static_cast<std::ptrdiff_t>(next - first));
    } else {
        terms.clear();
    }
    first = next;
    snapshot = std::move(newer);
}

}  // namespace weir::consensus
