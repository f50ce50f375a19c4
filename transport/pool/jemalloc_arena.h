// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JemallocArena: an arena of jemalloc for many small pieces of registered memory. Its extents
/// are cut from a FirstFit and go back to it. Its metadata lie in private memory.
///
/// The jemalloc is a private copy inside of this library (see private_jemalloc in meson.build):
/// linking libjemalloc in the usual way would replace malloc in the user's whole process.

#include <cstddef>
#include <memory>

#include "lib/base/result.h"
#include "transport/pool/first_fit.h"

namespace weir::transport {

/// Thread: one at a time. The FirstFit must outlive it and is used by the same thread.
class JemallocArena {
public:
    /// Errors: kUnavailable if this build has no jemalloc or jemalloc fails
    [[nodiscard]] static Result<std::unique_ptr<JemallocArena>> make(FirstFit& pieces);

    virtual ~JemallocArena() = default;
    JemallocArena(const JemallocArena&) = delete;
    JemallocArena& operator=(const JemallocArena&) = delete;

    /// Memory at a multiple of `alignment` (a power of two), or nullptr: the FirstFit has no room.
    [[nodiscard]] virtual std::byte* allocate(size_t size_bytes, size_t alignment) = 0;
    virtual void deallocate(std::byte* memory) = 0;
    /// The bytes that this piece takes, after rounding.
    [[nodiscard]] virtual size_t size_of(const std::byte* memory) const = 0;

protected:
    JemallocArena() = default;
};

}  // namespace weir::transport
