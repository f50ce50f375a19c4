// SPDX-License-Identifier: Apache-2.0
/// \file
/// One step of reading out a table: a request to one shard for its next rows (scan.cc goes on).

#include "lib/worker/client_core.h"

namespace weir {

ClientCore::CallId ClientCore::scan(uint32_t shard, const ScanMessage& message,
                                    uint64_t deadline_ns) {
    if (phase_ == Phase::kReady && view_.shard(shard) == nullptr)
        return calls_.failed(Error(Errc::kStaleEpoch, "the shard has left the job"));
    return control(shard, wire::Kind::kScan, message.encode(), deadline_ns, 0,
                   static_cast<uint32_t>(message.epoch));
}

Result<std::vector<std::byte>> ClientCore::take_scan(CallId id) {
    Call* const call = calls_.find(id);
    std::vector<std::byte> body =
        call == nullptr ? std::vector<std::byte>() : std::move(call->body);
    WEIR_TRY(take(id));
    return body;
}

}  // namespace weir
