// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/checkpoint/checkpoint_export.h"

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "lib/base/byte_codec.h"
#include "lib/checkpoint/range_reader.h"
#include "lib/data/output_file.h"
#include "lib/key/narrow_values.h"

namespace weir::tools {
namespace {

using checkpoint::ChunkRows;
using checkpoint::Manifest;
using data::OutputFile;

/// An array of a dense table: its values or its state.
struct Array {
    const TableSchema* table = nullptr;
    std::string name;
    RowLayout rows;
    bool is_state = false;  ///< else these are the values
    ValueType type =
        ValueType::kFloat32;  ///< of its numbers; other than the table's: they are widened

    [[nodiscard]] bool is_widened() const { return !is_state && type != table->value_type; }

    /// How often the state repeats a row of values; 0: it is another thing, and exported as bytes.
    [[nodiscard]] uint64_t state_rows() const {
        const size_t row_bytes = table->width * size_of(type);
        return rows.state_bytes % row_bytes == 0 ? rows.state_bytes / row_bytes : 0;
    }

    [[nodiscard]] bool is_bytes() const { return is_state && state_rows() == 0; }

    [[nodiscard]] std::vector<uint64_t> shape() const {
        std::vector<uint64_t> shape = {table->key_count};
        if (is_bytes()) {
            shape.push_back(rows.state_bytes);
            return shape;
        }
        if (is_state && state_rows() > 1) shape.push_back(state_rows());
        if (table->width > 1) shape.push_back(table->width);
        return shape;
    }

