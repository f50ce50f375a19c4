// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/cut_list.h"

#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/ring/plan.h"
#include "tests/seed.h"

namespace weir::test {

TEST_SUITE("cut list") {
    static View view_of_four() {
        NewServer server;
        server.addresses.resize(2, "here");
        return std::move(first_view(std::vector(2, server), 4)).value();
    }

    TEST_CASE("each key is in one piece, with its row and all of its part's") {
        const View view = view_of_four();
        WEIR_TEST_SEED(seed, 5);
        Random random(seed);
        for (const SplitBy by : {SplitBy::kOwner, SplitBy::kSegment}) {
            for (const bool is_dense : {false, true}) {
                const PositionMap positions =
                    is_dense ? PositionMap::dense(1000) : PositionMap::sparse();
                std::set<uint64_t> chosen;
                while (chosen.size() < 200)
                    chosen.insert(random.below(1000));
                const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
                std::vector<uint32_t> rows;
                for (const uint64_t key : keys)
                    rows.push_back(static_cast<uint32_t>(5000 - key));
                for (const bool has_rows : {false, true}) {
                    const CutList lists(keys, has_rows ? rows : std::vector<uint32_t>(), view,
                                        positions, by);
                    std::set<uint64_t> seen;
                    std::set<uint64_t> parts;
                    for (const CutList::Piece& piece : lists.pieces()) {
                        const auto its = lists.keys(piece);
                        REQUIRE(!its.empty());
                        CHECK(std::ranges::is_sorted(its));
                        CHECK(piece.position == positions.position(its.front()));
                        const auto part = [&](uint64_t key) {
                            const uint64_t position = positions.position(key);
                            return by == SplitBy::kSegment ? view.segment_index(position)
                                                           : view.owner(position);
                        };
                        CHECK(parts.insert(part(its.front())).second);
                        for (size_t i = 0; i < its.size(); ++i) {
                            CHECK(view.owner(positions.position(its[i])) == piece.shard);
                            CHECK(part(its[i]) == part(its.front()));
                            CHECK(seen.insert(its[i]).second);
                            const uint32_t row = lists.rows(piece)[i];
                            CHECK((has_rows ? row == 5000 - its[i] : keys[row] == its[i]));
                        }
                    }
                    CHECK(seen == chosen);
                }
            }
        }
    }

    TEST_CASE("keys of a dense table that are cut by segment are runs of the caller's array") {
        const View view = view_of_four();
        std::vector<uint64_t> keys;
        for (uint64_t key = 10; key < 990; ++key)
            keys.push_back(key);
        const CutList lists(keys, {}, view, PositionMap::dense(1000), SplitBy::kSegment);
        CHECK(lists.pieces().size() == view.segments().size());
        for (const CutList::Piece& piece : lists.pieces())
            CHECK(lists.is_run(piece));
        const std::vector<uint64_t> two{1, 2};
        const std::vector<uint32_t> apart{1, 3};
        const CutList scattered(two, apart, view, PositionMap::dense(1000), SplitBy::kOwner);
        CHECK_FALSE(scattered.is_run(scattered.pieces().front()));
    }
}

}  // namespace weir::test
