// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/manifest.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/folder.h"
#include "lib/store/schema_codec.h"

namespace weir::checkpoint {
namespace {

constexpr size_t kHeadBytes = 12;  // magic and version
constexpr size_t kSchemaBytesMax = 1024;
static_assert(Manifest::kVersion == kSchemaForm,
              "a manifest has schemas in the form of its version");

auto place_of(const ChunkEntry& chunk) {
    return std::tie(chunk.table, chunk.range.first);
}

Status check_size(Disk& disk, const std::string& folder, uint64_t number, const ChunkEntry& chunk) {
    const std::string path = path_of(folder, chunk.name);
    const Result<uint64_t> size = disk.size(path);
    if (!size && size.code() == Errc::kNotFound) {
        return Error(Errc::kNotFound,
                     fmt::format("{}: the file of a chunk of checkpoint {} is gone", path, number));
    }
    WEIR_TRY(size);
    if (*size == chunk.size_bytes) return {};
    return Error(Errc::kParse, fmt::format("{}: the chunk has {} bytes instead of {}", path, *size,
                                           chunk.size_bytes));
}

/// What is wrong with the order or the completeness of tables and chunks; empty if nothing is.
std::string fault_of(const Manifest& manifest) {
    if (std::ranges::adjacent_find(manifest.tables, std::ranges::greater_equal{},
                                   &TableSchema::id) != manifest.tables.end())
        return "two tables have one number";
    size_t next = 0;
    for (const TableSchema& table : manifest.tables) {
        bool is_complete = false;
        for (uint64_t position = 0; !is_complete; ++next) {
            const bool follows = next < manifest.chunks.size() &&
                                 manifest.chunks[next].table == table.id &&
                                 manifest.chunks[next].range.first == position &&
                                 manifest.chunks[next].range.last >= position;
            if (!follows) {
                return fmt::format("no chunk of table '{}' begins at position {:#x}", table.name,
                                   position);
            }
            is_complete = manifest.chunks[next].range.last == ~uint64_t{0};
            position = manifest.chunks[next].range.last + 1;
        }
    }
    return next == manifest.chunks.size() ? "" : "a chunk belongs to no table, or is there twice";
}

bool decode_tables(ByteReader& from, uint32_t version, Manifest& manifest) {
    for (auto count = from.number<uint32_t>(); from.ok() && count > 0; --count) {
        const auto id = from.number<uint32_t>();
        std::optional<TableSchema> schema = decode_schema(from.text(kSchemaBytesMax), version);
        if (!schema || (schema->layout == Layout::kDense && schema->key_count == 0)) return false;
        schema->id = id;
        if (const auto closed = from.number<uint64_t>(); closed != 0) manifest.closed[id] = closed;
        manifest.tables.push_back(*std::move(schema));
    }
    return from.ok();
}

bool decode_chunks(ByteReader& from, Manifest& manifest) {
    for (auto count = from.number<uint32_t>(); from.ok() && count > 0; --count) {
        ChunkEntry chunk;
        chunk.table = from.number<uint32_t>();
        chunk.range.first = from.number<uint64_t>();
        chunk.range.last = from.number<uint64_t>();
        chunk.row_count = from.number<uint64_t>();
        chunk.size_bytes = from.number<uint64_t>();
        chunk.checksum = from.number<uint64_t>();
        chunk.name = from.text();
        if (!is_chunk_name(chunk.name) || chunk.size_bytes > Chunk::kBytesMax) return false;
        manifest.chunks.push_back(std::move(chunk));
    }
    return from.ok();
}

}  // namespace

const TableSchema* Manifest::find_table(std::string_view name) const noexcept {
    const auto found = std::ranges::find(tables, name, &TableSchema::name);
    return found == tables.end() ? nullptr : &*found;
}

std::span<const ChunkEntry> Manifest::chunks_of(uint32_t table) const noexcept {
    const auto begin = std::ranges::lower_bound(chunks, table, {}, &ChunkEntry::table);
    return {begin, std::ranges::upper_bound(chunks, table, {}, &ChunkEntry::table)};
}

uint64_t Manifest::bytes() const noexcept {
    uint64_t sum = 0;
    for (const ChunkEntry& chunk : chunks)
        sum += chunk.size_bytes;
    return sum;
}

uint64_t Manifest::new_bytes() const noexcept {
    uint64_t sum = 0;
    for (const ChunkEntry& chunk : chunks)
        sum += writer_of(chunk.name) == number ? chunk.size_bytes : 0;
    return sum;
}

Status order(Manifest& manifest) {
    std::ranges::sort(manifest.tables, {}, &TableSchema::id);
    std::ranges::sort(manifest.chunks,
                      [](const auto& a, const auto& b) { return place_of(a) < place_of(b); });
    const std::string fault = fault_of(manifest);
    if (fault.empty()) return {};
    return Error(Errc::kInvalidArgument,
                 fmt::format("checkpoint {} is not complete: {}", manifest.number, fault));
}

std::vector<std::byte> encode_manifest(const Manifest& manifest) {
    ByteWriter to;
    to.raw(std::as_bytes(std::span("WEIRMANI", 8))).number(Manifest::kVersion);
    to.number(manifest.number).number(manifest.created_ns);
    to.number(manifest.iteration.value_or(0));
    to.number(static_cast<uint8_t>(manifest.iteration.has_value()));
    to.number(static_cast<uint32_t>(manifest.tables.size()));
    for (const TableSchema& table : manifest.tables)
        to.number(table.id).text(encode_schema(table)).number(manifest.closed_of(table.id));
    to.number(static_cast<uint32_t>(manifest.chunks.size()));
    for (const ChunkEntry& chunk : manifest.chunks) {
        to.number(chunk.table).number(chunk.range.first).number(chunk.range.last);
        to.number(chunk.row_count).number(chunk.size_bytes).number(chunk.checksum);
        to.text(chunk.name);
    }
    to.number(checksum_of(manifest_name(manifest.number), to.bytes()));
    return std::move(to).take();
}

uint64_t checksum_of(const Manifest& manifest) {
    return checksum_of(manifest_name(manifest.number), encode_manifest(manifest));
}

Result<Manifest> decode_manifest(const std::string& name, std::span<const std::byte> bytes) {
    WEIR_ASSIGN(const uint32_t version,
                check_file(name, "manifest", "WEIRMANI", Manifest::kVersion, bytes));
    ByteReader from(bytes.subspan(kHeadBytes, bytes.size() - kHeadBytes - sizeof(uint64_t)));
    Manifest manifest;
    manifest.number = from.number<uint64_t>();
    manifest.created_ns = from.number<uint64_t>();
    const auto iteration = from.number<uint64_t>();
    const auto has_iteration = from.number<uint8_t>();
    if (has_iteration == 1) manifest.iteration = iteration;
    const bool is_whole = has_iteration <= 1 && (has_iteration == 1 || iteration == 0) &&
                          decode_tables(from, version, manifest) && decode_chunks(from, manifest) &&
                          from.done();
    std::string fault = is_whole ? fault_of(manifest) : "a field is wrong";
    if (fault.empty() && manifest_name(manifest.number) != name) fault = "it has another number";
    if (fault.empty()) return manifest;
    return Error(Errc::kParse, fmt::format("{}: the manifest is malformed: {}; use another "
                                           "checkpoint",
                                           name, fault));
}

Status check_chunks(Disk& disk, const std::string& folder, const Manifest& manifest) {
    for (const ChunkEntry& chunk : manifest.chunks)
        WEIR_TRY(check_size(disk, folder, manifest.number, chunk));
    return {};
}

Status write_manifest(Disk& disk, const std::string& folder, const Manifest& manifest) {
    WEIR_CHECK(fault_of(manifest).empty());  // order() has seen to that
    const std::string name = manifest_name(manifest.number);
    const std::string part = name + std::string(kPartSuffix);
    WEIR_TRY(write_file(disk, folder, part, encode_manifest(manifest)));
    // The names of the chunks must be there before that of the manifest.
    WEIR_TRY(disk.sync_folder(folder));
    WEIR_TRY(disk.rename(path_of(folder, part), path_of(folder, name)));
    return disk.sync_folder(folder);
}

Result<Manifest> read_manifest(Disk& disk, const std::string& folder, uint64_t number) {
    const std::string name = manifest_name(number);
    WEIR_ASSIGN(const std::vector<std::byte> bytes,
                disk.read(path_of(folder, name), Manifest::kBytesMax));
    Result<Manifest> manifest = decode_manifest(name, bytes);
    if (manifest) return manifest;
    // Its text begins with the name.
    return Error(manifest.error().code(), path_of(folder, manifest.error().text()));
}

}  // namespace weir::checkpoint
