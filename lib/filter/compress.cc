// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/compress.h"

#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <snappy.h>

#include "lib/base/check.h"

namespace weir {
namespace {

const char* chars(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const char*>(bytes.data());
}

char* chars(std::span<std::byte> bytes) noexcept {
    return reinterpret_cast<char*>(bytes.data());
}

/// Copies are the elements that expand most: three bytes to 64. Source: Snappy's format_description.txt
constexpr size_t kTimesLongerMax = 22;

}  // namespace

size_t compress_bytes_max(size_t raw_bytes) noexcept {
    return snappy::MaxCompressedLength(raw_bytes);
}

std::optional<size_t> compress(std::span<const std::byte> raw,
                               std::span<std::byte> compressed) noexcept {
    WEIR_CHECK(raw.size() <= std::numeric_limits<uint32_t>::max());
    WEIR_CHECK(compressed.size() >= compress_bytes_max(raw.size()));
    if (raw.empty()) return std::nullopt;
    size_t size = 0;
    snappy::RawCompress(chars(raw), raw.size(), chars(compressed), &size);
    return size < raw.size() ? std::optional(size) : std::nullopt;
}

Result<size_t> decompressed_bytes(std::span<const std::byte> compressed, size_t raw_bytes_max) {
    size_t size = 0;
    if (!snappy::GetUncompressedLength(chars(compressed), compressed.size(), &size))
        return Error(Errc::kProtocol, "compress: a body that does not begin with its size");
    if (size > raw_bytes_max) {
        return Error(Errc::kProtocol,
                     fmt::format("compress: {} bytes would become {}, more than {}",
                                 compressed.size(), size, raw_bytes_max));
    }
    if (size / kTimesLongerMax > compressed.size()) {
        return Error(Errc::kProtocol,
                     fmt::format("compress: {} bytes cannot become {}", compressed.size(), size));
    }
    return size;
}

Status decompress(std::span<const std::byte> compressed, std::span<std::byte> raw) {
    size_t size = 0;
    if (!snappy::GetUncompressedLength(chars(compressed), compressed.size(), &size) ||
        size != raw.size() ||
        !snappy::RawUncompress(chars(compressed), compressed.size(), chars(raw))) {
        return Error(Errc::kProtocol, fmt::format("compress: {} bytes that do not expand to {}",
                                                  compressed.size(), raw.size()));
    }
    return {};
}

}  // namespace weir
