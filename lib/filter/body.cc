// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/body.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/filter/bitmap.h"
#include "lib/filter/compress.h"
#include "lib/filter/factors.h"
#include "lib/filter/halves.h"
#include "lib/filter/integers.h"
#include "lib/filter/key_differences.h"
#include "lib/filter/pack/pack.h"
#include "lib/filter/zeros.h"

namespace weir {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kNumberBytes = sizeof(uint32_t);

/// Of the two matrices.
size_t factor_values(const BodyForm& form, uint32_t rank) noexcept {
    return (size_t{form.row_count} + form.width) * rank;
}

// Encoding.

bool takes_integers(const BodyForm& form, Codecs codecs) noexcept {
    return (codecs & kIntegers) != 0 && !is_narrow(form.type);
}

/// What integers would make of the values, by some blocks of them: most are not worth the time.
size_t estimate_integers(ValueType type, Bytes values) noexcept {
    constexpr size_t kBlocks = 16;
    const size_t block_bytes = kIntegerBlock * size_of(type);
    const size_t blocks = values.size() / block_bytes;
    if (blocks <= kBlocks) return 0;
    size_t bytes = 0;
    std::byte room[integers_bytes_max(ValueType::kFloat64, kIntegerBlock)];
    for (size_t i = 0; i < kBlocks; ++i) {
        const size_t block = i * blocks / kBlocks;
        bytes += encode_integers(type, values.subspan(block * block_bytes, block_bytes), room);
    }
    return bytes * blocks / kBlocks;
}

/// The first of both that has all values; 0: none.
Codecs encode_as_halves(const BodyForm& form, Bytes values, Codecs wanted,
                        std::span<std::byte> to) noexcept {
    if (form.type != ValueType::kFloat32) return 0;
    const auto body = to.first(values.size() / 2);
    if ((wanted & kHalvesB) != 0 && encode_halves(ValueType::kBFloat16, values, body))
        return kHalvesB;
    if ((wanted & kHalves) != 0 && encode_halves(ValueType::kFloat16, values, body)) return kHalves;
    return 0;
}

void check_source(const BodyEncoder::Source& source, Codecs wanted) noexcept {
    const BodyForm& form = source.form;
    WEIR_CHECK(are_codecs(wanted & ~kValueCodecs));
    if ((wanted & kKept) != 0) {
        WEIR_CHECK(source.kept.size() == bitmap_bytes(form.row_count));
        WEIR_CHECK(unused_bits_are_zero(source.kept, form.row_count));
        WEIR_CHECK(source.rows.size() == count_bits(source.kept) * form.row_bytes());
    } else if ((wanted & kFactors) != 0) {
        WEIR_CHECK(may_have_factors(form, source.rank));
        WEIR_CHECK(source.rows.size() == factor_values(form, source.rank) * size_of(form.type));
    } else {
        WEIR_CHECK(source.rows.size() == form.rows_bytes());
    }
    WEIR_CHECK((wanted & kKeyDifferences) == 0 || source.keys.size() == form.row_count);
}

// Decoding.

Error refused(std::string_view why) {
    return {Errc::kProtocol, fmt::format("an encoded body: {}", why)};
}

/// Takes the first bytes off. Nothing: there are too few.
std::optional<Bytes> take(Bytes& rest, size_t bytes) noexcept {
    if (rest.size() < bytes) return std::nullopt;
    const Bytes taken = rest.first(bytes);
    rest = rest.subspan(bytes);
    return taken;
}

std::optional<uint32_t> take_number(Bytes& rest) noexcept {
    const std::optional<Bytes> bytes = take(rest, kNumberBytes);
    if (!bytes) return std::nullopt;
    uint32_t number = 0;
    std::memcpy(&number, bytes->data(), sizeof number);
    return number;
}

/// Before there is room for them.
Status check_left(const BodyForm& form, Codecs codec, size_t value_count, Bytes body) {
    const size_t bytes = value_count * size_of(form.type);
    switch (codec) {
        case kIntegers:
            if (is_narrow(form.type)) return refused("integers of narrow values");
            if (body.size() < integers_bytes_min(value_count)) break;
            return {};
        case kHalvesB:
        case kHalves:
            if (form.type != ValueType::kFloat32) return refused("halves of no floats");
            if (body.size() * 2 != bytes) break;
            return {};
        case kTablesOwn:
            if (form.own == nullptr || !form.own->takes(form.type))
                return refused("a codec that the table does not have");
            return {};
        default:
            if (body.size() != bytes) break;
            return {};
    }
    return refused("another number of values");
}

}  // namespace

