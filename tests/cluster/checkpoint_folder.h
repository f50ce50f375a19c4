// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CheckpointFolder: the checkpoints of jobs on a simulated network, and what lets a job go on from them.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/checkpoint/chunk.h"
#include "lib/checkpoint/folder.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

/// A folder of checkpoints on a simulated disk.
struct CheckpointFolder {
    std::shared_ptr<testing::SimDisk> disk = std::make_shared<testing::SimDisk>();
    std::string folder = "d";

    [[nodiscard]] CheckpointOptions options() const {
        CheckpointOptions options;
        options.folder = folder;
        options.disk = std::make_shared<checkpoint::DiskQueue>(disk);
        return options;
    }

    [[nodiscard]] checkpoint::Manifest latest() const {
        const auto number = checkpoint::latest(*disk, folder);
        REQUIRE(number);
        auto manifest = checkpoint::read_manifest(*disk, folder, *number);
        REQUIRE(manifest);
        return *std::move(manifest);
    }

    [[nodiscard]] checkpoint::Chunk chunk(const checkpoint::ChunkEntry& entry,
                                          std::vector<std::byte>& bytes) const {
        auto read = disk->read(path_of(entry), entry.size_bytes);
        REQUIRE_MESSAGE(read, read.error().text());
        bytes = *std::move(read);
        auto chunk = checkpoint::decode_chunk(entry.name, bytes);
        REQUIRE_MESSAGE(chunk, chunk.error().text());
        CHECK(chunk->checksum == entry.checksum);
        return *std::move(chunk);
    }

    [[nodiscard]] std::string path_of(const checkpoint::ChunkEntry& entry) const {
        return checkpoint::path_of(folder, entry.name);
    }

    /// It is there with all that it names.
    void check_whole(uint64_t number) const {
        const auto manifest = checkpoint::read_manifest(*disk, folder, number);
        REQUIRE_MESSAGE(manifest, manifest.error().text());
        for (const checkpoint::ChunkEntry& entry : manifest->chunks) {
            std::vector<std::byte> bytes;
            (void)chunk(entry, bytes);
        }
    }

    /// All that are listed are.
    void check_all_whole() const {
        const auto numbers = checkpoint::list_checkpoints(*disk, folder);
        REQUIRE(numbers);
        for (const uint64_t number : *numbers)
            check_whole(number);
    }

    /// Flips a bit in the first chunk of the newest one. Returns what it was.
    [[nodiscard]] std::vector<std::byte> damage_first_chunk() const {
        const checkpoint::ChunkEntry entry = latest().chunks[0];
        auto whole = disk->read(path_of(entry), entry.size_bytes);
        REQUIRE(whole);
        std::vector<std::byte> bytes = *whole;
        bytes[bytes.size() / 2] ^= std::byte{4};
        disk->damage(path_of(entry), bytes);
        return *std::move(whole);
    }

    void mend_first_chunk(const std::vector<std::byte>& whole) const {
        disk->damage(path_of(latest().chunks[0]), whole);
    }

    /// A job that goes on from the newest checkpoint, and writes others.
    void resume(SimShape& shape) const {
        shape.checkpoints = options();
        shape.resume = latest();
        shape.checkpoints.resumed_folder = folder;
        shape.checkpoints.resumed_from = shape.resume->number;
    }
};

}  // namespace weir::test
