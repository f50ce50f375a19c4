// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Table<T> and Buffer<T>: typed push and pull, and registered memory for what they move.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/key_span.h"
#include "lib/key/value_type.h"
#include "lib/store/table_schema.h"
#include "lib/worker/client.h"
#include "lib/worker/table_access.h"

namespace weir {

/// `size()` values of registered memory: pushed from and pulled into without a copy. A contiguous
/// range, so that it goes wherever a std::span is wanted.
template <Value T>
class Buffer {
public:
    Buffer() = default;

    Buffer(Buffer&& other) noexcept
        : memory_(std::exchange(other.memory_, {})), values_(std::exchange(other.values_, {})) {}

    Buffer& operator=(Buffer&& other) noexcept {
        memory_ = std::exchange(other.memory_, {});
        values_ = std::exchange(other.values_, {});
        return *this;
    }

    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() = default;

    [[nodiscard]] T* data() noexcept { return values_.data(); }

    [[nodiscard]] const T* data() const noexcept { return values_.data(); }

    [[nodiscard]] size_t size() const noexcept { return values_.size(); }

    [[nodiscard]] T& operator[](size_t i) noexcept { return values_[i]; }

    [[nodiscard]] const T& operator[](size_t i) const noexcept { return values_[i]; }

    [[nodiscard]] T* begin() noexcept { return data(); }

    [[nodiscard]] T* end() noexcept { return data() + size(); }

    [[nodiscard]] const T* begin() const noexcept { return data(); }

    [[nodiscard]] const T* end() const noexcept { return data() + size(); }

    [[nodiscard]] std::span<T> span() noexcept { return values_; }

    [[nodiscard]] std::span<const T> span() const noexcept { return values_; }

private:
    friend class Client;

    Buffer(std::shared_ptr<std::byte> memory, size_t count) noexcept
        : memory_(std::move(memory)), values_(reinterpret_cast<T*>(memory_.get()), count) {}

    std::shared_ptr<std::byte> memory_;
    std::span<T> values_;
};

/// For one push or pull.
struct PushOptions {
    /// If set, the servers add up all workers' pushes of this iteration and then run the table's
    /// rule once; the push is finished when that has happened. Iterations of a table count from 1:
    /// every worker pushes exactly once in each, one after the other (an empty list is fine). Any
    /// other number than the next one is refused at once.
    std::optional<uint64_t> iteration = std::nullopt;
    /// From now; 0: the client's (WEIR_DEADLINE_MS); less: it is over. A longer one than the
    /// client's is for what waits for other workers' computing; a worker that dies ends the
    /// waiting at once, and so does, with kDeadline, a server that gives no sign of life for the
    /// client's deadline.
    std::chrono::nanoseconds deadline{0};
};

struct PullOptions {
    /// If set, the values after this iteration's rule has run, or later ones; 0: before the first.
    /// An iteration that this worker has not pushed yet is refused at once.
    std::optional<uint64_t> iteration = std::nullopt;
    std::chrono::nanoseconds deadline{0};
};

/// A handle; cheap to copy. Keys are sorted and unique, in any contiguous range of 64-bit integers;
/// KeyBatch makes such keys of others. Keys and values, and what a pull fills, must live and stay as
/// they are until the task has ended. Thread: the client's.
template <Value T>
class Table {
public:
    /// Shape:   values.size() == keys.size() * pushed_width(), row per key
    /// Errors:  through the task, see Task::wait
    Task push(KeySpan keys, std::span<const T> values, const PushOptions& options = {}) {
        return task(access::push(*state_, *info_, keys.span(), std::as_bytes(values),
                                 options.iteration, options.deadline));
    }

    /// All keys of a range of a dense table.
    Task push(KeyRange keys, std::span<const T> values, const PushOptions& options = {}) {
        return task(access::push(*state_, *info_, keys, std::as_bytes(values), options.iteration,
                                 options.deadline));
    }

    /// Shape:   out.size() == keys.size() * width(), row per key; a key never pushed reads as the
    ///          table's initial value
    Task pull(KeySpan keys, std::span<T> out, const PullOptions& options = {}) {
        return task(access::pull(*state_, *info_, keys.span(), std::as_writable_bytes(out),
                                 options.iteration, options.deadline));
    }

    Task pull(KeyRange keys, std::span<T> out, const PullOptions& options = {}) {
        return task(access::pull(*state_, *info_, keys, std::as_writable_bytes(out),
                                 options.iteration, options.deadline));
    }

    [[nodiscard]] const TableSchema& schema() const noexcept { return access::schema(*info_); }

    [[nodiscard]] uint32_t width() const noexcept { return schema().width; }

    /// Values that a push brings per key: width() times what the rule wants for each (prox_l1: 2).
    [[nodiscard]] size_t pushed_width() const noexcept {
        return access::pushed_row_bytes(*info_) / sizeof(T);
    }

private:
    friend class Client;

    Table(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info) noexcept
        : state_(std::move(state)), info_(std::move(info)) {}

    /// Counts one more owner of the state when the call is on its way already.
    Task task(uint64_t call) const noexcept { return Task(state_, call); }

    std::shared_ptr<ClientState> state_;
    std::shared_ptr<const TableInfo> info_;
};

template <Value T>
Result<Table<T>> Client::create_table(std::string_view name, const TableOptions& options) {
    auto info = access::create_table(*state_, name, value_type_of<T>(), options);
    if (!info) return std::move(info).error();
    return Table<T>(state_, std::move(*info));
}

template <Value T>
Result<Table<T>> Client::open_table(std::string_view name, uint32_t width) {
    auto info = access::open_table(*state_, name, value_type_of<T>(), width);
    if (!info) return std::move(info).error();
    return Table<T>(state_, std::move(*info));
}

template <Value T>
Result<Buffer<T>> Client::make_buffer(size_t count) {
    auto memory = access::allocate(state_, count, sizeof(T));
    if (!memory) return std::move(memory).error();
    return Buffer<T>(std::move(*memory), count);
}

}  // namespace weir
