// SPDX-License-Identifier: Apache-2.0
/// \file
/// JemallocArena in a build without jemalloc.
#include "transport/pool/jemalloc_arena.h"

namespace weir::transport {

Result<std::unique_ptr<JemallocArena>> JemallocArena::make(FirstFit& /*pieces*/) {
    return Error(Errc::kUnavailable, "this build has no jemalloc");
}

}  // namespace weir::transport
