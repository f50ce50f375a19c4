// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShornCodec: a table's own codec, for tests: values without their lowest bytes that are zero.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

#include "lib/filter/value_codec.h"

namespace weir::test {

/// Of each value: how many bytes are left out, and the others.
class ShornCodec : public ValueCodec {
public:
    static constexpr char kName[] = "shorn";

    [[nodiscard]] bool takes(ValueType /*type*/) const noexcept override { return true; }

    [[nodiscard]] std::optional<size_t> encode(ValueType type, std::span<const std::byte> values,
                                               std::span<std::byte> body) const override {
        const size_t size = size_of(type);
        size_t used = 0;
        for (size_t at = 0; at < values.size(); at += size) {
            size_t zeros = 0;
            while (zeros < size && values[at + zeros] == std::byte{0})
                ++zeros;
            if (used + 1 + size - zeros > body.size()) return {};
            body[used++] = static_cast<std::byte>(zeros);
            std::memcpy(body.data() + used, values.data() + at + zeros, size - zeros);
            used += size - zeros;
        }
        return used;
    }

    [[nodiscard]] Status decode(ValueType type, std::span<const std::byte> body,
                                std::span<std::byte> values) const override {
        const size_t size = size_of(type);
        std::fill(values.begin(), values.end(), std::byte{0});
        for (size_t at = 0; at < values.size(); at += size) {
            const size_t zeros = body.empty() ? size + 1 : static_cast<size_t>(body[0]);
            if (zeros > size || body.size() < 1 + size - zeros) return wrong();
            std::memcpy(values.data() + at + zeros, body.data() + 1, size - zeros);
            body = body.subspan(1 + size - zeros);
        }
        return body.empty() ? Status() : wrong();
    }

private:
    [[nodiscard]] static Status wrong() { return Error(Errc::kProtocol, "no shorn values"); }
};

}  // namespace weir::test
