// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A chunk: a file with the rows of one table in one range of positions, and what goes with them.
///
/// Numbers are little-endian. The file:
///   head       magic (8 bytes), version (4), table (4), layout (1), RowLayout: types of values and of
///              pushes (1 each), zero (1), width (4), bytes of state (4), values of a push (4);
///              key_count (8), range (2 x 8)
///   blocks     each: kind (4), zero (4), count (8), first_key (8), and what the kind says:
///     kRange     `count` keys from `first_key` on: their values, then their rule state
///     kList      `count` keys (8 bytes each), then their values, then their rule state
///     kClocks    ClockTimes of a part of the range, as it encodes itself, in `count` bytes
///     kClosed    `count` times: a part of the range (2 x 8), the last iteration closed there (8)
///     kEnd       the last block; `count` rows are in the chunk
///   checksum   XXH3-64 of all that is before it, seeded with that of the file's name (8 bytes)
///
/// In version 1, which is still read, the second type is 0, state is in values for each value, and
/// there is 0 instead of the values of a push.
///
/// The name of a chunk is its identity: a chunk under another name is refused. A chunk is read as a
/// whole: who writes one chooses its range so that it has about kBytesWanted.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position.h"
#include "lib/store/row_layout.h"
#include "lib/store/table_schema.h"
#include "lib/vclock/clock_times.h"

namespace weir::checkpoint {

/// What a chunk is of, and how its rows are laid out.
struct ChunkPlace {
    uint32_t table = 0;
    Layout layout = Layout::kDense;
    RowLayout rows;          ///< without values of a push: the chunk does not say what a push is
    uint64_t key_count = 0;  ///< of a dense table
    PositionRange range;

    friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};

/// Rows of a chunk, either of neighbouring keys or of a list.
struct ChunkRows {
    KeyRange range;                   ///< of a dense table
    std::span<const std::byte> keys;  ///< of a sparse one, 8 bytes each, in any order
    std::span<const std::byte> values;
    std::span<const std::byte> state;

    [[nodiscard]] uint64_t row_count() const noexcept {
        return range.key_count() + keys.size() / sizeof(uint64_t);
    }
};

/// How far the iterations of a table have come at some positions.
struct ClosedUpTo {
    PositionRange range;
    uint64_t iteration = 0;
    friend bool operator==(const ClosedUpTo&, const ClosedUpTo&) = default;
};

struct Chunk {
    static constexpr uint32_t kVersion = 2;
    static constexpr size_t kHeadBytes = 56;
    static constexpr size_t kBlockHeadBytes = 24;
    static constexpr size_t kBytesWanted = size_t{16} << 20;
    static constexpr uint64_t kBytesMax = uint64_t{4} << 30;
    static constexpr uint32_t kStateBytesMax = uint32_t{1} << 30;  ///< of a row

    enum class Block : uint32_t { kEnd = 0, kRange = 1, kList = 2, kClocks = 3, kClosed = 4 };

    ChunkPlace place;
    std::vector<ChunkRows> rows;
    uint64_t row_count = 0;
    std::vector<ClockTimes> clocks;
    std::vector<ClosedUpTo> closed;
    uint64_t checksum = 0;
};

/// Decodes the file of this name. Spans point into `bytes`. Every key is in the range; of a dense
/// table all keys of the range are there, in order. Takes memory in proportion to `bytes`.
/// Errors: kParse, naming the file; kUnavailable: a newer version of Weir has written it
[[nodiscard]] Result<Chunk> decode_chunk(const std::string& name, std::span<const std::byte> bytes);

/// XXH3-64, seeded with that of `name`.
[[nodiscard]] uint64_t checksum_of(std::string_view name, std::span<const std::byte> bytes);

/// The same of bytes that come one after the other.
class RunningChecksum {
public:
    explicit RunningChecksum(std::string_view name);

    void add(std::span<const std::byte> bytes) noexcept;
    [[nodiscard]] uint64_t value() const noexcept;

private:
    struct State;

    struct Free {
        void operator()(State* state) const noexcept;
    };

    std::unique_ptr<State, Free> state_;
};

/// Checks magic and version of a file's first 12 bytes, and the checksum in its last 8; returns the
/// version, which is `version` or one before. `what`: "chunk" or "manifest". Errors: as decode_chunk()
[[nodiscard]] Result<uint32_t> check_file(const std::string& name, std::string_view what,
                                          std::string_view magic, uint32_t version,
                                          std::span<const std::byte> bytes);

}  // namespace weir::checkpoint
