// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/assignment.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("assignment") {
    using namespace weir;
    constexpr uint64_t kLast = ~uint64_t{0};

    static Assignment made(const RingShape& shape) {
        return *Assignment::make(1, shape);
    }

    static const RingShape kShapes[] = {{1, 1, 1, 1}, {1, 1, 16, 1}, {1, 2, 16, 1}, {2, 2, 16, 9},
                                        {3, 1, 1, 4}, {5, 3, 8, 2},  {7, 4, 32, 3}};

    TEST_CASE("the segments cover the ring once, and owner() agrees with them") {
        WEIR_TEST_SEED(seed, 21);
        Random random(seed);
        for (const RingShape& shape : kShapes) {
            const Assignment ring = made(shape);
            uint64_t next = 0;
            for (const RingSegment& segment : ring.segments()) {
                CHECK(segment.first == next);
                CHECK(segment.first <= segment.last);
                CHECK(segment.owner < ring.shard_count());
                CHECK(ring.owner(segment.first) == segment.owner);
                CHECK(ring.owner(segment.last) == segment.owner);
                next = segment.last + 1;
            }
            CHECK(next == 0);
            for (int i = 0; i < 1000; ++i) {
                const uint64_t position = random();
                const RingSegment& segment = ring.segment(position);
                CHECK((segment.first <= position && position <= segment.last));
            }
        }
    }

    TEST_CASE("every shard owns an equal share of the ring, the more exactly the more points") {
        for (const RingShape& shape : kShapes) {
            const Assignment ring = made(shape);
            std::vector<double> share(ring.shard_count());
            for (const RingSegment& segment : ring.segments())
                share[segment.owner] += static_cast<double>(segment.last - segment.first) * 0x1p-64;
            for (const double one : share)
                CHECK(one * ring.shard_count() ==
                      doctest::Approx(1).epsilon(0.3 / shape.points_per_shard));
        }
    }

    TEST_CASE("mixed keys of any pattern spread evenly over the shards") {
        const Assignment ring = made({2, 2, 16, 1});
        for (const uint64_t step : {uint64_t{1}, uint64_t{4096}, uint64_t{1} << 40}) {
            std::vector<int> count(4);
            for (uint64_t i = 0; i < 40'000; ++i)
                ++count[ring.owner(PositionMap::sparse().position(i * step))];
            for (const int one : count)
                CHECK(one == doctest::Approx(10'000).epsilon(0.05));
        }
    }

    TEST_CASE("the same numbers make the same ring, another seed another one") {
        const auto same = [](const Assignment& a, const Assignment& b) {
            return std::ranges::equal(a.segments(), b.segments());
        };
        CHECK(same(made({5, 3, 8, 2}), made({5, 3, 8, 2})));
        CHECK_FALSE(same(made({5, 3, 8, 2}), made({5, 3, 8, 3})));
    }

    TEST_CASE("a server that joins takes from the others, and moves nothing between them") {
        WEIR_TEST_SEED(seed, 22);
        Random random(seed);
        for (uint32_t servers = 1; servers < 9; ++servers) {
            const Assignment before = made({servers, 2, 8, 6});
            const Assignment after = made({servers + 1, 2, 8, 6});
            for (int i = 0; i < 5000; ++i) {
                const uint64_t position = random();
                const uint32_t owner = after.owner(position);
                CHECK((owner == before.owner(position) || after.place(owner).server == servers));
            }
        }
    }

    TEST_CASE("a split keeps every position and its owner") {
        WEIR_TEST_SEED(seed, 23);
        Random random(seed);
        const Assignment ring = made({3, 2, 4, 8});
        for (int i = 0; i < 2000; ++i) {
            uint64_t first = random();
            uint64_t last = random() >> random.below(64);
            if (first > last) std::swap(first, last);
            uint64_t next = first;
            for (const RingSegment& piece : ring.split({first, last})) {
                CHECK(piece.first == next);
                CHECK(ring.owner(piece.first) == piece.owner);
                CHECK(ring.owner(piece.last) == piece.owner);
                next = piece.last + 1;
            }
            CHECK(next == last + 1);
        }
        CHECK(ring.split({0, kLast}).size() == ring.segments().size());
        CHECK(ring.split({5, 4}).empty());
    }

    TEST_CASE("every key of a dense table is in exactly one piece, its position's owner's") {
        for (const RingShape& shape : kShapes) {
            const Assignment ring = made(shape);
            for (uint64_t n = 1; n < 130; n += n < 20 ? 1 : 13) {
                const PositionMap map = PositionMap::dense(n);
                for (uint64_t begin = 0; begin <= n; begin += 1 + n / 7) {
                    uint64_t next = begin;
                    uint32_t before = ring.shard_count();
                    for (const KeySegment& piece : ring.split_dense({begin, n + 3}, n)) {
                        CHECK(piece.keys.begin == next);
                        CHECK_FALSE(piece.keys.empty());
                        CHECK(piece.owner != before);
                        for (uint64_t key = piece.keys.begin; key < piece.keys.end; ++key)
                            CHECK(ring.owner(map.position(key)) == piece.owner);
                        next = piece.keys.end;
                        before = piece.owner;
                    }
                    CHECK(next == n);
                }
            }
        }
    }

    TEST_CASE("what the shards own adds up to each dense table, piece by piece as it is split") {
        const Assignment ring = made({2, 3, 5, 4});
        for (const uint64_t n : {uint64_t{1}, uint64_t{29}, uint64_t{1000}, kLast}) {
            std::vector<std::vector<KeyRange>> split(ring.shard_count());
            for (const KeySegment& piece : ring.split_dense({0, n}, n))
                split[piece.owner].push_back(piece.keys);
            for (uint32_t shard = 0; shard < ring.shard_count(); ++shard)
                CHECK(ring.owned(shard).dense_keys(n) == split[shard]);
        }
    }

    TEST_CASE("a ring of nothing or of too much is refused") {
        CHECK(Assignment::make(1, {0, 1, 1, 1}).code() == Errc::kInvalidArgument);
        CHECK(Assignment::make(1, {1, 0, 1, 1}).code() == Errc::kInvalidArgument);
        CHECK(Assignment::make(1, {1, 1, 0, 1}).code() == Errc::kInvalidArgument);
        CHECK(Assignment::make(1, {~0U, ~0U, ~0U, 1}).code() == Errc::kInvalidArgument);
    }
}
