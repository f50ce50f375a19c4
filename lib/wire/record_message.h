// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bodies of kFollow and of records: how the rows of a segment, and the times of its workers,
/// go from the shard that is its primary to one that learns it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/byte_codec.h"
#include "lib/base/result.h"
#include "lib/key/key_list.h"
#include "lib/key/key_range.h"
#include "lib/key/position.h"
#include "lib/vclock/clock_times.h"
#include "lib/wire/frame.h"

namespace weir {

/// Kind::kFollow, with which a primary begins a stream. The number of its shard is in the header's
/// `first`.
struct FollowMessage {
    uint64_t epoch = 0;   ///< of its view
    uint64_t number = 0;  ///< of this connection among those of the two shards: the highest counts
    /// Of the stream among those of this primary, from 1 on, if it goes on when its connection has
    /// broken; 0: it begins anew with every connection.
    uint64_t stream = 0;
    /// The index behind which it goes on: that of the last record that was confirmed.
    uint64_t behind = 0;
    uint64_t pass = 0;  ///< of the primary: PassesMessage
    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<FollowMessage> decode(std::span<const std::byte> body);
};

/// A segment that a learner is to get.
struct LearnedSegment {
    PositionRange range;
    uint64_t named = 0;  ///< the epoch that named the learner
    friend bool operator==(const LearnedSegment&, const LearnedSegment&) = default;
};

/// What a push sets in a range clock.
struct RecordedTime {
    uint32_t worker = 0;
    PositionRange range;
    uint64_t time = 0;
    friend bool operator==(const RecordedTime&, const RecordedTime&) = default;
};

/// How far the iterations of a table have come in a range.
struct RecordedIterations {
    struct Failed {
        uint64_t iteration = 0;
        Errc status = Errc::kOk;
        uint32_t worker = 0;
        uint32_t other = 0;
        friend bool operator==(const Failed&, const Failed&) = default;
    };

    PositionRange range;
    uint64_t last_closed = 0;
    std::vector<Failed> failed;
    friend bool operator==(const RecordedIterations&, const RecordedIterations&) = default;
};

/// One record of a stream. It is sent as the bodies of one or more frames of Kind::kRecord, with
/// its index in `first`, and in `request` the bytes of it that are still to come.
///
/// A record has a head of 48 bytes, the keys of a list, the values, the state, and a tail. The
/// head: kind (1 byte), flags (1; 1: a tail follows, 2: the keys are a range, 4: the next record is
/// a part of the same change, 8: it is shared, 16: its list is known, so that it has no keys, 32: its
/// rows are lent), zero (2), table (4), row_count, first_key or list, bytes of values, bytes of state,
/// common (8 each). The tail has the lists of segments, times, clocks and iterations, each with its
/// length (4) in front. In the place of rows that are lent (keys, values and state, one behind the
/// other) is a wire::MemoryHandle of the sender's memory.
struct RecordMessage {
    /// Rows are cut by rows_from() into records that are much shorter, but for a single row that is
    /// longer.
    static constexpr size_t kBytesMax = 8 * wire::kRequestBytesMax;
    static constexpr size_t kCutBytes = size_t{4} << 20;
    static constexpr size_t kHeadBytes = 48;
    static constexpr size_t kRowBytesMax = kBytesMax - (size_t{1} << 20);  ///< and its times
    static constexpr size_t kSegmentsMax = size_t{1} << 16;
    static constexpr size_t kFailedMax = 1024;
    static constexpr uint64_t kRowsMax = wire::kRequestKeysMax * 16;

