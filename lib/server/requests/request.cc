// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/request.h"

#include <algorithm>

namespace weir {

KeptRequest& KeptRequests::keep(const Request& request) {
    WEIR_CHECK(!request.is_kept());
    auto slot = static_cast<uint32_t>(slots_.size());
    if (free_.empty()) {
        slots_.emplace_back();
    } else {
        slot = free_.back();
        free_.pop_back();
    }
    KeptRequest& kept = slots_[slot];
    static_cast<Request&>(kept) = request;
    kept.slot = slot;
    const size_t bytes = request.carried_bytes();
    const size_t of_keys = request.has(wire::kKeysInline) ? request.keys.size() : 0;
    const std::span values = request.values.first(bytes - of_keys);
    kept.carried.reserve(bytes);
    kept.carried.assign(request.keys.begin(),
                        request.keys.begin() + static_cast<ptrdiff_t>(of_keys));
    kept.carried.insert(kept.carried.end(), values.begin(), values.end());
    kept.keys = std::span(kept.carried).first(of_keys);
    kept.values = std::span(kept.carried).subspan(of_keys);
    kept.out = nullptr;
    return kept;
}

void KeptRequests::end(KeptRequest& request) {
    WEIR_CHECK(request.is_kept() && request.reading.reads_open == 0);
    free_.push_back(request.slot);
    request = KeptRequest();
}

bool KeptRequests::writes_of(const ShardTable& table) const noexcept {
    return std::ranges::any_of(slots_, [&](const KeptRequest& one) {
        return one.is_kept() && one.wait == Wait::kWrite && one.writing.table == &table;
    });
}

}  // namespace weir