size_t body_bytes_max(const BodyForm& form) noexcept {
    // More are too many, and what they take could overflow.
    const size_t value_count = std::min(size_t{form.row_count} * form.width, kBodyBytesMax);
    return 2 * kNumberBytes + key_differences_bytes_max(form.row_count) +
           bitmap_bytes(form.row_count) + bitmap_bytes(value_count) +
           value_count * size_of(form.type) + (value_count + kIntegerBlock - 1) / kIntegerBlock;
}

bool may_have_factors(const BodyForm& form, uint32_t rank) noexcept {
    const bool is_type = form.type == ValueType::kFloat32 || form.type == ValueType::kFloat64;
    return is_type && may_be_factors({form.type, form.row_count, form.width}, rank) &&
           factor_values(form, rank) <= size_t{form.row_count} * form.width;
}

void BodyEncoder::put(Bytes bytes) noexcept {
    WEIR_CHECK(bytes.size() <= rest_.size());
    if (!bytes.empty()) std::memcpy(rest_.data(), bytes.data(), bytes.size());
    rest_ = rest_.subspan(bytes.size());
}

Codecs BodyEncoder::encode(const Source& source, Codecs wanted) {
    body_ = {};
    const size_t bytes_max = body_bytes_max(source.form);
    if (bytes_max > kBodyBytesMax) {
        WEIR_CHECK((wanted & (kKept | kFactors)) == 0);
        return 0;
    }
    check_source(source, wanted);
    const size_t no_keys_bytes =
        (wanted & kKeyDifferences) != 0 ? 0 : key_differences_bytes_max(source.form.row_count);
    const std::span<std::byte> inner = inner_.take(bytes_max - no_keys_bytes);
    rest_ = inner;
    sizes_ = {.rows = source.rows.size(), .zeros = source.rows.size()};
    Codecs used = put_head(source, wanted);
    used |= put_values(source, wanted);
    // Rows that nothing was done to are not copied, unless something stands before them.
    Bytes body = source.rows;
    if (used != 0) {
        if ((used & (kZeros | kValueCodecs)) == 0) put(source.rows);
        body = inner.first(inner.size() - rest_.size());
        body_ = body;
    }
    sizes_.inner = sizes_.body = body.size();
    if ((wanted & kCompress) == 0) return used;
    const std::span<std::byte> room = compressed_.take(compress_bytes_max(body.size()));
    const std::optional<size_t> size = compress(body, room);
    if (!size) return used;
    body_ = room.first(*size);
    sizes_.body = body_.size();
    return used | kCompress;
}

/// What stands before the values. Returns its codecs.
Codecs BodyEncoder::put_head(const Source& source, Codecs wanted) {
    Codecs used = wanted & (kKept | kFactors);
    if ((wanted & kKeyDifferences) != 0) {
        const std::span<std::byte> keys = rest_.subspan(kNumberBytes);
        const auto bytes = static_cast<uint32_t>(encode_key_differences(source.keys, keys));
        if (bytes + kNumberBytes < source.keys.size_bytes()) {
            put(std::as_bytes(std::span(&bytes, 1)));
            rest_ = rest_.subspan(bytes);
            sizes_.keys = kNumberBytes + bytes;
            used |= kKeyDifferences;
        }
    }
    if ((used & kKept) != 0) {
        sizes_.kept = source.kept.size();
        put(source.kept);
    }
    if ((used & kFactors) != 0) put(std::as_bytes(std::span(&source.rank, 1)));
    return used;
}

