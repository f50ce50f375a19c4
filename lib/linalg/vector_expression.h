// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Vector<T>, Matrix<T>: what was pulled, as a vector or a matrix; and sums of vectors that are not made, but
/// read where they lie.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lib/base/check.h"
#include "lib/key/call_keys.h"

namespace weir::linalg {

/// Something with a value for each of some keys. Those of all its parts may be the same, as they are in tables that
/// one list was pulled from: then at(i) is the value of key number i. Else cursor() walks through them.
template <class E>
concept Expression = requires(const E& e, typename E::Cursor cursor, size_t i, uint64_t key) {
    requires std::is_arithmetic_v<typename E::Value>;
    { e.has_one_list() } -> std::same_as<bool>;
    { e.keys() } -> std::convertible_to<CallKeys>;  // if it has
    { e.at(i) } -> std::convertible_to<typename E::Value>;
    { e.cursor() } -> std::same_as<typename E::Cursor>;
    { cursor.is_over() } -> std::same_as<bool>;
    { cursor.key() } -> std::same_as<uint64_t>;
    { cursor.value() } -> std::convertible_to<typename E::Value>;
    cursor.next();
    cursor.skip_to(key);  // the first key that is not below it
};

/// A vector by key: ascending keys beside one array, both of the caller.
template <class T>
class Vector {
public:
    using Value = std::remove_const_t<T>;

    /// Keys 0, 1, ...
    Vector(std::span<T> values) noexcept  // NOLINT: implicit on purpose
        : keys_(KeyRange{0, values.size()}), values_(values) {}

    /// Shape: values.size() == keys.key_count()
    Vector(KeyRange keys, std::span<T> values) noexcept : keys_(keys), values_(values) {
        WEIR_CHECK(keys_.size() == values.size());
    }

    /// Shape: values.size() == keys.size()
    Vector(std::span<const uint64_t> keys, std::span<T> values) noexcept
        : keys_(keys), values_(values) {
        WEIR_CHECK(keys_.size() == values.size());
    }

    /// The same, to be read.
    template <class U>
    requires(std::is_const_v<T>&& std::same_as<U, Value>) Vector(const Vector<U>& other)
    noexcept  // NOLINT: implicit
        : keys_(other.keys()), values_(other.values()) {}

    [[nodiscard]] const CallKeys& keys() const noexcept { return keys_; }

    [[nodiscard]] std::span<T> values() const noexcept { return values_; }

    [[nodiscard]] size_t size() const noexcept { return values_.size(); }

    /// Keys number begin .. end - 1.
    [[nodiscard]] Vector part(size_t begin, size_t end) const noexcept {
        return Vector(keys_.part(begin, end - begin), values_.subspan(begin, end - begin));
    }

    /// The value of a key; null: it has none.
    [[nodiscard]] T* find(uint64_t key) const noexcept {
        const size_t i = keys_.place_of(key);
        return i < size() && keys_[i] == key ? &values_[i] : nullptr;
    }

    [[nodiscard]] bool has_one_list() const noexcept { return true; }

    [[nodiscard]] Value at(size_t i) const noexcept { return values_[i]; }

    class Cursor {
    public:
        explicit Cursor(const Vector& of) noexcept : keys_(of.keys_), values_(of.values_.data()) {}

        [[nodiscard]] bool is_over() const noexcept { return i_ == keys_.size(); }

        [[nodiscard]] uint64_t key() const noexcept { return keys_[i_]; }

        [[nodiscard]] Value value() const noexcept { return values_[i_]; }

        void next() noexcept { ++i_; }

        void skip_to(uint64_t key) noexcept { i_ = keys_.place_of(key, i_); }

    private:
        CallKeys keys_;
        T* values_;
        size_t i_ = 0;
    };

    [[nodiscard]] Cursor cursor() const noexcept { return Cursor(*this); }

private:
    Vector(const CallKeys& keys, std::span<T> values) noexcept : keys_(keys), values_(values) {}

    CallKeys keys_;
    std::span<T> values_;
};

template <class R>
Vector(R&&) -> Vector<std::remove_reference_t<decltype(std::span(std::declval<R&>())[0])>>;
template <class K, class R>
Vector(K&&, R&&) -> Vector<std::remove_reference_t<decltype(std::span(std::declval<R&>())[0])>>;

/// A matrix: a row of `width` values for each of some keys.
template <class T>
class Matrix {
public:
    /// Shape: values.size() == keys.size() * width
    Matrix(std::span<const uint64_t> keys, std::span<T> values, size_t width) noexcept
        : keys_(keys), values_(values), width_(width) {
        WEIR_CHECK(values.size() == keys.size() * width);
    }

    Matrix(KeyRange keys, std::span<T> values, size_t width) noexcept
        : keys_(keys), values_(values), width_(width) {
        WEIR_CHECK(values.size() == keys_.size() * width);
    }

    [[nodiscard]] const CallKeys& keys() const noexcept { return keys_; }

    [[nodiscard]] std::span<T> values() const noexcept { return values_; }

