// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/route.h"

#include <numeric>
#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/ring/plan.h"
#include "tests/seed.h"

namespace weir {

TEST_SUITE("route") {
    static View view_of(uint32_t servers, uint32_t shards) {
        NewServer server;
        server.addresses.resize(shards, "here");
        return std::move(first_view(std::vector(servers, server), 4)).value();
    }

    TEST_CASE("every key goes to its owner exactly once, in pieces that are small enough") {
        const View ring = view_of(2, 2);
        WEIR_TEST_SEED(seed, 3);
        Random random(seed);
        HeapMemory memory;
        for (const size_t count : {0, 1, 5, 9, 100, 5000}) {
            std::set<uint64_t> chosen;
            while (chosen.size() < count)
                chosen.insert(random());
            const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
            const PositionMap positions = PositionMap::sparse();
            auto route = Route::make(keys, list_id(keys), ring, positions, {300}, memory);
            REQUIRE(route.has_value());
            std::set<uint64_t> seen;
            for (const Piece& piece : (*route)->pieces()) {
                CHECK(piece.count <= 300);
                const uint64_t* const begin = (*route)->keys(piece, keys.data());
                CHECK(is_sorted_unique({begin, piece.count}));
                CHECK(piece.hash == hash_key_list({begin, piece.count}));
                const std::span<const uint32_t> order = (*route)->order(piece);
                for (uint64_t i = 0; i < piece.count; ++i) {
                    CHECK(ring.owner(positions.position(begin[i])) == piece.shard);
                    CHECK(seen.insert(begin[i]).second);
                    if (!order.empty()) CHECK(keys[order[i]] == begin[i]);
                }
            }
            CHECK(seen.size() == count);
        }
        CHECK(memory.bytes_in_use() == 0);
    }

    TEST_CASE("a range is cut where its owner changes") {
        const View ring = view_of(2, 2);
        auto route = Route::make(KeyRange{10, 990}, ring, PositionMap::dense(1000), {100});
        REQUIRE(route.has_value());
        uint64_t next = 0;
        for (const Piece& piece : (*route)->pieces()) {
            CHECK(piece.begin == next);
            CHECK(piece.count <= 100);
            next += piece.count;
        }
        CHECK(next == 980);
    }

    TEST_CASE("a key beyond a dense table, and a list for which there is no memory, are refused") {
        const View ring = view_of(2, 2);
        HeapMemory none(0);
        const std::vector<uint64_t> beyond{1, 1000};
        CHECK(Route::make(beyond, list_id(beyond), ring, PositionMap::dense(1000), {100}, none)
                  .code() == Errc::kOutOfRange);
        std::vector<uint64_t> many(1000);
        std::iota(many.begin(), many.end(), 0);
        CHECK(Route::make(many, {}, ring, PositionMap::sparse(), {100}, none).code() ==
              Errc::kNoMemory);
    }

    TEST_CASE("a call for keys of which no copy is left fails, and names them") {
        for (const uint32_t servers : {1U, 2U}) {
            ViewData data = view_of(servers, 1).data();
            data.segments[1].primary = kNoShard;
            data.epoch = 2;
            const View ring = std::move(View::make(std::move(data))).value();
            HeapMemory memory;
            std::vector<uint64_t> all(1000);
            std::iota(all.begin(), all.end(), 0);
            const PositionMap positions = PositionMap::dense(1000);
            const auto list = Route::make(all, list_id(all), ring, positions, {100}, memory);
            REQUIRE(list.code() == Errc::kPeerLost);
            CHECK(list.error().message().find("are lost") != std::string::npos);
            CHECK(Route::make(KeyRange{0, 1000}, ring, positions, {100}).code() == Errc::kPeerLost);
            CHECK(Route::make(KeyRange{0, 10}, ring, positions, {100}).has_value());
        }
    }

    TEST_CASE(
        "the cache forgets the routes that were used longest ago, and knows lists by more than "
        "their hash") {
        const View ring = view_of(1, 1);
        HeapMemory memory;
        std::vector<std::vector<uint64_t>> lists;
        for (uint64_t i = 0; i < 4; ++i)
            lists.push_back({i, i + 10});
        const auto route = [&](size_t i) {
            return std::move(Route::make(lists[i], list_id(lists[i]), ring, PositionMap::sparse(),
                                         {100}, memory))
                .value();
        };
        RouteCache cache(3 * route(0)->size_bytes());
        for (size_t i = 0; i < 3; ++i)
            cache.remember(0, list_id(lists[i]), route(i));
        CHECK(cache.find(0, list_id(lists[0])) != nullptr);
        cache.remember(0, list_id(lists[3]), route(3));
        CHECK(cache.find(0, list_id(lists[1])) == nullptr);
        CHECK(cache.find(0, list_id(lists[0])) != nullptr);
        CHECK(cache.find(1, list_id(lists[0])) == nullptr);
        ListId same_hash = list_id(lists[0]);
        same_hash.last_key = 99;
        CHECK(cache.find(0, same_hash) == nullptr);
    }

    TEST_CASE("regrouped keys are given back, the oldest first, but not those of a request") {
        const View ring = view_of(2, 2);
        HeapMemory memory;
        RouteCache cache(1 << 20);
        std::vector<ListId> ids;
        for (uint64_t i = 0; i < 4; ++i) {
            std::vector<uint64_t> keys(i == 0 ? 2 : 1000);  // two keys are not regrouped
            std::iota(keys.begin(), keys.end(), i);
            ids.push_back(list_id(keys));
            cache.remember(0, ids.back(),
                           std::move(Route::make(keys, list_id(keys), ring, PositionMap::sparse(),
                                                 {100}, memory))
                               .value());
        }
        REQUIRE(memory.bytes_in_use() == 3 * 8000);
        std::shared_ptr<Route> in_use = cache.find(0, ids[1]);
        (void)cache.find(0, ids[2]);
        (void)cache.find(0, ids[3]);
        CHECK(cache.give_back(1) == 8000);
        CHECK(cache.find(0, ids[1]) != nullptr);
        CHECK(cache.find(0, ids[2]) == nullptr);
        CHECK(cache.give_back(1 << 20) == 8000);
        CHECK(cache.find(0, ids[3]) == nullptr);
        CHECK(memory.bytes_in_use() == 8000);
        in_use.reset();
        CHECK(cache.give_back(1) == 8000);
        CHECK(memory.bytes_in_use() == 0);
        CHECK(cache.find(0, ids[0]) != nullptr);
    }
}

}  // namespace weir
