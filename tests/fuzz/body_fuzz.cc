// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes as a body of any codecs are refused, or decoded to rows, kept ones and keys of
/// the right number, and what was decoded is the same after it is encoded and decoded again. And any
/// bytes as rows come back. Input: the codecs (2 bytes), the type (1 byte; its top bit: the table has a
/// codec of its own), the width (1 byte, and 1), the number of rows (2 bytes), and the bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/body.h"

namespace {

using namespace weir;
using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

/// Says values that are all the same by one of them.
class SameValue final : public ValueCodec {
public:
    [[nodiscard]] bool takes(ValueType type) const noexcept override {
        return type != ValueType::kInt32;
    }

    [[nodiscard]] std::optional<size_t> encode(ValueType type, View values,
                                               std::span<std::byte> body) const noexcept override {
        const size_t bytes = size_of(type);
        for (size_t i = bytes; i < values.size(); ++i) {
            if (values[i] != values[i - bytes]) return std::nullopt;
        }
        std::ranges::copy(values.first(bytes), body.begin());
        return bytes;
    }

    [[nodiscard]] Status decode(ValueType type, View body,
                                std::span<std::byte> values) const override {
        if (body.size() != std::min(size_of(type), values.size()))
            return Error(Errc::kProtocol, "not one value");
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = body[i % body.size()];
        return {};
    }
};

const SameValue kSame;

void check_decoded(const BodyForm& form, Codecs codecs, const Body& body) {
    WEIR_CHECK(body.kept_count <= form.row_count);
    WEIR_CHECK(body.rows.size() == body.kept_count * form.row_bytes());
    WEIR_CHECK(reinterpret_cast<uintptr_t>(body.rows.data()) % size_of(form.type) == 0);
    WEIR_CHECK(body.kept.size() == ((codecs & kKept) != 0 ? bitmap_bytes(form.row_count) : 0));
    if ((codecs & kKept) == 0) {
        WEIR_CHECK(body.kept_count == form.row_count);
    } else {
        WEIR_CHECK(unused_bits_are_zero(body.kept, form.row_count));
        WEIR_CHECK(count_bits(body.kept) == body.kept_count);
    }
    WEIR_CHECK(body.keys.size() == ((codecs & kKeyDifferences) != 0 ? form.row_count : 0));
    WEIR_CHECK(std::ranges::adjacent_find(body.keys, std::greater_equal{}) == body.keys.end());
}

void check_source(const BodyEncoder::Source& source, Codecs wanted) {
    BodyEncoder encoder;
    BodyDecoder decoder;
    const Codecs used = encoder.encode(source, wanted);
    WEIR_CHECK((used & ~wanted) == 0 && are_codecs(used));
    WEIR_CHECK((wanted & kKept) == (used & kKept));
    WEIR_CHECK(encoder.body().size() <= body_bytes_max(source.form));
    if (used == 0) return;
    // In memory of its own, so that the sanitizer sees reads beyond it.
    const Bytes body(encoder.body().begin(), encoder.body().end());
    const Result<Body> decoded = decoder.decode(source.form, used, body);
    WEIR_CHECK(decoded.has_value());
    check_decoded(source.form, used, *decoded);
    WEIR_CHECK(std::ranges::equal(decoded->rows, source.rows));
    WEIR_CHECK(std::ranges::equal(decoded->kept, source.kept));
    if ((used & kKeyDifferences) != 0) WEIR_CHECK(std::ranges::equal(decoded->keys, source.keys));
}

/// Bytes as rows, of which there are as many as they make.
void check_rows(BodyForm form, Codecs codecs, View bytes) {
    form.row_count = static_cast<uint32_t>(bytes.size() / form.row_bytes());
    const Bytes rows(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(form.rows_bytes()));
    check_source({.form = form, .rows = rows},
                 codecs & ~(kKept | kFactors | kKeyDifferences) & kAllCodecs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 6) return 0;
    Codecs codecs = 0;
    uint16_t count = 0;
    std::memcpy(&codecs, data, sizeof codecs);
    std::memcpy(&count, data + 4, sizeof count);
    const BodyForm form{.type = static_cast<ValueType>((data[2] & 0x7f) % kValueTypeCount),
                        .width = data[3] % 64U + 1,
                        .row_count = count % 2048U,  // else most of the time goes into memory
                        .own = (data[2] & 0x80) != 0 ? &kSame : nullptr};
    const auto bytes = std::as_bytes(std::span(data, size)).subspan(6);
    const Bytes copy(bytes.begin(), bytes.end());
    BodyDecoder decoder;
    const Result<Body> decoded = decoder.decode(form, codecs, copy);
    if (decoded) {
        check_decoded(form, codecs, *decoded);
        // Of the rows that factors make, the factors are not known.
        check_source(
            {.form = form, .rows = decoded->rows, .kept = decoded->kept, .keys = decoded->keys},
            codecs & ~kFactors);
    } else {
        WEIR_CHECK(decoded.code() == Errc::kProtocol);
    }
    check_rows(form, codecs, copy);
    return 0;
}
