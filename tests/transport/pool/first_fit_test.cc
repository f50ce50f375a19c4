// SPDX-License-Identifier: Apache-2.0
#include "transport/pool/first_fit.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("first_fit") {
    using weir::transport::FirstFit;

    struct alignas(4096) Memory {
        std::byte bytes[65536] = {};

        std::span<std::byte> part(size_t from, size_t size) { return {bytes + from, size}; }
    };

    TEST_CASE("pieces do not overlap, and freed ones merge into one piece") {
        Memory memory;
        FirstFit pieces;
        pieces.add(memory.part(0, 4096));
        std::byte* const a = pieces.allocate(100, 64).start;
        std::byte* const b = pieces.allocate(1000, 64).start;
        std::byte* const c = pieces.allocate(64, 64).start;
        CHECK(a == memory.bytes);
        CHECK(b == a + 128);
        CHECK(c == b + 1024);
        CHECK(pieces.allocate(4096, 64).start == nullptr);
        pieces.deallocate(b, 1000);
        pieces.deallocate(a, 100);
        pieces.deallocate(c, 64);
        CHECK(pieces.free_bytes() == 4096);
        CHECK(pieces.allocate(4096, 64).start == memory.bytes);
        CHECK(pieces.free_bytes() == 0);
        CHECK(pieces.allocate(1, 64).start == nullptr);
    }

    TEST_CASE("alignment is kept, and the gap before an aligned piece is used for others") {
        Memory memory;
        FirstFit pieces;
        pieces.add(memory.part(0, 16384));
        CHECK(pieces.allocate(64, 64).start == memory.bytes);
        CHECK(pieces.allocate(64, 4096).start == memory.bytes + 4096);
        CHECK(pieces.allocate(64, 64).start == memory.bytes + 64);
    }

    TEST_CASE("adjacent stretches are not merged, and free ones can be removed") {
        Memory memory;
        FirstFit pieces;
        pieces.add(memory.part(0, 4096));
        pieces.add(memory.part(4096, 4096));
        CHECK(pieces.allocate(8192, 64).start == nullptr);
        std::byte* const a = pieces.allocate(4096, 64).start;
        std::byte* const b = pieces.allocate(4096, 64).start;
        CHECK_FALSE(pieces.same_stretch(a, b));
        pieces.deallocate(a, 4096);
        CHECK_FALSE(pieces.remove(memory.part(4096, 4096)));
        pieces.deallocate(b, 4096);
        CHECK(pieces.allocate(8192, 64).start == nullptr);
        CHECK(pieces.remove(memory.part(4096, 4096)));
        CHECK(pieces.free_bytes() == 4096);
    }

    TEST_CASE("an extended stretch is one stretch, and its free end can be found") {
        Memory memory;
        FirstFit pieces;
        pieces.add(memory.part(0, 4096));
        pieces.add(memory.part(16384, 4096));
        CHECK(pieces.free_before(memory.bytes + 4096) == memory.bytes);
        std::byte* const a = pieces.allocate(1024, 64).start;
        CHECK(pieces.free_before(memory.bytes + 4096) == memory.bytes + 1024);
        pieces.extend(memory.part(4096, 12288));  // up to the other stretch
        const FirstFit::Piece all = pieces.allocate(15 * 1024, 64);
        CHECK(all.start == memory.bytes + 1024);
        CHECK(all.fresh_bytes == 15 * 1024);
        CHECK(pieces.free_before(memory.bytes + 16384) == memory.bytes + 16384);
        CHECK(pieces.free_bytes() == 4096);
        pieces.deallocate(all.start, 15 * 1024);
        pieces.deallocate(a, 1024);
        CHECK(pieces.allocate(16384 + 64, 64).start ==
              nullptr);  // a piece cannot span two stretches
        CHECK(pieces.remove(memory.part(0, 16384)));
    }

    TEST_CASE("fresh bytes are those at the end that were never allocated before") {
        Memory memory;
        FirstFit pieces;
        pieces.add(memory.part(0, 8192));
        const FirstFit::Piece a = pieces.allocate(1024, 64);
        CHECK(a.fresh_bytes == 1024);
        pieces.deallocate(a.start, 1024);
        const FirstFit::Piece again = pieces.allocate(1536, 64);
        CHECK(again.start == a.start);
        CHECK(again.fresh_bytes == 512);
        CHECK(pieces.allocate(64, 64).fresh_bytes == 64);
        CHECK(pieces.allocate(64, 4096).fresh_bytes == 64);
        CHECK(pieces.allocate(64, 64).fresh_bytes == 0);  // lies below an older piece
    }

    TEST_CASE("thousands of random requests never overlap and lose nothing") {
        WEIR_TEST_SEED(seed, 20240607);
        weir::Random random(seed);
        Memory memory;
        FirstFit pieces;
        pieces.add(memory.part(0, 32768));
        pieces.add(memory.part(32768, 32768));
        std::map<std::byte*, std::pair<size_t, unsigned char>> live;
        for (int step = 0; step < 20000; ++step) {
            if (random.below(2) == 0 && !live.empty()) {
                auto victim = live.begin();
                std::advance(victim, random.below(live.size()));
                const auto [size, pattern] = victim->second;
                REQUIRE(std::count(victim->first, victim->first + size, std::byte{pattern}) ==
                        static_cast<std::ptrdiff_t>(size));
                pieces.deallocate(victim->first, size);
                live.erase(victim);
                continue;
            }
            const size_t size = 1 + random.below(3000);
            const size_t alignment = size_t{1} << random.below(13);
            const FirstFit::Piece piece = pieces.allocate(size, alignment);
            if (piece.start == nullptr) continue;
            REQUIRE(reinterpret_cast<uintptr_t>(piece.start) % alignment == 0);
            const std::byte* const end = piece.start + (size + 63) / 64 * 64;
            REQUIRE(std::count(end - piece.fresh_bytes, end, std::byte{0}) ==
                    static_cast<std::ptrdiff_t>(piece.fresh_bytes));
            const auto pattern = static_cast<unsigned char>(1 + random.below(255));
            std::memset(piece.start, pattern, size);
            live[piece.start] = {size, pattern};
        }
        for (const auto& [start, what] : live)
            pieces.deallocate(start, what.first);
        CHECK(pieces.free_bytes() == 65536);
        CHECK(pieces.allocate(32768, 64).start == memory.bytes);
    }
}
