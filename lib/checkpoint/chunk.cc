// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/chunk.h"

#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxhash reads it
#include <xxhash.h>

namespace weir::checkpoint {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kChecksumBytes = sizeof(uint64_t);

bool is_within(PositionRange inner, PositionRange outer) noexcept {
    return inner.first <= inner.last && outer.first <= inner.first && inner.last <= outer.last;
}

/// Reads the blocks of a chunk. Each function returns what is wrong, or nothing.
class Blocks {
public:
    Blocks(Chunk& chunk, Bytes bytes) noexcept : chunk_(chunk), rest_(bytes) {
        if (chunk.place.layout != Layout::kDense) return;
        const PositionMap map = PositionMap::dense(chunk.place.key_count);
        expected_ = {map.first_key_at(chunk.place.range.first),
                     map.end_key_at(chunk.place.range.last)};
    }

    [[nodiscard]] std::string_view read() {
        for (;;) {
            if (rest_.size() < Chunk::kBlockHeadBytes) return "it ends within a block";
            ByteReader head(take(Chunk::kBlockHeadBytes));
            const auto kind = head.number<Chunk::Block>();
            if (head.number<uint32_t>() != 0) return "a block's head is wrong";
            count_ = head.number<uint64_t>();
            first_key_ = head.number<uint64_t>();
            if (kind == Chunk::Block::kEnd) return end();
            if (const std::string_view wrong = block(kind); !wrong.empty()) return wrong;
        }
    }

private:
    [[nodiscard]] Bytes take(size_t size) noexcept {
        const Bytes taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    /// Whether `count_` items of so many bytes are there.
    [[nodiscard]] bool has(size_t item_bytes) const noexcept {
        return count_ <= rest_.size() / item_bytes;
    }

    [[nodiscard]] std::string_view block(Chunk::Block kind) {
        if (kind == Chunk::Block::kRange) return range();
        if (first_key_ != 0) return "a block's head is wrong";
        switch (kind) {
            case Chunk::Block::kList: return list();
            case Chunk::Block::kClocks: return clocks();
            case Chunk::Block::kClosed: return closed();
            default: return "it has a block of an unknown kind";
        }
    }

    void add(ChunkRows rows) {
        rows.values = take(count_ * chunk_.place.rows.value_bytes());
        rows.state = take(count_ * chunk_.place.rows.state_bytes);
        chunk_.row_count += count_;
        chunk_.rows.push_back(rows);
    }

    [[nodiscard]] std::string_view range() {
        const ChunkPlace& place = chunk_.place;
        if (place.layout != Layout::kDense) return "a sparse table has a range of keys";
        if (!has(place.rows.row_bytes())) return "rows are missing";
        if (first_key_ != expected_.begin || count_ > expected_.key_count() || count_ == 0)
            return "its keys are not those of its range";
        expected_.begin += count_;
        add({.range = {first_key_, first_key_ + count_}, .keys = {}, .values = {}, .state = {}});
        return {};
    }

    [[nodiscard]] std::string_view list() {
        const ChunkPlace& place = chunk_.place;
        if (place.layout != Layout::kSparse) return "a dense table has a list of keys";
        if (count_ == 0 || !has(sizeof(uint64_t) + place.rows.row_bytes()))
            return "rows are missing";
        const Bytes keys = take(count_ * sizeof(uint64_t));
        for (size_t i = 0; i < keys.size(); i += sizeof(uint64_t)) {
            uint64_t key = 0;
            std::memcpy(&key, keys.data() + i, sizeof(key));
            if (!place.range.contains(PositionMap::sparse().position(key)))
                return "it has a key outside of its range";
        }
        add({.range = {}, .keys = keys, .values = {}, .state = {}});
        return {};
    }

    [[nodiscard]] std::string_view clocks() {
        if (!has(1)) return "it ends within its times";
        ByteReader reader(take(count_));
        std::optional<ClockTimes> times = ClockTimes::decode(reader);
        if (!times || !reader.done() || !is_within(times->range, chunk_.place.range))
            return "its times are malformed";
        chunk_.clocks.push_back(*std::move(times));
        return {};
    }

    [[nodiscard]] std::string_view closed() {
        constexpr size_t kItemBytes = 3 * sizeof(uint64_t);
        if (!has(kItemBytes)) return "it ends within its iterations";
        ByteReader reader(take(count_ * kItemBytes));
        for (uint64_t i = 0; i < count_; ++i) {
            ClosedUpTo one;
            one.range.first = reader.number<uint64_t>();
            one.range.last = reader.number<uint64_t>();
            one.iteration = reader.number<uint64_t>();
            if (!is_within(one.range, chunk_.place.range)) return "its iterations are malformed";
            chunk_.closed.push_back(one);
        }
        return {};
    }

    [[nodiscard]] std::string_view end() const {
        if (first_key_ != 0 || !rest_.empty()) return "something follows its end";
        if (count_ != chunk_.row_count || expected_.key_count() != 0) return "rows are missing";
        return {};
    }

    Chunk& chunk_;
    Bytes rest_;
    KeyRange expected_;  // of a dense table: keys that must follow
    uint64_t count_ = 0;
    uint64_t first_key_ = 0;
};

/// Reads what follows magic and version in the head. Whether it can be.
bool decode_place(ByteReader& from, uint32_t version, ChunkPlace& place) {
    RowLayout& rows = place.rows;
    place.table = from.number<uint32_t>();
    place.layout = from.number<Layout>();
    rows.value_type = from.number<ValueType>();
    rows.pushed_type = from.number<ValueType>();
    const bool is_zero = from.number<uint8_t>() == 0;
    rows.width = from.number<uint32_t>();
    rows.state_bytes = from.number<uint32_t>();
    rows.pushed_values = from.number<uint32_t>();
    bool is_sound = is_zero && is_valid(rows.value_type) && is_valid(rows.pushed_type) &&
                    rows.width > 0 && rows.width <= TableSchema::kWidthMax;
    if (version == 1) {
        constexpr uint32_t kStateValuesMax = 64;
        is_sound = is_sound && rows.pushed_type == ValueType{} && rows.pushed_values == 0 &&
                   rows.state_bytes <= kStateValuesMax;
        if (!is_sound) return false;
        rows.pushed_type = rows.value_type;
        rows.state_bytes *= static_cast<uint32_t>(rows.value_bytes());
    } else {
        is_sound = is_sound && rows.pushed_values > 0 &&
                   rows.state_bytes <= Chunk::kStateBytesMax &&
                   rows.state_bytes % size_of(rows.pushed_type) == 0;
    }
    place.key_count = from.number<uint64_t>();
    place.range.first = from.number<uint64_t>();
    place.range.last = from.number<uint64_t>();
    const bool is_dense = place.layout == Layout::kDense;
    return from.ok() && is_sound && (is_dense || place.layout == Layout::kSparse) &&
           is_dense == (place.key_count > 0) && place.range.first <= place.range.last;
}

uint64_t seed_of(std::string_view name) noexcept {
    return XXH3_64bits(name.data(), name.size());
}

}  // namespace

uint64_t checksum_of(std::string_view name, Bytes bytes) {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed_of(name));
}

