// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ValueCodec: a lossless codec of a program or a plugin, which tables name.

#include <cstddef>
#include <optional>
#include <span>

#include "lib/base/result.h"
#include "lib/key/value_type.h"

namespace weir {

/// Both ends have it by the same name. It works on the values of a body as they are after kept and
/// zeros, and before Snappy.
///
/// Thread: any, several at once
class ValueCodec {
public:
    ValueCodec() = default;
    virtual ~ValueCodec() = default;
    ValueCodec(const ValueCodec&) = delete;
    ValueCodec& operator=(const ValueCodec&) = delete;

    /// Whether it takes values of this type. Always the same.
    [[nodiscard]] virtual bool takes(ValueType type) const noexcept = 0;

    /// Encodes `values` into `body`, which is as long as they are.
    /// Returns: the bytes of `body` that were used; nothing: the values are to travel as they are, as they do
    ///          if it throws
    [[nodiscard]] virtual std::optional<size_t> encode(ValueType type,
                                                       std::span<const std::byte> values,
                                                       std::span<std::byte> body) const = 0;

    /// Fills `values`, whose number is known, from bytes that somebody sent, and which do not change
    /// meanwhile. It must not trust them. If it throws, the job ends, as the same body would come again.
    /// Errors: kProtocol: they are no body of so many values; these are any then
    [[nodiscard]] virtual Status decode(ValueType type, std::span<const std::byte> body,
                                        std::span<std::byte> values) const = 0;
};

}  // namespace weir
