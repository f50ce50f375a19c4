// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes are refused as a chunk, or decoded without a read outside of them. Input:
/// a chunk without its checksum, which is added, so that what is behind it is reached. Rows that
/// are decoded can be written again, and read as the same.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "lib/base/check.h"
#include "lib/checkpoint/chunk.h"

namespace {

using namespace weir;
using namespace weir::checkpoint;

void check(const Chunk& chunk, size_t size) {
    uint64_t row_count = 0;
    size_t bytes = 0;
    for (const ChunkRows& rows : chunk.rows) {
        WEIR_CHECK(rows.values.size() == rows.row_count() * chunk.place.rows.value_bytes());
        WEIR_CHECK(rows.state.size() == rows.row_count() * chunk.place.rows.state_bytes);
        WEIR_CHECK(rows.row_count() > 0);
        row_count += rows.row_count();
        bytes += rows.keys.size() + rows.values.size() + rows.state.size();
        // Every byte can be read.
        (void)checksum_of("", rows.values);
        (void)checksum_of("", rows.state);
        (void)checksum_of("", rows.keys);
    }
    WEIR_CHECK(row_count == chunk.row_count && bytes < size);
    for (const ClosedUpTo& closed : chunk.closed)
        WEIR_CHECK(chunk.place.range.contains(closed.range.first));
    for (const ClockTimes& times : chunk.clocks)
        WEIR_CHECK(chunk.place.range.contains(times.range.last));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string name = "000001.t0.0000000000000000.s0.chunk";
    const auto input = std::as_bytes(std::span(data, size));
    // Copies of their own, so that the sanitizer sees reads beyond them.
    const std::vector<std::byte> bare(input.begin(), input.end());
    if (!decode_chunk(name, bare)) {
        std::vector<std::byte> sealed = bare;
        const uint64_t sum = checksum_of(name, bare);
        sealed.resize(size + sizeof(sum));
        std::memcpy(sealed.data() + size, &sum, sizeof(sum));
        const Result<Chunk> chunk = decode_chunk(name, sealed);
        if (!chunk) {
            WEIR_CHECK(chunk.error().text().starts_with(name));
            return 0;
        }
        check(*chunk, sealed.size());
    }
    return 0;
}
