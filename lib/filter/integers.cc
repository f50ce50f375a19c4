// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/integers.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/base/kernel.h"
#include "lib/filter/float_block.h"
#include "lib/filter/float_block_avx512.h"
#include "lib/filter/integer_block.h"
#include "lib/filter/integer_unpack.h"

namespace weir {
namespace {

using integers::FloatBlock;
using integers::Head;
using integers::IntegerBlock;

/// Encodes one block of `count` values. Returns the end of what it wrote.
template <class Block>
WEIR_INLINE std::byte* encode_block(Block& block, const std::byte* from, size_t count,
                                    std::byte* to, const std::byte* end) noexcept {
    using U = typename Block::Bits;
    U values[kIntegerBlock];
    std::memcpy(values, from, count * sizeof(U));
    for (size_t i = count; i < kIntegerBlock; ++i)
        values[i] = values[0];  // changes neither scale nor reference
    Head<U> head;
    U offsets[kIntegerBlock];
    if (block.encode(values, head, offsets) && head.bits <= integers::kBitsMax) {
        const size_t bytes = integers::offsets_bytes(head.bits, count);
        if (Head<U>::kBytes + bytes <= count * sizeof(U)) {
            head.write(to);
            to += Head<U>::kBytes;
            for (size_t i = count; i < kIntegerBlock; ++i)
                offsets[i] = 0;  // bits behind the last offset
            if (static_cast<size_t>(end - to) >= integers::kOffsetsRoom) {
                integers::pack_offsets(offsets, head.bits, to);
            } else {
                std::byte packed[integers::kOffsetsRoom];
                integers::pack_offsets(offsets, head.bits, packed);
                std::memcpy(to, packed, bytes);
            }
            return to + bytes;
        }
    }
    *to++ = std::byte{kRawBlock};
    std::memcpy(to, from, count * sizeof(U));
    return to + count * sizeof(U);
}

/// Decodes one block of `count` values. Returns the end of what it read, or nullptr if it is none.
template <class Block>
WEIR_INLINE const std::byte* decode_block(const Block& block, std::span<const std::byte> from,
                                          size_t count, std::byte* to, Simd simd) noexcept {
    using U = typename Block::Bits;
    if (from.empty()) return nullptr;
    if (from[0] == std::byte{kRawBlock}) {
        if (from.size() - 1 < count * sizeof(U)) return nullptr;
        std::memcpy(to, from.data() + 1, count * sizeof(U));
        return from.data() + 1 + count * sizeof(U);
    }
    if (from.size() < Head<U>::kBytes) return nullptr;
    Head<U> head;
    head.read(from.data());
    if (head.bits > integers::kBitsMax || !block.accepts(head)) return nullptr;
    const size_t bytes = integers::offsets_bytes(head.bits, count);
    const size_t used_bits = head.bits * count % 8;
    from = from.subspan(Head<U>::kBytes);
    if (from.size() < bytes) return nullptr;
    if (used_bits != 0 && (from[bytes - 1] >> used_bits) != std::byte{0}) return nullptr;
    U offsets[kIntegerBlock];
    if (from.size() >= integers::kOffsetsRoom) {
        integers::unpack(from.data(), head.bits, offsets, simd);
    } else {  // 64 offsets and 8 bytes are read, however many there are
        std::byte packed[integers::kOffsetsRoom] = {};
        std::memcpy(packed, from.data(), bytes);
        integers::unpack(packed, head.bits, offsets, simd);
    }
    // What was read behind the last offset of a short block counts for nothing.
    for (size_t i = count; i < kIntegerBlock; ++i)
        offsets[i] = 0;
    U values[kIntegerBlock];
    if (!block.decode(head, offsets, values)) return nullptr;
    std::memcpy(to, values, count * sizeof(U));
    return from.data() + bytes;
}

/// One of 64 values.
template <class Block>
WEIR_INLINE std::byte* encode_whole_block(Block& block, const std::byte* from, std::byte* to,
                                          const std::byte* end, Simd simd) noexcept {
#if defined(__x86_64__)
    if constexpr (std::is_same_v<Block, FloatBlock<float>>) {
        constexpr size_t kRoom = Head<uint32_t>::kBytes + integers::kOffsetsRoom;
        if (simd == Simd::kAvx512 && static_cast<size_t>(end - to) >= kRoom) {
            std::byte* const after = integers::encode_floats_avx512(block, from, to);
            if (after != nullptr) return after;
        }
    }
#endif
    (void)simd;
    return encode_block(block, from, kIntegerBlock, to, end);
}

template <class Block>
WEIR_INLINE size_t encode_blocks(Block block, std::span<const std::byte> values,
                                 std::span<std::byte> body, Simd simd) noexcept {
    constexpr size_t kBytes = sizeof(typename Block::Bits);
    const std::byte* const end = body.data() + body.size();
    std::byte* to = body.data();
    size_t done = 0;
    for (const size_t whole = values.size() / (kIntegerBlock * kBytes) * kIntegerBlock * kBytes;
         done < whole; done += kIntegerBlock * kBytes)
        to = encode_whole_block(block, values.data() + done, to, end, simd);
    if (done < values.size())
        to = encode_block(block, values.data() + done, (values.size() - done) / kBytes, to, end);
    return static_cast<size_t>(to - body.data());
}

/// Whether the body has these values, and nothing else.
template <class Block>
WEIR_INLINE bool decode_blocks(Block block, std::span<const std::byte> body,
                               std::span<std::byte> values, Simd simd) noexcept {
    constexpr size_t kBytes = sizeof(typename Block::Bits);
    const std::byte* const end = body.data() + body.size();
    const std::byte* from = body.data();
    size_t done = 0;
    for (const size_t whole = values.size() / (kIntegerBlock * kBytes) * kIntegerBlock * kBytes;
         done < whole; done += kIntegerBlock * kBytes) {
        from = decode_block(block, {from, end}, kIntegerBlock, values.data() + done, simd);
        if (from == nullptr) return false;
    }
    if (done < values.size()) {
        from = decode_block(block, {from, end}, (values.size() - done) / kBytes,
                            values.data() + done, simd);
        if (from == nullptr) return false;
    }
    return from == end;
}

// One function for each kind of block, because compilers make no clones of templates.

using In = std::span<const std::byte>;
using Out = std::span<std::byte>;

WEIR_KERNEL size_t encode(FloatBlock<float> block, In values, Out body, Simd simd) noexcept {
    return encode_blocks(block, values, body, simd);
}

WEIR_KERNEL size_t encode(FloatBlock<double> block, In values, Out body, Simd simd) noexcept {
    return encode_blocks(block, values, body, simd);
}

WEIR_KERNEL size_t encode(IntegerBlock<uint32_t> block, In values, Out body, Simd simd) noexcept {
    return encode_blocks(block, values, body, simd);
}

WEIR_KERNEL size_t encode(IntegerBlock<uint64_t> block, In values, Out body, Simd simd) noexcept {
    return encode_blocks(block, values, body, simd);
}

WEIR_KERNEL bool decode(FloatBlock<float> block, In body, Out values, Simd simd) noexcept {
    return decode_blocks(block, body, values, simd);
}

WEIR_KERNEL bool decode(FloatBlock<double> block, In body, Out values, Simd simd) noexcept {
    return decode_blocks(block, body, values, simd);
}

WEIR_KERNEL bool decode(IntegerBlock<uint32_t> block, In body, Out values, Simd simd) noexcept {
    return decode_blocks(block, body, values, simd);
}

WEIR_KERNEL bool decode(IntegerBlock<uint64_t> block, In body, Out values, Simd simd) noexcept {
    return decode_blocks(block, body, values, simd);
}

/// Calls `work` with the block of this type.
template <class Work>
auto with_block(ValueType type, const Work& work) {
    constexpr auto kSign32 = uint32_t{1} << 31;
    constexpr auto kSign64 = uint64_t{1} << 63;
    WEIR_CHECK(is_valid(type) && !is_narrow(type));
    switch (type) {
        case ValueType::kFloat32: return work(FloatBlock<float>{});
        case ValueType::kFloat64: return work(FloatBlock<double>{});
        case ValueType::kInt32: return work(IntegerBlock<uint32_t>{kSign32});
        case ValueType::kUInt32: return work(IntegerBlock<uint32_t>{0});
        case ValueType::kInt64: return work(IntegerBlock<uint64_t>{kSign64});
        default: return work(IntegerBlock<uint64_t>{0});
    }
}

}  // namespace

size_t encode_integers(ValueType type, std::span<const std::byte> values, std::span<std::byte> body,
                       Simd simd) noexcept {
    WEIR_CHECK(values.size() % size_of(type) == 0);
    WEIR_CHECK(body.size() >= integers_bytes_max(type, values.size() / size_of(type)));
    return with_block(type,
                      [&](auto block) -> size_t { return encode(block, values, body, simd); });
}

Status decode_integers(ValueType type, std::span<const std::byte> body, std::span<std::byte> values,
                       Simd simd) {
    WEIR_CHECK(values.size() % size_of(type) == 0);
    if (!with_block(type, [&](auto block) -> bool { return decode(block, body, values, simd); })) {
        return Error(Errc::kProtocol,
                     fmt::format("integers: {} bytes are not those of {} values of {}", body.size(),
                                 values.size() / size_of(type), to_string(type)));
    }
    return {};
}

}  // namespace weir