struct RunningChecksum::State {
    XXH3_state_t state;
};

void RunningChecksum::Free::operator()(State* state) const noexcept {
    delete state;
}

RunningChecksum::RunningChecksum(std::string_view name) : state_(new State) {
    XXH3_INITSTATE(&state_->state);
    XXH3_64bits_reset_withSeed(&state_->state, seed_of(name));
}

void RunningChecksum::add(Bytes bytes) noexcept {
    XXH3_64bits_update(&state_->state, bytes.data(), bytes.size());
}

uint64_t RunningChecksum::value() const noexcept {
    return XXH3_64bits_digest(&state_->state);
}

Result<uint32_t> check_file(const std::string& name, std::string_view what, std::string_view magic,
                            uint32_t version, Bytes bytes) {
    const size_t least = magic.size() + sizeof(version) + kChecksumBytes;
    if (bytes.size() < least || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
        return Error(Errc::kParse,
                     fmt::format("{}: this is not a {} of a checkpoint, or its beginning is "
                                 "damaged; use another checkpoint",
                                 name, what));
    }
    uint32_t written = 0;
    std::memcpy(&written, bytes.data() + magic.size(), sizeof(written));
    if (written == 0 || written > version) {
        return Error(Errc::kUnavailable,
                     fmt::format("{}: the {} has version {} of its format, and this program reads "
                                 "versions 1 to {}; use the version of Weir that wrote it",
                                 name, what, written, version));
    }
    uint64_t checksum = 0;
    const size_t size = bytes.size() - kChecksumBytes;
    std::memcpy(&checksum, bytes.data() + size, kChecksumBytes);
    if (checksum != checksum_of(name, bytes.first(size))) {
        return Error(
            Errc::kParse,
            fmt::format("{}: the {} is damaged: the checksum of its {} bytes is wrong; use "
                        "another checkpoint",
                        name, what, bytes.size()));
    }
    return written;
}

Result<Chunk> decode_chunk(const std::string& name, Bytes bytes) {
    WEIR_ASSIGN(const uint32_t version,
                check_file(name, "chunk", "WEIRCHNK", Chunk::kVersion, bytes));
    const auto malformed = [&](std::string_view why) {
        return Error(
            Errc::kParse,
            fmt::format("{}: the chunk is malformed: {}; use another checkpoint", name, why));
    };
    Chunk chunk;
    const Bytes content = bytes.first(bytes.size() - kChecksumBytes);
    if (content.size() < Chunk::kHeadBytes) return malformed("its head is too short");
    ByteReader head(content.subspan(12, Chunk::kHeadBytes - 12));
    if (!decode_place(head, version, chunk.place)) return malformed("its head is wrong");
    std::memcpy(&chunk.checksum, bytes.data() + content.size(), kChecksumBytes);
    Blocks blocks(chunk, content.subspan(Chunk::kHeadBytes));
    if (const std::string_view wrong = blocks.read(); !wrong.empty()) return malformed(wrong);
    return chunk;
}

}  // namespace weir::checkpoint
