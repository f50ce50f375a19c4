// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A body in fewer bytes: rows, and the keys of a list, as several codecs one after the other make them
/// one blob, and back. What comes out is what went in, to the bit.
///
/// From the inside to the outside:
///
///   key differences   bytes of the keys (4 bytes), the keys
///   kept              a bit for each row; those of rows that are kept
///   factors           rank (4 bytes); in place of the rows, the values of two matrices
///   zeros             a bit for each value; those that are not zero
///   integers, bfloat16, float16, or the table's own   the values that are left; else as they are
///   compress          all of that

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lib/base/result.h"
#include "lib/filter/codecs.h"
#include "lib/filter/value_codec.h"
#include "lib/key/value_type.h"

namespace weir {

/// What both ends know before they look at a body.
struct BodyForm {
    ValueType type = ValueType::kFloat32;
    uint32_t width = 1;               ///< values of a row
    uint32_t row_count = 0;           ///< of the list or range: kept or not
    const ValueCodec* own = nullptr;  ///< of the table; null: it has none

    [[nodiscard]] size_t row_bytes() const noexcept { return width * size_of(type); }

    [[nodiscard]] size_t rows_bytes() const noexcept { return row_count * row_bytes(); }
};

/// No body is longer, nor the rows that it becomes. Snappy takes no more.
inline constexpr size_t kBodyBytesMax = ~uint32_t{0};

/// The most bytes that the body of such rows may have, whatever its codecs; more than kBodyBytesMax:
/// there is none.
[[nodiscard]] size_t body_bytes_max(const BodyForm& form) noexcept;

/// Whether such rows may be factors of this rank: floats, with no more products than
/// kFactorProductsMax, and no more values in the two matrices than in the rows.
[[nodiscard]] bool may_have_factors(const BodyForm& form, uint32_t rank) noexcept;

/// Memory that is used again and never cleared. What only a rare body needed is given back.
class BodyMemory {
public:
    static constexpr size_t kKeptBytes = size_t{4} << 20;  ///< so much is never given back
    static constexpr unsigned kRare = 64;  ///< after so many that need a quarter at most, it is

    /// Room for so many bytes, aligned as values are. What was there is lost.
    [[nodiscard]] std::span<std::byte> take(size_t bytes) {
        little_ = capacity_ > kKeptBytes && bytes <= capacity_ / 4 ? little_ + 1 : 0;
        if (bytes > capacity_ || little_ >= kRare) {
            little_ = 0;
            memory_.reset();
            capacity_ = 0;
            memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes + bytes / 4);
            capacity_ = bytes + bytes / 4;
        }
        return {memory_.get(), bytes};
    }

    [[nodiscard]] size_t capacity_bytes() const noexcept { return capacity_; }

private:
    std::unique_ptr<std::byte[]> memory_;
    size_t capacity_ = 0;
    unsigned little_ = 0;  ///< that needed little, one after the other
};

/// How long a body was on its way.
struct BodySizes {
    size_t keys = 0;   ///< of them as differences, with their number of bytes
    size_t kept = 0;   ///< bits of the rows that are kept
    size_t rows = 0;   ///< of these, as they are
    size_t zeros = 0;  ///< behind the codec zeros
    size_t inner = 0;  ///< all, before it was compressed
    size_t body = 0;

    /// Behind the codec of values.
    [[nodiscard]] size_t values() const noexcept { return inner - keys - kept; }
};

/// Thread: one
class BodyEncoder {
public:
    struct Source {
        BodyForm form;
        /// Without kFactors: the rows that are kept. With it: left and right, as encode_factors() has them.
        std::span<const std::byte> rows;
        std::span<const std::byte> kept = {};  ///< with kKept: a bit for each row
        std::span<const uint64_t> keys = {};   ///< with kKeyDifferences
        uint32_t rank = 0;                     ///< with kFactors
    };

    /// Makes a body. Of `wanted` it leaves out codecs with which it would be no shorter, but never kKept
    /// and kFactors, without which it would be another one. Of integers and halves it takes what is
    /// shorter; the table's own before both.
    ///
    /// Shape:   with kKept or kFactors: body_bytes_max() is at most kBodyBytesMax; with kFactors:
    ///          may_have_factors()
    /// Returns: the codecs that it has; 0: none, and there is no body: send the rows as they are
    [[nodiscard]] Codecs encode(const Source& source, Codecs wanted);

    /// What was encoded last; empty: nothing. Valid until the next one.
    [[nodiscard]] std::span<const std::byte> body() const noexcept { return body_; }

    /// Of that.
    [[nodiscard]] const BodySizes& sizes() const noexcept { return sizes_; }

private:
    /// Values by one of kValueCodecs; 0: there is none with which they are shorter.
    struct Left {
        Codecs codec = 0;
        size_t bytes = 0;
    };

    [[nodiscard]] Codecs put_head(const Source& source, Codecs wanted);
    [[nodiscard]] Codecs put_values(const Source& source, Codecs wanted);
    [[nodiscard]] static Left encode_left(const BodyForm& form, std::span<const std::byte> values,
                                          Codecs wanted, std::span<std::byte> to);
    void put(std::span<const std::byte> bytes) noexcept;

    std::span<std::byte> rest_;  ///< of `inner_`, not filled yet
    BodyMemory inner_;
    BodyMemory left_;
    BodyMemory compressed_;
    std::span<const std::byte> body_;
    BodySizes sizes_;
};

/// A body, expanded.
struct Body {
    std::span<const uint64_t> keys;   ///< with kKeyDifferences: ascending
    std::span<const std::byte> kept;  ///< with kKept: a bit for each row
    size_t kept_count = 0;            ///< rows that there are
    std::span<const std::byte> rows;  ///< these; aligned for values
};

/// Thread: one
class BodyDecoder {
public:
    /// Expands a body that somebody sent, who may still change it: what is looked at is copied first.
    /// Only values are not, which may have any bits: they are copied to where they belong.
    ///
    /// Returns: what is valid until the next call
    /// Errors:  kProtocol: it is no body of such rows. Nothing is taken or done before it is known how
    ///          much it will be
    [[nodiscard]] Result<Body> decode(const BodyForm& form, Codecs codecs,
                                      std::span<const std::byte> body);

    /// Of what was decoded last.
    [[nodiscard]] const BodySizes& sizes() const noexcept { return sizes_; }

    /// Of all that it keeps.
    [[nodiscard]] size_t memory_bytes() const noexcept;

private:
    [[nodiscard]] std::span<const std::byte> copied(std::span<const std::byte> bytes) noexcept;
    [[nodiscard]] std::optional<std::span<const std::byte>> take_bitmap(
        std::span<const std::byte>& rest, size_t count) noexcept;
    [[nodiscard]] Result<std::span<const std::byte>> decode_values(const BodyForm& form,
                                                                   Codecs codecs,
                                                                   size_t value_count,
                                                                   std::span<const std::byte> body);
    [[nodiscard]] Result<std::span<const std::byte>> decode_left(const BodyForm& form,
                                                                 Codecs codecs, size_t value_count,
                                                                 std::span<const std::byte> body,
                                                                 BodyMemory& memory);

    std::span<std::byte> room_;  ///< of `copy_`, for what is still to be copied
    bool is_own_ = false;        ///< what is decoded has been copied, or decompressed
    BodyMemory copy_;
    BodyMemory inner_;
    BodyMemory keys_;
    BodyMemory left_;
    BodyMemory values_;
    BodyMemory rows_;
    BodySizes sizes_;
};

}  // namespace weir