    [[nodiscard]] uint64_t bytes() const {
        uint64_t bytes = is_bytes() ? 1 : size_of(type);
        for (const uint64_t extent : shape())
            bytes *= extent;
        return bytes;
    }
};

/// Reads the chunks of a table, and calls use(rows) for the rows of each block, which returns a
/// Status. Rows of a dense table come in the order of keys.
template <class Use>
Status for_rows(checkpoint::Disk& disk, const std::string& folder, const Manifest& manifest,
                const TableSchema& table, Use&& use) {
    std::vector<std::byte> bytes;
    for (const checkpoint::ChunkEntry& entry : manifest.chunks_of(table.id)) {
        WEIR_ASSIGN(const checkpoint::Chunk chunk,
                    checkpoint::read_chunk(disk, folder, entry, table, bytes));
        for (const ChunkRows& rows : chunk.rows)
            WEIR_TRY(use(rows));
    }
    return {};
}

std::span<const char> as_chars(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Narrow values as floats.
std::span<const std::byte> widened(ValueType type, std::span<const std::byte> values,
                                   std::vector<float>& to) {
    to.resize(values.size() / size_of(type));
    widen(type, values, to.data());
    return std::as_bytes(std::span(to));
}

// Text.

template <class T>
void append_row(fmt::memory_buffer& to, uint64_t key, const std::byte* row, uint32_t width) {
    bool has_begun = false;
    for (uint32_t i = 0; i < width; ++i) {
        T value;
        std::memcpy(&value, row + i * sizeof(T), sizeof(T));
        if (value == T{}) continue;
        if (!std::exchange(has_begun, true)) fmt::format_to(std::back_inserter(to), "{}", key);
        if (width == 1) {
            fmt::format_to(std::back_inserter(to), " {}", value);
        } else {
            fmt::format_to(std::back_inserter(to), " {}:{}", i, value);
        }
    }
    if (has_begun) to.push_back('\n');
}

Status write_text(checkpoint::Disk& disk, const Manifest& manifest, const TableSchema& table,
                  const std::string& folder, OutputFile& out) {
    const ValueType type = computed_type(table.value_type);
    const size_t row_bytes = table.width * size_of(type);
    std::vector<float> floats;
    fmt::memory_buffer text;
    return for_rows(disk, folder, manifest, table, [&](const ChunkRows& rows) -> Status {
        text.clear();
        const std::span<const std::byte> values =
            type == table.value_type ? rows.values : widened(table.value_type, rows.values, floats);
        with_value_type(type, [&]<class T>() {
            for (uint64_t i = 0; i < rows.row_count(); ++i) {
                uint64_t key = rows.range.begin + i;
                if (!rows.keys.empty())
                    std::memcpy(&key, rows.keys.data() + i * sizeof(key), sizeof(key));
                append_row<T>(text, key, values.data() + i * row_bytes, table.width);
            }
        });
        return out.write({text.data(), text.size()});
    });
}

/// Writes the content of an array, and adds it to `crc`.
Status write_content(checkpoint::Disk& disk, const Manifest& manifest, const std::string& folder,
                     const Array& array, OutputFile& out, uLong& crc) {
    uint64_t written = 0;
    std::vector<float> floats;
    const auto write = [&](const ChunkRows& rows) -> Status {
        std::span<const std::byte> bytes = array.is_state ? rows.state : rows.values;
        if (array.is_widened()) bytes = widened(array.table->value_type, bytes, floats);
        crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
        written += bytes.size();
        return out.write(as_chars(bytes));
    };
    WEIR_TRY(for_rows(disk, folder, manifest, *array.table, write));
    if (written == array.bytes()) return {};
    return Error(Errc::kParse,
                 fmt::format("table '{}': its chunks differ in their state; use another checkpoint",
                             array.table->name));
}

// NumPy: a zip file of .npy files, as numpy.savez() writes it.

/// "<f4"
std::string numpy_type(const Array& array) {
    const ValueType type = array.type;
    if (array.is_bytes()) return "|u1";
    const char kind = is_floating(type)                                        ? 'f'
                      : type == ValueType::kInt32 || type == ValueType::kInt64 ? 'i'
                                                                               : 'u';
    return fmt::format("<{}{}", kind, size_of(type));
}

std::string npy_head(const Array& array) {
    std::string shape;
    for (const uint64_t extent : array.shape())
        shape += fmt::format("{},", extent);
    std::string head = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   numpy_type(array), shape);
    constexpr size_t kFixedBytes = 10;
    constexpr size_t kAlign = 64;
    head.append((kAlign - (kFixedBytes + head.size() + 1) % kAlign) % kAlign, ' ');
    head += '\n';
    std::string all("\x93NUMPY\x01\x00", 8);
    all += static_cast<char>(head.size() & 0xff);
    all += static_cast<char>(head.size() >> 8);
    return all + head;
}

/// A file within the zip file, stored as it is. Sizes have 64 bits, and are behind the content.
struct ZipMember {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t crc = 0;
};

constexpr uint16_t kZip64Version = 45;
constexpr uint16_t kSizesFollow = 1 << 3;
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr uint16_t kFirstDay = 1 << 5 | 1;  // 1980-01-01, the first date there is
constexpr uint32_t kIn64 = ~uint32_t{0};

/// What the heads of a member have in common, from the version on.
void add_member(ByteWriter& to, const ZipMember& member, bool has_sizes) {
    to.number(kZip64Version).number(uint16_t{kSizesFollow | kUtf8Names}).number(uint16_t{0});
    to.number(uint16_t{0}).number(kFirstDay).number(has_sizes ? member.crc : uint32_t{0});
    to.number(kIn64).number(kIn64).number(static_cast<uint16_t>(member.name.size()));
}

void add_name(ByteWriter& to, const ZipMember& member) {
    to.raw(std::as_bytes(std::span(member.name)));
}

std::vector<std::byte> local_head(const ZipMember& member) {
    ByteWriter to;
    to.number(uint32_t{0x04034b50});
    add_member(to, member, false);
    to.number(uint16_t{20});
    add_name(to, member);
    to.number(uint16_t{1}).number(uint16_t{16}).number(uint64_t{0}).number(uint64_t{0});
    return std::move(to).take();
}

std::vector<std::byte> sizes_behind(const ZipMember& member) {
    ByteWriter to;
    to.number(uint32_t{0x08074b50}).number(member.crc).number(member.bytes).number(member.bytes);
    return std::move(to).take();
}

std::vector<std::byte> directory(std::span<const ZipMember> members, uint64_t offset) {
    ByteWriter to;
    for (const ZipMember& member : members) {
        to.number(uint32_t{0x02014b50}).number(kZip64Version);
        add_member(to, member, true);
        to.number(uint16_t{28}).number(uint16_t{0}).number(uint16_t{0}).number(uint16_t{0});
        to.number(uint32_t{0}).number(kIn64);
        add_name(to, member);
        to.number(uint16_t{1}).number(uint16_t{24});
        to.number(member.bytes).number(member.bytes).number(member.offset);
    }
    const uint64_t size = to.bytes().size();
    const uint64_t count = members.size();
    to.number(uint32_t{0x06064b50}).number(uint64_t{44}).number(kZip64Version);
    to.number(kZip64Version).number(uint32_t{0}).number(uint32_t{0}).number(count).number(count);
    to.number(size).number(offset);
    to.number(uint32_t{0x07064b50}).number(uint32_t{0}).number(offset + size).number(uint32_t{1});
    constexpr uint16_t kCountIn64 = ~uint16_t{0};
    to.number(uint32_t{0x06054b50}).number(uint16_t{0}).number(uint16_t{0});
    to.number(kCountIn64).number(kCountIn64).number(kIn64).number(kIn64).number(uint16_t{0});
    return std::move(to).take();
}

Status write_npz(checkpoint::Disk& disk, const Manifest& manifest, const std::string& folder,
                 std::span<const Array> arrays, OutputFile& out) {
    std::vector<ZipMember> members;
    uint64_t offset = 0;
    const auto write = [&](std::span<const std::byte> bytes) {
        offset += bytes.size();
        return out.write(as_chars(bytes));
    };
    for (const Array& array : arrays) {
        const std::string head = npy_head(array);
        ZipMember member{.name = array.name + ".npy",
                         .offset = offset,
                         .bytes = head.size() + array.bytes(),
                         .crc = 0};
        WEIR_TRY(write(local_head(member)));
        WEIR_TRY(write(std::as_bytes(std::span(head))));
        uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(head.data()), head.size());
        WEIR_TRY(write_content(disk, manifest, folder, array, out, crc));
        offset += array.bytes();
        member.crc = static_cast<uint32_t>(crc);
        WEIR_TRY(write(sizes_behind(member)));
        members.push_back(std::move(member));
    }
    return write(directory(members, offset));
}

// safetensors: the length of a head (8 bytes), the head as JSON, the arrays side by side.

std::string_view safetensors_type(const Array& array) {
    if (array.is_bytes()) return "U8";
    constexpr std::string_view kNames[kValueTypeCount] = {"F32", "F64", "I32",  "I64",
                                                          "U32", "U64", "BF16", "F16"};
    return kNames[static_cast<size_t>(array.type)];
}

Status write_safetensors(checkpoint::Disk& disk, const Manifest& manifest,
                         const std::string& folder, std::span<const Array> arrays,
                         OutputFile& out) {
    nlohmann::ordered_json head = nlohmann::ordered_json::object();
    uint64_t end = 0;
    for (const Array& array : arrays) {
        const uint64_t begin = std::exchange(end, end + array.bytes());
        head[array.name] = {{"dtype", safetensors_type(array)},
                            {"shape", array.shape()},
                            {"data_offsets", {begin, end}}};
    }
    std::string text = head.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
    text.append((8 - text.size() % 8) % 8, ' ');
    ByteWriter size;
    size.number(uint64_t{text.size()});
    WEIR_TRY(out.write(as_chars(size.bytes())));
    WEIR_TRY(out.write(text));
    uLong crc = 0;
    for (const Array& array : arrays)
        WEIR_TRY(write_content(disk, manifest, folder, array, out, crc));
    return {};
}

/// The arrays that the flags ask for.
Result<std::vector<Array>> arrays_of(checkpoint::Disk& disk, const Manifest& manifest,
                                     std::span<const TableSchema* const> tables,
                                     const CheckpointFlags& flags) {
    std::vector<Array> arrays;
    std::vector<std::byte> bytes;
    for (const TableSchema* const table : tables) {
        if (table->layout != Layout::kDense) {
            if (flags.table.empty()) continue;
            return Error(Errc::kInvalidArgument,
                         fmt::format("table '{}' is sparse, and has no array; use --format text",
                                     table->name));
        }
        // NumPy has no bfloat16.
        const bool is_known =
            flags.format != ExportFormat::kNpz || table->value_type != ValueType::kBFloat16;
        const ValueType of_state = computed_type(table->value_type);
        arrays.push_back({table, table->name, {}, false, is_known ? table->value_type : of_state});
        if (!flags.with_state) continue;
        const checkpoint::ChunkEntry& first = manifest.chunks_of(table->id).front();
        WEIR_ASSIGN(const checkpoint::Chunk chunk,
                    checkpoint::read_chunk(disk, flags.folder, first, *table, bytes));
        if (chunk.place.rows.state_bytes > 0)
            arrays.push_back({table, table->name + ".state", chunk.place.rows, true, of_state});
    }
    if (!arrays.empty()) return arrays;
    return Error(Errc::kInvalidArgument,
                 fmt::format("checkpoint {} has no dense table, and so no array; use --format text",
                             manifest.number));
}

Result<std::vector<const TableSchema*>> tables_of(const Manifest& manifest,
                                                  const CheckpointFlags& flags) {
    std::string names;
    std::vector<const TableSchema*> tables;
    for (const TableSchema& table : manifest.tables) {
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", table.name);
        if (flags.table.empty() || flags.table == table.name) tables.push_back(&table);
    }
    if (tables.empty()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("checkpoint {} has no table '{}'; choose one of: {}",
                                 manifest.number, flags.table, names));
    }
    if (flags.format == ExportFormat::kText && tables.size() > 1) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("text is of one table; choose one by --table: {}", names));
    }
    return tables;
}

}  // namespace