    [[nodiscard]] size_t width() const noexcept { return width_; }

    [[nodiscard]] size_t row_count() const noexcept { return keys_.size(); }

    /// That of key number i.
    [[nodiscard]] std::span<T> row(size_t i) const noexcept {
        return values_.subspan(i * width_, width_);
    }

    /// Rows number begin .. end - 1.
    [[nodiscard]] Matrix rows(size_t begin, size_t end) const noexcept {
        return Matrix(keys_.part(begin, end - begin),
                      values_.subspan(begin * width_, (end - begin) * width_), width_);
    }

private:
    Matrix(const CallKeys& keys, std::span<T> values, size_t width) noexcept
        : keys_(keys), values_(values), width_(width) {}

    CallKeys keys_;
    std::span<T> values_;
    size_t width_;
};

template <class K, class R>
Matrix(K&&, R&&, size_t)
    -> Matrix<std::remove_reference_t<decltype(std::span(std::declval<R&>())[0])>>;

/// factor * e, of floats.
template <Expression E>
requires std::floating_point<typename E::Value>

class Scaled {
public:
    using Value = typename E::Value;

    Scaled(double factor, const E& e) noexcept : factor_(static_cast<Value>(factor)), e_(e) {}

    [[nodiscard]] bool has_one_list() const noexcept { return e_.has_one_list(); }

    [[nodiscard]] CallKeys keys() const noexcept { return e_.keys(); }

    [[nodiscard]] Value at(size_t i) const noexcept { return factor_ * e_.at(i); }

    class Cursor {
    public:
        explicit Cursor(const Scaled& of) noexcept : factor_(of.factor_), at_(of.e_.cursor()) {}

        [[nodiscard]] bool is_over() const noexcept { return at_.is_over(); }

        [[nodiscard]] uint64_t key() const noexcept { return at_.key(); }

        [[nodiscard]] Value value() const noexcept { return factor_ * at_.value(); }

        void next() noexcept { at_.next(); }

        void skip_to(uint64_t key) noexcept { at_.skip_to(key); }

    private:
        Value factor_;
        typename E::Cursor at_;
    };

    [[nodiscard]] Cursor cursor() const noexcept { return Cursor(*this); }

private:
    Value factor_;
    E e_;
};

/// a + b: of a key that only one of them has, its value there.
template <Expression A, Expression B>
class Sum {
public:
    using Value = std::common_type_t<typename A::Value, typename B::Value>;

    Sum(const A& a, const B& b) noexcept
        : a_(a),
          b_(b),
          has_one_list_(a.has_one_list() && b.has_one_list() && a.keys() == b.keys()) {}

    [[nodiscard]] bool has_one_list() const noexcept { return has_one_list_; }

    [[nodiscard]] CallKeys keys() const noexcept { return a_.keys(); }

    [[nodiscard]] Value at(size_t i) const noexcept {
        return static_cast<Value>(a_.at(i)) + static_cast<Value>(b_.at(i));
    }

    class Cursor {
    public:
        explicit Cursor(const Sum& of) noexcept : a_(of.a_.cursor()), b_(of.b_.cursor()) {}

        [[nodiscard]] bool is_over() const noexcept { return a_.is_over() && b_.is_over(); }

        [[nodiscard]] uint64_t key() const noexcept {
            if (a_.is_over()) return b_.key();
            return b_.is_over() || a_.key() < b_.key() ? a_.key() : b_.key();
        }

        [[nodiscard]] Value value() const noexcept {
            const uint64_t at = key();
            Value sum = 0;
            if (!a_.is_over() && a_.key() == at) sum += static_cast<Value>(a_.value());
            if (!b_.is_over() && b_.key() == at) sum += static_cast<Value>(b_.value());
            return sum;
        }

        void next() noexcept {
            const uint64_t at = key();
            if (!a_.is_over() && a_.key() == at) a_.next();
            if (!b_.is_over() && b_.key() == at) b_.next();
        }

        void skip_to(uint64_t key) noexcept {
            a_.skip_to(key);
            b_.skip_to(key);
        }

    private:
        typename A::Cursor a_;
        typename B::Cursor b_;
    };

    [[nodiscard]] Cursor cursor() const noexcept { return Cursor(*this); }

private:
    A a_;
    B b_;
    bool has_one_list_;
};

template <Expression A, Expression B>
[[nodiscard]] Sum<A, B> operator+(const A& a, const B& b) noexcept {
    return {a, b};
}

template <Expression A, Expression B>
requires std::floating_point<typename B::Value>

[[nodiscard]] Sum<A, Scaled<B>> operator-(const A& a, const B& b) noexcept {
    return {a, Scaled<B>(-1, b)};
}

template <Expression E>
requires std::floating_point<typename E::Value>

[[nodiscard]] Scaled<E> operator*(double factor, const E& e) noexcept {
    return {factor, e};
}

template <Expression E>
requires std::floating_point<typename E::Value>

[[nodiscard]] Scaled<E> operator-(const E& e) noexcept {
    return {-1, e};
}

}  // namespace weir::linalg
