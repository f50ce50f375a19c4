// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ByteSource: the source of a LineStream's bytes.

#include <cstdint>
#include <span>

#include "lib/base/result.h"

namespace weir::data {

/// A plain file from an offset on, a stream that can be read only once, or an unpacked gzip file.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;
    /// Fills `into`, or a part of it if a stream has no more at the moment, and returns the number of bytes; 0 at the
    /// end. Waits for the first byte.
    [[nodiscard]] virtual Result<uint64_t> read(std::span<char> into) = 0;

protected:
    ByteSource() = default;
};

}  // namespace weir::data
