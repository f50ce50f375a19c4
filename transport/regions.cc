// SPDX-License-Identifier: Apache-2.0
#include "transport/regions.h"

#include <fmt/core.h>

namespace weir::transport {

Result<RemoteSpan> RegionView::expose(std::span<const std::byte> memory,
                                      std::string_view transport) {
    for (const Access access : {Access::kRemote, Access::kRemoteRead, Access::kRemoteWrite}) {
        if (const Region* const region = find(memory, access)) {
            return RemoteSpan{reinterpret_cast<uint64_t>(memory.data()), memory.size(),
                              region->remote_key};
        }
    }
    if (find(memory, Access::kLocal) != nullptr) {
        return Error(Errc::kRefused,
                     fmt::format("{}: cannot expose memory that was registered as Access::kLocal",
                                 transport));
    }
    return Error(Errc::kInvalidArgument,
                 fmt::format("{}: cannot expose {} bytes at {}: not all of them are registered; "
                             "use memory of the pool, or register it",
                             transport, memory.size(), static_cast<const void*>(memory.data())));
}

}  // namespace weir::transport