Result<ExportReport> export_checkpoint(checkpoint::Disk& disk, const Manifest& manifest,
                                       const CheckpointFlags& flags) {
    WEIR_ASSIGN(const std::vector<const TableSchema*> tables, tables_of(manifest, flags));
    std::vector<Array> arrays;
    if (flags.format != ExportFormat::kText) {
        WEIR_ASSIGN(arrays, arrays_of(disk, manifest, tables, flags));
    } else if (flags.with_state) {
        return Error(Errc::kInvalidArgument,
                     "--state: text has the values alone; use another "
                     "--format");
    }
    WEIR_ASSIGN(OutputFile out, OutputFile::create(flags.out));
    switch (flags.format) {
        case ExportFormat::kText:
            WEIR_TRY(write_text(disk, manifest, *tables.front(), flags.folder, out));
            break;
        case ExportFormat::kNpz:
            WEIR_TRY(write_npz(disk, manifest, flags.folder, arrays, out));
            break;
        case ExportFormat::kSafetensors:
            WEIR_TRY(write_safetensors(disk, manifest, flags.folder, arrays, out));
            break;
    }
    ExportReport report;
    report.written_bytes = out.written_bytes();
    if (flags.format == ExportFormat::kText) report.names.push_back(tables.front()->name);
    for (const Array& array : arrays)
        report.names.push_back(array.name);
    WEIR_TRY(out.finish());
    return report;
}

}  // namespace weir::tools