/// Returns the codecs of the values; 0: they are not there yet.
Codecs BodyEncoder::put_values(const Source& source, Codecs wanted) {
    const Bytes rows = source.rows;
    const size_t value_bytes = size_of(source.form.type);
    const size_t count = rows.size() / value_bytes;
    size_t bytes = rows.size();
    if ((wanted & kZeros) != 0) bytes = encode_zeros(rows, value_bytes, rest_);
    if (bytes >= rows.size()) {
        const Left left = encode_left(source.form, rows, wanted, rest_);
        rest_ = rest_.subspan(left.bytes);
        return left.codec;
    }
    const Bytes packed = rest_.first(bytes).subspan(bitmap_bytes(count));
    const std::span<std::byte> room = left_.take(integers_bytes_max(source.form.type, count));
    // Values of few bits may take no more with zeros than without and a bit each.
    if (packed.size() > rows.size() / 4 * 3) {
        const Left all = encode_left(source.form, rows, wanted, room);
        if (all.codec != 0 &&
            all.bytes - all.bytes * packed.size() / rows.size() <= bitmap_bytes(count)) {
            put(room.first(all.bytes));
            return all.codec;
        }
    }
    sizes_.zeros = bytes;
    const Left left = encode_left(source.form, packed, wanted, room);
    if (left.codec == 0) {
        rest_ = rest_.subspan(bytes);
        return kZeros;
    }
    rest_ = rest_.subspan(bitmap_bytes(count));
    put(room.first(left.bytes));
    return kZeros | left.codec;
}

BodyEncoder::Left BodyEncoder::encode_left(const BodyForm& form, Bytes values, Codecs wanted,
                                           std::span<std::byte> to) {
    if (values.empty()) return {};
    if ((wanted & kTablesOwn) != 0 && form.own != nullptr && form.own->takes(form.type)) {
        const auto bytes = form.own->encode(form.type, values, to.first(values.size()));
        if (bytes && *bytes < values.size()) return {kTablesOwn, *bytes};
    }
    const Left halves{0, values.size() / 2};
    const size_t estimate =
        takes_integers(form, wanted) ? estimate_integers(form.type, values) : values.size();
    // What is probably shorter first; the other one if it is not. Halves are faster, which is worth
    // some bytes.
    const bool halves_first = estimate > halves.bytes - halves.bytes / 8;
    if (halves_first) {
        const Codecs codec = encode_as_halves(form, values, wanted, to);
        if (codec != 0) return {codec, halves.bytes};
    }
    if (estimate >= values.size()) return {};
    Left integers{kIntegers, encode_integers(form.type, values, to)};
    if (!halves_first && integers.bytes > halves.bytes) {
        const Codecs codec = encode_as_halves(form, values, wanted, to);
        if (codec != 0) return {codec, halves.bytes};
        integers.bytes = encode_integers(form.type, values, to);
    }
    return integers.bytes < values.size() ? integers : Left{};
}

size_t BodyDecoder::memory_bytes() const noexcept {
    size_t bytes = 0;
    for (const BodyMemory* each : {&copy_, &inner_, &keys_, &left_, &values_, &rows_})
        bytes += each->capacity_bytes();
    return bytes;
}

/// The same bytes where nobody changes them.
Bytes BodyDecoder::copied(Bytes bytes) noexcept {
    if (is_own_ || bytes.empty()) return bytes;
    const std::span<std::byte> copy = room_.first(bytes.size());
    room_ = room_.subspan(bytes.size());
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return copy;
}

