// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HeldBack: what a worker has pushed to a table and did not send yet.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lib/filter/select/combine_rows.h"
#include "lib/filter/select/key_slots.h"
#include "lib/filter/select/selector.h"

namespace weir {

/// The rows of a call, combined with those held, and where these are. Reused, it soon allocates
/// nothing.
struct MergedRows {
    std::vector<std::byte> values;  ///< a row for each key of the call
    std::vector<uint32_t> slots;    ///< of each key: where its row is held, or KeySlots::kNone
    size_t held_count = 0;          ///< keys with a row held
};

/// A row for each key that something is held of. Rows of zeros are not held if pushes are summed:
/// they say nothing.
///
/// A selector calls merge(), decides, and calls settle() with what it decided: until then nothing
/// changes. Both have the keys and the order of one call.
///
/// Thread: that of the client; allocates only when more is held than ever before
class HeldBack {
public:
    /// No more is held than `bytes_max` has room for: the rows and, unless `dense` is given, up to
    /// KeySlots::kBytesPerKey for each. `dense`: all keys of a dense table; an array finds them if
    /// it takes no more than a quarter of `bytes_max`. Of rows that check() refuses nothing may be held:
    /// selectors that hold nothing back are given it all the same.
    HeldBack(const RowKind& rows, size_t bytes_max, std::optional<KeyRange> dense = std::nullopt);

    /// Errors: Errc::kInvalidArgument: the mean of pushes is not that of their sums
    [[nodiscard]] static Status check(const RowKind& rows);

    [[nodiscard]] const RowKind& rows() const noexcept { return rows_; }

    [[nodiscard]] bool empty() const noexcept { return slots_.size() == 0; }

    [[nodiscard]] size_t row_count() const noexcept { return slots_.size(); }

    [[nodiscard]] size_t row_count_max() const noexcept { return row_count_max_; }

    /// Of row_count() rows, counted against the limit.
    [[nodiscard]] size_t bytes() const noexcept {
        return index_bytes_ + row_count() * bytes_of_row_;
    }

    /// What is held of the key; nullptr: nothing. Valid until settle() or take_all().
    [[nodiscard]] const std::byte* find(uint64_t key) const noexcept;

    /// Makes `merged`: of each key what is held and what is pushed, combined.
    /// Shape: values.size() == keys.size() * row_bytes()
    void merge(const CallKeys& keys, std::span<const std::byte> values, MergedRows& merged);

    /// From now on, nothing is held of the keys whose bit in `kept` is set, and of the others their
    /// rows in `rows`. Those for which there is no room get their bit set: they travel.
    /// Shape: `slots` as merge() made them; `rows` has a row for each key; `kept` its bit
    void settle(const CallKeys& keys, std::span<const uint32_t> slots,
                std::span<const std::byte> rows, std::span<std::byte> kept);

    /// Gives all that is held, keys in ascending order and their rows, and holds nothing: for
    /// flush().
    void take_all(std::vector<uint64_t>& keys, std::vector<std::byte>& rows);

    // What a call changes is taken back if nothing of it can be sent. Selectors need none of these.

    /// A call begins: undo() will take back what settle() and take_all() change from now on.
    void begin_call();
    /// All is held again that was at begin_call(), and nothing else.
    void undo();
    /// The call is sent.
    void end_call();

    /// A key of which merge() has made an infinity or a NaN of finite rows, in this call.
    [[nodiscard]] std::optional<uint64_t> overflowed_key() const noexcept { return overflowed_; }

private:
    /// What was held of keys before they changed.
    struct Log {
        bool is_on = false;
        std::vector<uint64_t> keys;
        std::vector<bool> were_held;
        std::vector<std::byte> rows;  ///< of those that were
    };

    static constexpr size_t kChunkBytes = size_t{64} << 10;

    [[nodiscard]] std::byte* row_at(uint32_t slot) const noexcept {
        return chunks_[slot >> chunk_shift_].get() +
               (slot & ((1U << chunk_shift_) - 1)) * row_bytes_;
    }

    void prefetch_row(uint32_t slot) const noexcept {
        if (slot != KeySlots::kNone) __builtin_prefetch(row_at(slot), 1);
    }

    void prefetch_change(uint64_t key, uint32_t slot, bool has_bit) const noexcept;
    [[nodiscard]] bool is_nothing(const std::byte* row) const noexcept;
    void free_rows(const CallKeys& keys, std::span<const uint32_t> slots,
                   std::span<const std::byte> rows, std::span<const std::byte> kept);
    [[nodiscard]] bool hold(uint64_t key, const std::byte* row);
    void copy_row(std::byte* to, const std::byte* from) const noexcept;
    void note_change(uint64_t key, uint32_t slot);
    void clear_log();

    RowKind rows_;
    CombineRow combine_;
    size_t row_bytes_;
    KeySlots slots_;
    // Derived from the limit by the constructor.
    size_t bytes_of_row_ = 0;  ///< with its part of a hash table
    size_t index_bytes_ = 0;   ///< of an array
    size_t row_count_max_ = 0;
    unsigned chunk_shift_ = 0;  ///< rows of a chunk: 1 << this
    std::vector<std::unique_ptr<std::byte[]>> chunks_;
    std::vector<uint32_t> free_;                         ///< slots that are free, below slot_count_
    uint32_t slot_count_ = 0;                            ///< slots that were ever used
    std::vector<std::pair<uint64_t, uint32_t>> sorted_;  ///< of take_all()
    Log log_;
    std::optional<uint64_t> overflowed_;
};

}  // namespace weir
