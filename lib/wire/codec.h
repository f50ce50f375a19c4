// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Writer and Reader: the bodies of control messages, field by field. Numbers little-endian, text
/// as length (4 bytes) and bytes. A Reader never reads outside of its bytes; it remembers that
/// something was missing, and `done()` says whether all was there and nothing was left over.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace weir::wire {

class Writer {
public:
    template <class T>
    Writer& number(T value) {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        return append(&value, sizeof(T));
    }

    Writer& text(std::string_view value) {
        number(static_cast<uint32_t>(value.size()));
        return append(value.data(), value.size());
    }

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

    [[nodiscard]] std::vector<std::byte> take() && noexcept { return std::move(bytes_); }

private:
    Writer& append(const void* from, size_t size) {
        const size_t before = bytes_.size();
        bytes_.resize(before + size);
        if (size > 0) std::memcpy(bytes_.data() + before, from, size);
        return *this;
    }

    std::vector<std::byte> bytes_;
};

class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}

    /// The next number, or zero if there is none.
    template <class T>
    T number() noexcept {
        static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
        T value{};
        if (rest_.size() < sizeof(T)) {
            missing_ = true;
            return value;
        }
        std::memcpy(&value, rest_.data(), sizeof(T));
        rest_ = rest_.subspan(sizeof(T));
        return value;
    }

    /// The next text of at most `bytes_max` bytes, or an empty one.
    std::string text(size_t bytes_max = 4096) {
        const auto size = number<uint32_t>();
        if (size > bytes_max || size > rest_.size()) {
            missing_ = true;
            return {};
        }
        std::string value(reinterpret_cast<const char*>(rest_.data()), size);
        rest_ = rest_.subspan(size);
        return value;
    }

    [[nodiscard]] bool ok() const noexcept { return !missing_; }

    /// Everything that was asked for was there, and nothing is left.
    [[nodiscard]] bool done() const noexcept { return !missing_ && rest_.empty(); }

private:
    std::span<const std::byte> rest_;
    bool missing_ = false;
};

}  // namespace weir::wire
