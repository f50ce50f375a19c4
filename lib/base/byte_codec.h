// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ByteWriter and ByteReader: encode and decode the bodies of messages, field by field. Numbers
/// are little-endian; a text is its length (4 bytes) and its bytes; an array is its bytes. A
/// ByteReader never reads outside of its bytes: a field that is missing reads as zero, and done()
/// tells whether every field was there and no byte was left over.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace weir {

static_assert(std::endian::native == std::endian::little);

class ByteWriter {
public:
    ByteWriter() = default;

    /// Writes into this memory, whose bytes it forgets.
    explicit ByteWriter(std::vector<std::byte> memory) noexcept : bytes_(std::move(memory)) {
        bytes_.clear();
    }

    void reserve(size_t bytes) { bytes_.reserve(bytes); }

    template <class T>
    ByteWriter& number(T value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        return append(&value, sizeof(T));
    }

    /// The same of each, at once.
    template <class... T>
    ByteWriter& numbers(T... values) {
        static_assert(((std::is_arithmetic_v<T> || std::is_enum_v<T>)&&...));
        std::array<std::byte, (sizeof(T) + ...)> bytes;
        size_t at = 0;
        ((std::memcpy(&bytes[at], &values, sizeof(T)), at += sizeof(T)), ...);
        return append(bytes.data(), bytes.size());
    }

    ByteWriter& text(std::string_view value) {
        number(static_cast<uint32_t>(value.size()));
        return append(value.data(), value.size());
    }

    /// The bytes without their number: the reader must know it.
    ByteWriter& raw(std::span<const std::byte> value) { return append(value.data(), value.size()); }

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

    [[nodiscard]] std::vector<std::byte> take() && noexcept { return std::move(bytes_); }

private:
    ByteWriter& append(const void* from, size_t size);

    std::vector<std::byte> bytes_;
};

class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

    /// The next number, or zero if there is none.
    template <class T>
    T number() noexcept {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        T value{};
        take(&value, sizeof(T));
        return value;
    }

    /// The next flag, a byte. False: it is missing, or neither 0 nor 1; it is missing then, too.
    [[nodiscard]] bool flag(bool& value) noexcept {
        const auto byte = number<uint8_t>();
        value = byte == 1;
        missing_ = missing_ || byte > 1;
        return !missing_;
    }

    /// The next text; empty, and missing, if it is longer than `bytes_max`.
    std::string text(size_t bytes_max = 4096) {
        const auto size = number<uint32_t>();
        if (missing_ || size > bytes_max || size > rest_.size()) {
            missing_ = true;
            return {};
        }
        std::string value(reinterpret_cast<const char*>(rest_.data()), size);
        rest_ = rest_.subspan(size);
        return value;
    }

    /// The next N bytes, or zeros.
    template <size_t N>
    std::array<std::byte, N> array() noexcept {
        std::array<std::byte, N> value{};
        take(value.data(), N);
        return value;
    }

    /// The next `count` bytes; none, and missing, if there are fewer.
    std::span<const std::byte> raw(size_t count) noexcept {
        missing_ = missing_ || rest_.size() < count;
        if (missing_) return {};
        const std::span<const std::byte> value = rest_.first(count);
        rest_ = rest_.subspan(count);
        return value;
    }

    /// All bytes that are left.
    std::span<const std::byte> rest() noexcept { return std::exchange(rest_, {}); }

    [[nodiscard]] bool ok() const noexcept { return !missing_; }

    /// Every field that was read was there, and no byte is left.
    [[nodiscard]] bool done() const noexcept { return !missing_ && rest_.empty(); }

private:
    void take(void* to, size_t size) noexcept {
        if (missing_ || rest_.size() < size) {
            missing_ = true;
            return;
        }
        std::memcpy(to, rest_.data(), size);
        rest_ = rest_.subspan(size);
    }

    std::span<const std::byte> rest_;
    bool missing_ = false;
};

}  // namespace weir