Result<Body> BodyDecoder::decode(const BodyForm& form, Codecs codecs, Bytes body) {
    const size_t bytes_max = body_bytes_max(form);
    if (!are_codecs(codecs)) return refused("codecs that none has together");
    if (bytes_max > kBodyBytesMax) return refused("of more rows than any has");
    if (body.size() > bytes_max) return refused("more bytes than its rows can have");
    room_ = copy_.take(body.size());
    is_own_ = false;
    Bytes rest = body;
    if ((codecs & kCompress) != 0) {
        const Bytes copy = copied(body);
        WEIR_ASSIGN(const size_t size, decompressed_bytes(copy, bytes_max));
        const std::span<std::byte> inner = inner_.take(size);
        WEIR_TRY(decompress(copy, inner));
        rest = inner;
        is_own_ = true;
    }
    sizes_ = {.inner = rest.size(), .body = body.size()};
    Body decoded;
    decoded.kept_count = form.row_count;
    if ((codecs & kKeyDifferences) != 0) {
        const std::optional<uint32_t> bytes = take_number(rest);
        const std::optional<Bytes> its = bytes ? take(rest, *bytes) : std::nullopt;
        if (!its || !may_be_key_differences(its->size(), form.row_count))
            return refused("keys of another number");
        const std::span<std::byte> memory = keys_.take(form.row_count * sizeof(uint64_t));
        const std::span keys(reinterpret_cast<uint64_t*>(memory.data()), form.row_count);
        WEIR_TRY(decode_key_differences(copied(*its), keys));
        decoded.keys = keys;
    }
    if ((codecs & kKept) != 0) {
        const std::optional<Bytes> kept = take_bitmap(rest, form.row_count);
        if (!kept) return refused("a bitmap of another number of rows");
        decoded.kept = *kept;
        decoded.kept_count = count_bits(*kept);
    }
    if ((codecs & kFactors) == 0) {
        WEIR_ASSIGN(decoded.rows,
                    decode_values(form, codecs, decoded.kept_count * form.width, rest));
        return decoded;
    }
    const std::optional<uint32_t> rank = take_number(rest);
    if (!rank || !may_have_factors(form, *rank))
        return refused("factors of a rank that is refused");
    WEIR_ASSIGN(const Bytes values, decode_values(form, codecs, factor_values(form, *rank), rest));
    const std::span<std::byte> rows = rows_.take(form.rows_bytes());
    WEIR_TRY(decode_factors({form.type, form.row_count, form.width}, values, rows));
    decoded.rows = rows;
    return decoded;
}

/// Nothing: it is none of so many things.
std::optional<Bytes> BodyDecoder::take_bitmap(Bytes& rest, size_t count) noexcept {
    const std::optional<Bytes> bytes = take(rest, bitmap_bytes(count));
    if (!bytes) return std::nullopt;
    const Bytes bitmap = copied(*bytes);
    return unused_bits_are_zero(bitmap, count) ? std::optional(bitmap) : std::nullopt;
}

Result<Bytes> BodyDecoder::decode_values(const BodyForm& form, Codecs codecs, size_t value_count,
                                         Bytes body) {
    sizes_.rows = sizes_.zeros = value_count * size_of(form.type);
    if ((codecs & kZeros) == 0) return decode_left(form, codecs, value_count, body, values_);
    const size_t value_bytes = size_of(form.type);
    const std::optional<Bytes> bitmap = take_bitmap(body, value_count);
    if (!bitmap) return refused("a bitmap of another number of values");
    WEIR_ASSIGN(const Bytes packed, decode_left(form, codecs, count_bits(*bitmap), body, left_));
    sizes_.zeros = bitmap->size() + packed.size();
    const std::span<std::byte> values = values_.take(value_count * value_bytes);
    expand_values(bitmap->data(), packed, value_bytes, values);
    return Bytes(values);
}

/// In `memory`, or where they are if they can stay there. With kZeros they are only to be read once.
Result<Bytes> BodyDecoder::decode_left(const BodyForm& form, Codecs codecs, size_t value_count,
                                       Bytes body, BodyMemory& memory) {
    const Codecs codec = codecs & kValueCodecs;
    WEIR_TRY(check_left(form, codec, value_count, body));
    const size_t value_bytes = size_of(form.type);
    if (codec == 0) {
        if ((codecs & kZeros) != 0) return body;
        const bool is_aligned = reinterpret_cast<uintptr_t>(body.data()) % value_bytes == 0;
        if (is_own_ && is_aligned) return body;
    }
    const std::span<std::byte> values = memory.take(value_count * value_bytes);
    switch (codec) {
        case kIntegers: WEIR_TRY(decode_integers(form.type, copied(body), values)); break;
        case kHalvesB: decode_halves(ValueType::kBFloat16, body, values); break;
        case kHalves: decode_halves(ValueType::kFloat16, body, values); break;
        case kTablesOwn: WEIR_TRY(form.own->decode(form.type, copied(body), values)); break;
        default:
            if (!values.empty()) std::memcpy(values.data(), body.data(), body.size());
    }
    return Bytes(values);
}

}  // namespace weir
