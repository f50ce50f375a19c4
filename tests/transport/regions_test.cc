// SPDX-License-Identifier: Apache-2.0
#include "transport/regions.h"

#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

namespace weir::transport {

TEST_SUITE("regions") {
    TEST_CASE("a region is found by any span within it, and by no other") {
        RegionTable table;
        RegionView view(table);
        std::vector<std::byte> memory(1000);
        const std::span<std::byte> all(memory);
        const auto begin = reinterpret_cast<uint64_t>(memory.data());
        CHECK(view.find(all, Access::kLocal) == nullptr);
        table.add({begin + 100, begin + 300, 1, 1, Access::kLocal, 1});
        table.add({begin + 400, begin + 500, 2, 2, Access::kRemoteRead, 2});
        CHECK(view.find(all.subspan(100, 200), Access::kLocal)->id == 1);
        CHECK(view.find(all.subspan(299, 1), Access::kLocal)->id == 1);
        CHECK(view.find(all.subspan(99, 2), Access::kLocal) == nullptr);
        CHECK(view.find(all.subspan(299, 2), Access::kLocal) == nullptr);
        CHECK(view.find(all.subspan(250, 200), Access::kLocal) == nullptr);
        CHECK(view.find(all.subspan(100, 1), Access::kRemoteRead) == nullptr);
        CHECK(view.find(all.subspan(400, 100), Access::kRemoteRead)->id == 2);
        CHECK(view.find(all.subspan(400, 100), Access::kRemote) == nullptr);
        table.remove(2);
        CHECK(view.find(all.subspan(400, 1), Access::kLocal) == nullptr);
        CHECK(view.find(all.subspan(100, 1), Access::kLocal)->id == 1);
    }

    TEST_CASE("regions may overlap") {
        RegionTable table;
        RegionView view(table);
        std::vector<std::byte> memory(1000);
        const std::span<std::byte> all(memory);
        const auto begin = reinterpret_cast<uint64_t>(memory.data());
        table.add({begin, begin + 1000, 1, 1, Access::kRemoteRead, 1});
        for (uint32_t i = 0; i < 9; ++i) {
            table.add({begin + i * 100, begin + i * 100 + 10, 9, 9, Access::kRemoteWrite, 10 + i});
        }
        CHECK(view.find(all.subspan(850, 100), Access::kRemoteRead)->id == 1);
        CHECK(view.find(all.subspan(800, 10), Access::kRemoteWrite)->id == 18);
        CHECK(view.find(all.subspan(800, 11), Access::kRemoteWrite) == nullptr);
        CHECK(view.find(all.subspan(800, 10), Access::kRemoteRead)->id == 1);
    }

    TEST_CASE("memory is exposed with the key of a region that a peer may reach") {
        RegionTable table;
        RegionView view(table);
        const std::vector<std::byte> memory(1000);
        const std::span<const std::byte> all(memory);
        const auto begin = reinterpret_cast<uint64_t>(memory.data());
        table.add({begin, begin + 500, 1, 11, Access::kLocal, 1});
        table.add({begin + 100, begin + 300, 2, 22, Access::kRemoteWrite, 2});
        const auto span = view.expose(all.subspan(150, 150), "tcp");
        REQUIRE(span.has_value());
        CHECK(span->address == begin + 150);
        CHECK(span->length_bytes == 150);
        CHECK(span->key == 22);
        const auto local = view.expose(all.subspan(150, 151), "tcp");
        REQUIRE(local.code() == Errc::kRefused);
        CHECK(local.error().text() ==
              "tcp: cannot expose memory that was registered as Access::kLocal");
        const auto stranger = view.expose(all.subspan(400, 101), "verbs");
        REQUIRE(stranger.code() == Errc::kInvalidArgument);
        CHECK(stranger.error().text().starts_with("verbs: cannot expose 101 bytes at 0x"));
    }

    TEST_CASE("a peer's span must have the key of the region that holds it") {
        RegionTable table;
        RegionView view(table);
        table.add({1000, 2000, 0, 77, Access::kRemote, 1});
        table.add({1000, 1500, 0, 88, Access::kRemoteRead, 2});  // they overlap
        CHECK(view.find_remote({1100, 100, 77}, Access::kRemoteWrite)->id == 1);
        CHECK(view.find_remote({1100, 100, 88}, Access::kRemoteRead)->id == 2);
        CHECK(view.find_remote({1100, 100, 88}, Access::kRemoteWrite) == nullptr);
        CHECK(view.find_remote({1100, 500, 88}, Access::kRemoteRead) == nullptr);
        CHECK(view.find_remote({1100, 100, 99}, Access::kRemoteRead) == nullptr);
        CHECK(view.find_remote({1100, ~uint64_t{0}, 77}, Access::kRemoteRead) == nullptr);
        CHECK(view.find_remote({~uint64_t{0}, 16, 77}, Access::kRemoteRead) == nullptr);
    }
}

}  // namespace weir::transport
