// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any file is refused as a column cache, or each of its blocks is refused or can be
/// swept over, which reads and writes only inside of a solver's lists.
/// Input: a cache file. Its checksums are made right, as far as its sizes allow, so that what is
/// behind them is reached.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "lib/base/descriptor.h"
#include "lib/data/cache/cache_format.h"
#include "lib/data/cache/column_blocks.h"

namespace {

using namespace weir;
using namespace weir::data;

/// Where the front has the sizes, and its checksums behind them; 0: it is too short.
size_t sizes_place(std::span<const std::byte> front) {
    ByteReader reader(front);
    (void)reader.text(front.size());
    (void)reader.text(front.size());
    (void)reader.raw(32);
    (void)reader.raw(8 * size_t{reader.number<uint32_t>()});
    (void)reader.raw(1);
    const size_t rest = reader.ok() ? reader.rest().size() : 0;
    return rest < 48 ? 0 : front.size() - rest;
}

void seal(std::span<std::byte> front, uint64_t place, uint64_t checksum) {
    std::memcpy(front.data() + place, &checksum, sizeof(checksum));
}

void seal_front(std::vector<std::byte>& file, std::span<std::byte> front) {
    const size_t at = sizes_place(front);
    if (at == 0) return;
    uint64_t counts[3];  // rows, columns, groups
    std::memcpy(counts, front.data() + at, sizeof(counts));
    uint64_t place = sizeof(CacheHeader) + front.size();
    const auto part = [&](uint64_t begin, uint64_t bytes) {
        return std::span<const std::byte>(file).subspan(begin, bytes);
    };
    if (counts[1] > file.size() / 12 || counts[0] > file.size() ||
        place + 12 * counts[1] + counts[0] > file.size() ||
        (front.size() - at - 48) / 24 < counts[2])
        return;
    seal(front, at + 24, cache_checksum(part(place, 8 * counts[1])));
    place += 8 * counts[1];
    seal(front, at + 32, cache_checksum(part(place, 4 * counts[1])));
    place += 4 * counts[1];
    seal(front, at + 40, cache_checksum(part(place, counts[0])));
    place += counts[0];
    for (uint64_t g = 0; g < counts[2]; ++g) {
        const size_t entry = at + 48 + 24 * g;
        BlockShape shape;
        std::memcpy(&shape.column_count, front.data() + entry, 8);
        std::memcpy(&shape.nonzero_count, front.data() + entry + 8, 8);
        shape.has_values = std::to_integer<int>(front[at - 1]) == 1;
        place = (place + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
        if (std::max(shape.column_count, shape.nonzero_count) > file.size() ||
            place + shape.bytes() > file.size())
            return;
        seal(front, entry + 16, cache_checksum(part(place, shape.bytes()), g));
        place += shape.bytes();
    }
}

void seal_file(std::vector<std::byte>& file) {
    CacheHeader header = {};
    if (file.size() < sizeof(header)) return;
    std::memcpy(&header, file.data(), sizeof(header));
    header.file_bytes = file.size();
    header.front_bytes =
        static_cast<uint32_t>(std::min<size_t>(header.front_bytes, file.size() - sizeof(header)));
    const auto front = std::span(file).subspan(sizeof(header), header.front_bytes);
    seal_front(file, front);
    header.front_checksum = cache_checksum(front);
    header.checksum = header_checksum(header);
    std::memcpy(file.data(), &header, sizeof(header));
}

/// What a solver does with a block.
void use(const linalg::Columns& columns, std::vector<double>& rows) {
    const linalg::ColumnRange all{0, columns.line_count()};
    std::vector<double> sums(all.size());
    linalg::gradient(columns, all, rows, sums);
    std::ranges::fill(sums, 1.0);
    linalg::add_to_margins(columns, all, sums, rows);
}

void sweep(const std::vector<std::byte>& bytes) {
    const Descriptor memory(::memfd_create("cache", MFD_CLOEXEC));
    WEIR_CHECK(::write(memory.get(), bytes.data(), bytes.size()) ==
               static_cast<ssize_t>(bytes.size()));
    Result<CacheFile> file = CacheFile::open(fmt::format("/proc/self/fd/{}", memory.get()), {});
    WEIR_CHECK(file);
    Result<CacheIndex> index = read_index(*file);
    if (!index) {
        WEIR_CHECK(index.error().text().starts_with("/proc/self/fd/"));
        return;
    }
    Result<ColumnBlocks> blocks =
        ColumnBlocks::of_cache(*std::move(file), *std::move(index), uint64_t{1} << 30);
    WEIR_CHECK(blocks);
    std::vector<double> rows(blocks->row_count());
    for (uint32_t g = 0; g < blocks->group_count(); ++g) {
        const Result<linalg::Columns> columns = blocks->open(g);
        if (!columns) continue;
        use(*columns, rows);
        blocks->done(g);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto input = std::as_bytes(std::span(data, size));
    std::vector<std::byte> file(input.begin(), input.end());
    sweep(file);
    seal_file(file);
    sweep(file);
    return 0;
}
