// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/manifest.h"

#include <cstring>

#include <doctest/doctest.h>

#include "tests/checkpoint/sim_disk.h"
#include "tests/checkpoint/small_checkpoint.h"

using namespace weir;
using namespace weir::checkpoint;
using namespace weir::testing;

namespace {

const std::string kManifestName = manifest_name(4);

Manifest small_manifest() {
    SimDisk disk;
    REQUIRE(write_small(disk, "d", 4, 9, 2));
    return read_manifest(disk, "d", 4).value();
}

std::string manifest_refusal(std::span<const std::byte> bytes) {
    const Result<Manifest> manifest = decode_manifest(kManifestName, bytes);
    return manifest ? "" : manifest.error().message();
}

}  // namespace

TEST_SUITE("manifest") {
    TEST_CASE("a manifest is read as it was written") {
        const Manifest manifest = small_manifest();
        CHECK(manifest.iteration == 9);
        CHECK(manifest.closed_of(1) == 9);
        CHECK(manifest.closed_of(0) == 0);
        CHECK(manifest.tables == std::vector<TableSchema>{dense_table(), sparse_table()});
        CHECK(manifest.chunks.size() == 4);
        CHECK(manifest.chunks_of(1).size() == 2);
        CHECK(manifest.chunks_of(2).empty());
        CHECK(manifest.find_table("counts")->id == 1);
        CHECK(manifest.find_table("cousins") == nullptr);
        CHECK(*decode_manifest(kManifestName, encode_manifest(manifest)) == manifest);
        Manifest plain = manifest;
        plain.iteration.reset();
        CHECK(*decode_manifest(kManifestName, encode_manifest(plain)) == plain);
    }

    TEST_CASE("a manifest with any flipped bit, or of any other length, is refused and named") {
        const auto bytes = encode_manifest(small_manifest());
        REQUIRE(manifest_refusal(bytes).empty());
        for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
            auto flipped = bytes;
            flipped[bit / 8] ^= std::byte(1 << bit % 8);
            REQUIRE_MESSAGE(manifest_refusal(flipped).starts_with(kManifestName + ": "), "bit ",
                            bit);
        }
        for (size_t size = 0; size < bytes.size(); ++size) {
            std::vector<std::byte> cut(bytes.begin(), bytes.begin() + long(size));
            REQUIRE_MESSAGE(!manifest_refusal(cut).empty(), "size ", size);
            if (size < 8) continue;
            const uint64_t sum = checksum_of(kManifestName, std::span(cut).first(size - 8));
            std::memcpy(cut.data() + size - 8, &sum, 8);
            REQUIRE_MESSAGE(!manifest_refusal(cut).empty(), "size ", size);
        }
    }

    TEST_CASE("a manifest of a newer format says so") {
        auto bytes = encode_manifest(small_manifest());
        bytes[8] = std::byte{3};
        const Result<Manifest> manifest = decode_manifest(kManifestName, bytes);
        REQUIRE(manifest.code() == Errc::kUnavailable);
        CHECK(manifest.error().message().find("version of Weir") != std::string::npos);
    }

    TEST_CASE("a checkpoint in which any chunk is missing, or too many, is not complete") {
        const Manifest manifest = small_manifest();
        for (size_t i = 0; i < manifest.chunks.size(); ++i) {
            Manifest less = manifest;
            less.chunks.erase(less.chunks.begin() + long(i));
            CHECK_FALSE(order(less));
            CHECK_FALSE(manifest_refusal(encode_manifest(less)).empty());
            Manifest more = manifest;
            more.chunks.push_back(manifest.chunks[i]);
            CHECK_FALSE(order(more));
        }
        Manifest mixed = manifest;
        std::swap(mixed.chunks[0], mixed.chunks[3]);
        CHECK_FALSE(manifest_refusal(encode_manifest(mixed)).empty());
        CHECK(order(mixed));
        CHECK(mixed == manifest);
        Manifest stranger = manifest;
        stranger.tables.pop_back();
        CHECK_FALSE(order(stranger));
        Manifest none = manifest;
        none.tables.clear();
        none.chunks.clear();
        CHECK(order(none));
    }

    TEST_CASE("a chunk is named by a name without folders") {
        Manifest manifest = small_manifest();
        manifest.chunks[0].name = "000004.t0/../../x.chunk";
        CHECK_FALSE(manifest_refusal(encode_manifest(manifest)).empty());
    }
}
