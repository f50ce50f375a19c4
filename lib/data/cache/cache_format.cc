// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/cache_format.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/base/kernel.h"

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxhash reads it
#include <xxhash.h>

namespace weir::data {
namespace {

constexpr size_t kSourceBytesMax = size_t{256} << 20;  // a line per file
constexpr uint64_t kRowCountMax = 0xffffffff;
constexpr uint64_t kHeaderSeed = 0x77656972;

template <class T>
std::span<const std::byte> bytes_of_list(const std::vector<T>& list) {
    return std::as_bytes(std::span(list));
}

uint64_t aligned(uint64_t place) {
    return (place + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
}

std::vector<std::byte> encode_front(const CacheIndex& index) {
    ByteWriter writer;
    const ReadReport& report = index.report;
    writer.text(index.source).text(report.first_bad_line);
    writer.numbers(report.text_bytes, report.example_count, report.nonzero_count,
                   report.bad_line_count);
    const std::vector<uint64_t> census = report.labels.encode();
    writer.number(static_cast<uint32_t>(census.size())).raw(bytes_of_list(census));
    writer.number(static_cast<uint8_t>(index.has_values ? 1 : 0));
    writer.numbers(uint64_t{index.labels.size()}, uint64_t{index.keys.size()},
                   uint64_t{index.blocks.size()});
    writer.numbers(cache_checksum(bytes_of_list(index.keys)),
                   cache_checksum(bytes_of_list(index.counts)),
                   cache_checksum(bytes_of_list(index.labels)));
    for (const BlockPlace& block : index.blocks)
        writer.numbers(block.shape.column_count, block.shape.nonzero_count, block.checksum);
    return std::move(writer).take();
}

/// What the front says about what follows it.
struct Front {
    CacheIndex index;
    uint64_t row_count = 0;
    uint64_t column_count = 0;
    uint64_t keys_checksum = 0;
    uint64_t counts_checksum = 0;
    uint64_t labels_checksum = 0;
};

/// Sizes are checked against that of the file, so that no list can be larger than it.
std::optional<Front> decode_front(std::span<const std::byte> bytes, uint64_t file_bytes) {
    ByteReader reader(bytes);
    Front front;
    CacheIndex& index = front.index;
    ReadReport& report = index.report;
    index.source = reader.text(kSourceBytesMax);
    report.first_bad_line = reader.text(kSourceBytesMax);
    report.text_bytes = reader.number<uint64_t>();
    report.example_count = reader.number<uint64_t>();
    report.nonzero_count = reader.number<uint64_t>();
    report.bad_line_count = reader.number<uint64_t>();
    const auto census = reader.raw(8 * size_t{reader.number<uint32_t>()});
    std::vector<uint64_t> words(census.size() / 8);
    if (!words.empty()) std::memcpy(words.data(), census.data(), census.size());
    report.labels.add_encoded(words);
    if (!reader.flag(index.has_values)) return std::nullopt;
    front.row_count = reader.number<uint64_t>();
    front.column_count = reader.number<uint64_t>();
    const auto group_count = reader.number<uint64_t>();
    front.keys_checksum = reader.number<uint64_t>();
    front.counts_checksum = reader.number<uint64_t>();
    front.labels_checksum = reader.number<uint64_t>();
    const uint64_t cells_max = file_bytes / 4;
    if (!reader.ok() || front.row_count > std::min(kRowCountMax, file_bytes) ||
        front.column_count > file_bytes / 12 || group_count > bytes.size() / 24)
        return std::nullopt;
    index.blocks.resize(group_count);
    index.group_begin.assign(1, 0);
    uint64_t nonzero_count = 0;
    for (BlockPlace& block : index.blocks) {
        block.shape.column_count = reader.number<uint64_t>();
        block.shape.nonzero_count = reader.number<uint64_t>();
        block.shape.has_values = index.has_values;
        block.checksum = reader.number<uint64_t>();
        if (block.shape.column_count > front.column_count - index.group_begin.back() ||
            block.shape.nonzero_count > cells_max - nonzero_count)
            return std::nullopt;
        nonzero_count += block.shape.nonzero_count;
        index.group_begin.push_back(index.group_begin.back() + block.shape.column_count);
    }
    if (!reader.done() || index.group_begin.back() != front.column_count ||
        nonzero_count != report.nonzero_count || front.row_count != report.example_count)
        return std::nullopt;
    return front;
}

/// Where the blocks begin, with a front of so many bytes.
uint64_t blocks_begin(uint64_t front_bytes, uint64_t column_count, uint64_t row_count) {
    return sizeof(CacheHeader) + front_bytes + 12 * column_count + row_count;
}

uint64_t lay_out_blocks(std::vector<BlockPlace>& blocks, uint64_t begin) {
    uint64_t place = begin;
    for (BlockPlace& block : blocks) {
        block.place = aligned(place);
        place = block.place + block.shape.bytes();
    }
    return place;
}

bool keys_are_good(const CacheIndex& index) {
    for (size_t g = 0; g < index.blocks.size(); ++g) {
        for (uint64_t c = index.group_begin[g] + 1; c < index.group_begin[g + 1]; ++c)
            if (index.keys[c - 1] >= index.keys[c]) return false;
    }
    return true;
}

bool labels_are_good(const std::vector<int8_t>& labels) {
    return std::ranges::all_of(labels, [](int8_t label) { return label == 1 || label == -1; });
}

/// No early exit, so that the loops vectorise.
WEIR_KERNEL uint32_t greatest_of(const uint32_t* rows, size_t count) noexcept {
    uint32_t greatest = 0;
    for (size_t i = 0; i < count; ++i)
        greatest = std::max(greatest, rows[i]);
    return greatest;
}

bool rises(std::span<const uint64_t> places) noexcept {
    uint64_t falls = 0;
    for (size_t i = 1; i < places.size(); ++i)
        falls |= static_cast<uint64_t>(places[i] < places[i - 1]);
    return falls == 0;
}

Result<CacheHeader> read_header(const CacheFile& file) {
    WEIR_ASSIGN(const uint64_t file_bytes, file.size());
    CacheHeader header = {};
    if (file_bytes < sizeof(header)) return damaged_cache(file, "it is too short");
    WEIR_TRY(file.read(0, std::as_writable_bytes(std::span(&header, 1))));
    if (std::string_view(header.magic, sizeof(header.magic)) != kCacheMagic) {
        return Error(Errc::kParse,
                     fmt::format("{}: is no cache of Weir; move it away, or give another folder "
                                 "with {}",
                                 file.path(), file.names().cache));
    }
    if (header.version != kCacheVersion) {
        return Error(
            Errc::kParse,
            fmt::format("{}: was made by another version of Weir (format {}, this one has {}); "
                        "remove it, and it is made again, or give another folder with {}",
                        file.path(), header.version, kCacheVersion, file.names().cache));
    }
    if (header.checksum != header_checksum(header)) return damaged_cache(file, "its header");
    if (header.file_bytes != file_bytes)
        return damaged_cache(
            file, fmt::format("it has {} bytes instead of {}", file_bytes, header.file_bytes));
    if (header.front_bytes > file_bytes - sizeof(header)) return damaged_cache(file, "its header");
    return header;
}

}  // namespace

uint64_t CacheIndex::memory_bytes() const noexcept {
    return 8 * keys.size() + labels.size() + 8 * group_begin.size() +
           sizeof(BlockPlace) * blocks.size() + source.size();
}

uint64_t CacheIndex::largest_block_bytes() const noexcept {
    uint64_t most = 0;
    for (const BlockPlace& block : blocks)
        most = std::max(most, block.shape.bytes());
    return most;
}

uint64_t cache_checksum(std::span<const std::byte> bytes, uint64_t seed) noexcept {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

uint64_t header_checksum(const CacheHeader& header) noexcept {
    return cache_checksum(
        std::as_bytes(std::span(&header, 1)).first(offsetof(CacheHeader, checksum)), kHeaderSeed);
}

uint64_t place_blocks(CacheIndex& index) {
    return lay_out_blocks(index.blocks, blocks_begin(encode_front(index).size(), index.keys.size(),
                                                     index.labels.size()));
}

Status write_index(CacheFile& file, const CacheIndex& index, uint64_t file_bytes) {
    const std::vector<std::byte> front = encode_front(index);
    if (index.source.size() > kSourceBytesMax || front.size() > 0xffffffff)
        return Error(Errc::kOutOfRange, file.path() + ": too many files for one cache");
    CacheHeader header = {};
    std::ranges::copy(kCacheMagic, header.magic);
    header.version = kCacheVersion;
    header.front_bytes = static_cast<uint32_t>(front.size());
    header.file_bytes = file_bytes;
    header.front_checksum = cache_checksum(front);
    header.checksum = header_checksum(header);
    const auto header_bytes = std::as_bytes(std::span(&header, 1));
    uint64_t place = 0;
    for (const auto& bytes :
         {header_bytes, std::span<const std::byte>(front), bytes_of_list(index.keys),
          bytes_of_list(index.counts), bytes_of_list(index.labels)}) {
        WEIR_TRY(file.write(place, bytes));
        place += bytes.size();
    }
    return {};
}

Result<CacheIndex> read_index(const CacheFile& file) {
    WEIR_ASSIGN(const CacheHeader header, read_header(file));
    std::vector<std::byte> bytes(header.front_bytes);
    WEIR_TRY(file.read(sizeof(header), bytes));
    if (cache_checksum(bytes) != header.front_checksum)
        return damaged_cache(file, "the list of its blocks");
    std::optional<Front> front = decode_front(bytes, header.file_bytes);
    if (!front) return damaged_cache(file, "the list of its blocks");
    CacheIndex index = std::move(front->index);
    const uint64_t end = blocks_begin(bytes.size(), front->column_count, front->row_count);
    if (end > header.file_bytes || lay_out_blocks(index.blocks, end) != header.file_bytes)
        return damaged_cache(file, "the sizes of its blocks");
    index.keys.resize(front->column_count);
    index.counts.resize(front->column_count);
    index.labels.resize(front->row_count);
    const uint64_t keys_place = sizeof(header) + bytes.size();
    WEIR_TRY(file.read(keys_place, std::as_writable_bytes(std::span(index.keys))));
    WEIR_TRY(file.read(keys_place + 8 * front->column_count,
                       std::as_writable_bytes(std::span(index.counts))));
    WEIR_TRY(file.read(keys_place + 12 * front->column_count,
                       std::as_writable_bytes(std::span(index.labels))));
    if (cache_checksum(bytes_of_list(index.keys)) != front->keys_checksum || !keys_are_good(index))
        return damaged_cache(file, "the features");
    if (cache_checksum(bytes_of_list(index.counts)) != front->counts_checksum)
        return damaged_cache(file, "the counts of the features");
    if (cache_checksum(bytes_of_list(index.labels)) != front->labels_checksum ||
        !labels_are_good(index.labels))
        return damaged_cache(file, "the labels");
    return index;
}

std::optional<std::string_view> block_damage(std::span<const std::byte> bytes,
                                             const BlockPlace& block, uint64_t group,
                                             uint64_t row_count) {
    const BlockShape& shape = block.shape;
    WEIR_CHECK(bytes.size() == shape.bytes());
    if (cache_checksum(bytes, group) != block.checksum) return "its checksum is wrong";
    const std::span<const uint64_t> places(reinterpret_cast<const uint64_t*>(bytes.data()),
                                           shape.column_count + 1);
    if (places.front() != 0 || places.back() != shape.nonzero_count || !rises(places))
        return "its columns overlap";
    const auto* const rows = reinterpret_cast<const uint32_t*>(bytes.data() + shape.rows_begin());
    if (shape.nonzero_count > 0 && greatest_of(rows, shape.nonzero_count) >= row_count)
        return "it has rows that do not exist";
    return std::nullopt;
}

Status check_memory(const CacheIndex& index, uint64_t memory_bytes, const CacheNames& names) {
    const uint64_t largest = index.largest_block_bytes();
    const uint64_t least = index.memory_bytes() + 2 * largest;
    if (least <= memory_bytes) return {};
    return Error(Errc::kNoMemory,
                 fmt::format("{} is too small: {} bytes are needed at least, {} for features and "
                             "labels and twice {} for the largest block; give more{}",
                             names.memory, least, index.memory_bytes(), largest,
                             2 * largest > index.memory_bytes() ? ", or more blocks" : ""));
}

Error damaged_cache(const CacheFile& file, std::string_view what) {
    return {Errc::kParse,
            fmt::format("{}: is damaged ({}); remove it, and it is made again", file.path(), what)};
}

}  // namespace weir::data
