// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/request.h"

#include <algorithm>

namespace weir {

Request pull_of(const Request& push) noexcept {
    const bool is_remote = (push.header.encoding & wire::kOutRemote) != 0;
    Request pull;
    pull.connection = push.connection;
    pull.header = push.header;
    pull.header.kind = wire::Kind::kPull;
    pull.header.encoding = 0;
    pull.header.flags = (push.header.flags & wire::kKeyForms) |
                        (is_remote ? wire::kValuesRemote : wire::kValuesInline);
    pull.keys_at = push.keys_at;
    pull.values_at = push.out_at;
    pull.ends = push.ends;
    pull.was_push = true;
    pull.keys = push.keys;
    return pull;
}

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
    const size_t of_arguments = request.arguments.size();
    const size_t of_keys = request.has(wire::kKeysInline) ? request.keys.size() : 0;
    const size_t of_values = request.carried_bytes() - of_arguments - of_keys;
    kept.carried.reserve(request.carried_bytes());
    for (const std::span part :
         {request.arguments, request.keys.first(of_keys), request.values.first(of_values)})
        kept.carried.insert(kept.carried.end(), part.begin(), part.end());
    const std::span carried(kept.carried);
    kept.arguments = carried.first(of_arguments);
    kept.keys = carried.subspan(of_arguments, of_keys);
    kept.values = carried.subspan(of_arguments + of_keys);
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
