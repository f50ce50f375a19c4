// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/batch_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "lib/base/check.h"
#include "lib/worker/table_access.h"

namespace weir {
namespace {

/// kBytes 0: as `row_bytes` says.
template <size_t kBytes>
void spread_rows(std::span<const uint32_t> places, const std::byte* from, std::byte* to,
                 size_t row_bytes) {
    const size_t bytes = kBytes == 0 ? row_bytes : kBytes;
    for (const uint32_t place : places) {
        std::memcpy(to, from + place * bytes, bytes);
        to += bytes;
    }
}

void spread_rows(std::span<const uint32_t> places, const std::byte* from, std::byte* to,
                 size_t row_bytes) {
    switch (row_bytes) {
        case 1: return spread_rows<1>(places, from, to, row_bytes);
        case 4: return spread_rows<4>(places, from, to, row_bytes);
        case 8: return spread_rows<8>(places, from, to, row_bytes);
        case 64: return spread_rows<64>(places, from, to, row_bytes);
        default: return spread_rows<0>(places, from, to, row_bytes);
    }
}

/// What a row is before the first one is combined with it.
template <Value T>
T before_all(Combine combine) {
    using Limits = std::numeric_limits<T>;
    switch (combine) {
        case Combine::kMax: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
        case Combine::kMin: return Limits::has_infinity ? Limits::infinity() : Limits::max();
        default: return T{0};
    }
}

template <Value T, class Function>
void combine_rows(std::span<const uint32_t> places, const T* from, T* to, size_t width,
                  Function&& combined) {
    for (const uint32_t place : places) {
        T* const row = to + place * width;
        for (size_t i = 0; i < width; ++i)
            row[i] = combined(row[i], from[i]);
        from += width;
    }
}

template <Value T>
void add_up(std::span<const uint32_t> places, const T* from, T* to, size_t width) {
    using Sum = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                            std::type_identity<T>>::type;  // integers wrap around
    combine_rows<T>(places, from, to, width,
                    [](T a, T b) { return static_cast<T>(Sum(a) + Sum(b)); });
}

}  // namespace

Result<BatchRows::Memory> BatchRows::take(size_t bytes) {
    const auto fitting =
        std::ranges::find_if(free_, [&](const Memory& one) { return one.bytes >= bytes; });
    if (fitting != free_.end()) {
        Memory memory = std::move(*fitting);
        free_.erase(fitting);
        ++taken_count_;
        return memory;
    }
    if (!free_.empty()) free_.pop_back();  // batches grow: what is too small is not needed any more
    WEIR_ASSIGN(std::shared_ptr<std::byte> data, access::allocate(state_, bytes, 1));
    ++taken_count_;
    return Memory{std::move(data), bytes};
}

void BatchRows::put_back(Memory memory) {
    WEIR_CHECK(taken_count_ > 0);
    --taken_count_;
    if (memory.data != nullptr) free_.push_back(std::move(memory));
}

BatchCall::~BatchCall() {
    if (rows_ == nullptr) return;
    for (BatchRows::Memory* const its : {&pushed_, &pulled_}) {
        if (its->data != nullptr) rows_->put_back(std::move(*its));
    }
}

Result<std::span<const std::byte>> BatchCall::push(std::span<const std::byte> callers,
                                                   const Combining& how) {
    const size_t bytes = key_count_ * how.row_bytes;
    WEIR_ASSIGN(pushed_, rows_->take(bytes));
    callers_pushed_ = callers;
    how_ = how;
    return std::span<const std::byte>(pushed_.data.get(), bytes);
}

Result<std::span<std::byte>> BatchCall::pull(std::span<std::byte> callers, size_t row_bytes) {
    const size_t bytes = key_count_ * row_bytes;
    WEIR_ASSIGN(pulled_, rows_->take(bytes));
    callers_out_ = callers;
    out_row_bytes_ = row_bytes;
    return std::span(pulled_.data.get(), bytes);
}

void BatchCall::begin() {
    if (callers_pushed_.empty()) return;
    with_value_type(how_.type, [&]<class T>() {
        const size_t width = how_.row_bytes / sizeof(T);
        const auto* const from = reinterpret_cast<const T*>(callers_pushed_.data());
        auto* const to = reinterpret_cast<T*>(pushed_.data.get());
        std::fill_n(to, key_count_ * width, before_all<T>(how_.combine));
        switch (how_.combine) {
            case Combine::kSum: return add_up(places_, from, to, width);
            case Combine::kMax:
                return combine_rows(places_, from, to, width,
                                    [](T a, T b) { return std::max(a, b); });
            case Combine::kMin:
                return combine_rows(places_, from, to, width,
                                    [](T a, T b) { return std::min(a, b); });
            case Combine::kLast:
                return combine_rows(places_, from, to, width, [](T, T b) { return b; });
            case Combine::kMean: break;
        }
        add_up(places_, from, to, width);
        for (size_t i = 0; i < key_count_ * width; ++i)
            to[i] /= static_cast<T>(counts_[i / width]);
    });
}

/// After an error a server may still read or write the rows: they are given back when none does.
void BatchCall::end(bool succeeded) noexcept {
    if (rows_ == nullptr) return;
    if (succeeded && !callers_out_.empty())
        spread_rows(places_, pulled_.data.get(), callers_out_.data(), out_row_bytes_);
    for (BatchRows::Memory* const its : {&pushed_, &pulled_}) {
        if (its->data != nullptr)
            rows_->put_back(succeeded ? std::move(*its) : BatchRows::Memory{});
        *its = {};
    }
    rows_ = nullptr;
}

bool BatchCall::is_referenced(std::span<const std::byte> memory) const noexcept {
    const auto meets = [&](std::span<const std::byte> other) {
        return other.data() < memory.data() + memory.size() &&
               memory.data() < other.data() + other.size();
    };
    return rows_ != nullptr && (meets(callers_pushed_) || meets(callers_out_));
}

}  // namespace weir
