// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ByteSource: where a LineStream's bytes come from.

#include <cstdint>
#include <span>

#include "lib/base/result.h"

namespace weir::data {

/// A plain file from some offset on, or an unpacked gzip file.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    ByteSource(const ByteSource&) = delete;
    ByteSource& operator=(const ByteSource&) = delete;
    /// Fills `into` and returns the count of bytes, which is less than asked for only at the end.
    [[nodiscard]] virtual Result<uint64_t> read(std::span<char> into) = 0;

protected:
    ByteSource() = default;
};

}  // namespace weir::data
