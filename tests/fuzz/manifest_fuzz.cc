// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes are refused as a manifest, or decoded; those of today's version are then
/// encoded to the same bytes.
/// Input: a manifest without its checksum, which is added, so that what is behind it is reached.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "lib/base/check.h"
#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace weir;
    using namespace weir::checkpoint;
    // The number is a part of the name: take the one that the bytes have.
    uint64_t number = 0;
    if (size >= 20) std::memcpy(&number, data + 12, sizeof(number));
    const std::string name = manifest_name(number);
    const auto input = std::as_bytes(std::span(data, size));
    WEIR_CHECK(decode_manifest(name, std::vector<std::byte>(input.begin(), input.end())).code() !=
               Errc::kInvalidArgument);
    std::vector<std::byte> sealed(input.begin(), input.end());
    const uint64_t sum = checksum_of(name, input);
    sealed.resize(size + sizeof(sum));
    std::memcpy(sealed.data() + size, &sum, sizeof(sum));
    const Result<Manifest> manifest = decode_manifest(name, sealed);
    if (!manifest) {
        WEIR_CHECK(manifest.error().text().starts_with(name));
        return 0;
    }
    const std::vector<std::byte> written = encode_manifest(*manifest);
    uint32_t version = 0;
    std::memcpy(&version, data + 8, sizeof(version));
    WEIR_CHECK(version < Manifest::kVersion || written == sealed);  // older ones are only read
    Manifest ordered = *manifest;
    WEIR_CHECK(order(ordered));
    WEIR_CHECK(encode_manifest(ordered) == written);  // an initial value may be NaN
    for (const TableSchema& table : manifest->tables)
        WEIR_CHECK(!manifest->chunks_of(table.id).empty());
    return 0;
}