    enum class Kind : uint8_t {
        kBegin = 1,  ///< of `segments` the learner drops what it has: all of them follows
        kRows = 2,   ///< rows of one table, and times
        kEnd = 3,    ///< all of `segments` is there
        /// The sender is the new primary of `segments`, of which the copy has what the sender has:
        /// it goes on from there.
        kTakeOver = 4,
        kForgetLists = 5,  ///< no list is known any more; it says nothing else
    };
    Kind kind = Kind::kRows;
    /// The next record is a part of the same change: a copy takes effect of both or of neither.
    bool has_more = false;
    /// Other copies may lack it when the sender dies: the copy remembers which rows it has changed.
    bool is_shared = false;
    bool is_range = false;
    bool is_known = false;  ///< its keys are those that came last with the number `list`
    uint32_t table = 0;
    uint64_t row_count = 0;
    uint64_t first_key = 0;  ///< of a range
    /// Of a list, if the copy is to know it by this number from now on, or knows it. Its keys are
    /// ascending then. If it is cut, its parts have the next numbers.
    uint64_t list = 0;
    uint64_t common = 0;              ///< is_shared: all copies have the records up to this index
    std::span<const std::byte> keys;  ///< of a list, in any order, 8 bytes each
    std::span<const std::byte> values;
    std::span<const std::byte> state;
    std::vector<LearnedSegment> segments;
    std::vector<RecordedTime> times;
    std::vector<ClockTimes> clocks;
    std::vector<RecordedIterations> iterations;

    /// Says nothing any more; its lists keep their memory.
    void clear() noexcept;

    /// Whether it says more than rows.
    [[nodiscard]] bool has_tail() const noexcept {
        return !segments.empty() || !times.empty() || !clocks.empty() || !iterations.empty();
    }

    [[nodiscard]] KeyRange range() const noexcept { return {first_key, first_key + row_count}; }

    /// How many rows make up about kCutBytes, at least one.
    [[nodiscard]] uint64_t rows_to_cut() const noexcept;

    /// How many parts that makes.
    [[nodiscard]] uint64_t part_count() const noexcept {
        const uint64_t step = rows_to_cut();
        return (row_count + step - 1) / step;
    }

    /// `count` of its rows, from one of them on, without its tail.
    [[nodiscard]] RecordMessage rows_from(uint64_t row, uint64_t count) const;

    [[nodiscard]] std::array<std::byte, kHeadBytes> encode_head() const noexcept;
    /// `memory`: for the result.
    [[nodiscard]] std::vector<std::byte> encode(std::vector<std::byte> memory = {}) const;
    /// The spans point into `bytes`, which a peer may still change: read what they hold once.
    /// Nothing, if the bytes are not what encode() writes. Takes memory in proportion to them.
    /// `lent`: its rows, if it has lent_at().
    [[nodiscard]] static std::optional<RecordMessage> decode(std::span<const std::byte> bytes,
                                                             std::span<const std::byte> lent = {});
    /// The same of one that is there; its lists keep their memory. False: it says nothing of use.
    [[nodiscard]] bool become(std::span<const std::byte> bytes,
                              std::span<const std::byte> lent = {});

    // A receiver that maps the sender's memory can take rows from there, without a copy on the way. The
    // sender leaves them as they are until the record is applied.

    /// Of its rows.
    [[nodiscard]] size_t rows_bytes() const noexcept {
        return keys.size() + values.size() + state.size();
    }

    /// What it is to take its rows, as bytes that are copied.
    [[nodiscard]] size_t work_bytes() const noexcept {
        return rows_bytes() + keys.size() / sizeof(uint64_t) * kFoundKeyBytes;
    }

    /// Copies its rows to where they can be lent from, of rows_bytes(), and encodes the rest.
    /// set_lent_at() is due before that is sent.
    [[nodiscard]] std::vector<std::byte> encode_lent(std::span<std::byte> rows,
                                                     std::vector<std::byte> memory = {}) const;
    static void set_lent_at(std::span<std::byte> bytes, const wire::MemoryHandle& at) noexcept;
    /// Where its rows are, if they are lent.
    [[nodiscard]] static std::optional<wire::MemoryHandle> lent_at(
        std::span<const std::byte> bytes) noexcept;

private:
    void encode_tail(ByteWriter& writer) const;
    [[nodiscard]] bool decode_tail(std::span<const std::byte> bytes);
};

}  // namespace weir
