// SPDX-License-Identifier: Apache-2.0
#include "lib/ring/view.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/ring/random_view.h"
#include "tests/ring/view_step.h"
#include "tests/seed.h"

TEST_SUITE("view") {
    using namespace weir;
    using weir::testing::check_view_step;
    using weir::testing::random_view;
    constexpr uint64_t kLast = ~uint64_t{0};

    /// Two servers with two shards each, on two hosts; four segments; worker 1, after worker 0 left.
    static ViewData small() {
        ViewData view;
        view.epoch = 7;
        view.next_server = 3;
        view.next_shard = 6;
        view.next_worker = 2;
        view.servers = {{0, 0, 10, 1}, {2, 4, 11, 1}};
        view.shards = {{0, 0, 3, "a"}, {1, 0, 3, "b"}, {4, 2, 7, "c"}, {5, 2, 5, "d"}};
        view.segments.resize(4);
        view.segments[0].primary = 0;
        view.segments[1] = {.first = 100, .primary = 4, .backups = {1, kNoShard, kNoShard}};
        view.segments[2] = {.first = 200, .primary = 0, .learner = {5, 0, 6}};
        view.segments[3] = {.first = uint64_t{1} << 63, .primary = 4};
        view.workers = {{1, 1, 1}};
        view.members = {{1, 3, 12}, {1, 4, kNoIteration}};
        return view;
    }

    TEST_CASE("every position is in the segment that the view finds for it") {
        WEIR_TEST_SEED(seed, 31);
        Random random(seed);
        for (int round = 0; round < 200; ++round) {
            const View view = random_view(random, 9);
            uint64_t next = 0;
            for (size_t i = 0; i < view.segments().size(); ++i) {
                const PositionRange range = view.range(i);
                CHECK(range.first == next);
                for (const uint64_t at :
                     {range.first, range.last, range.first + (range.last - range.first) / 3}) {
                    CHECK(view.segment_index(at) == i);
                    CHECK(view.owner(at) == view.segments()[i].primary);
                }
                next = range.last + 1;
            }
            CHECK(next == 0);
        }
    }

    TEST_CASE("every key of a dense table is in exactly one piece, its position's owner's") {
        WEIR_TEST_SEED(seed, 33);
        Random random(seed);
        for (int round = 0; round < 300; ++round) {
            const View view = random_view(random, 9);
            const uint64_t n = 1 + random.below(130);
            const PositionMap map = PositionMap::dense(n);
            for (const SplitBy by : {SplitBy::kOwner, SplitBy::kSegment}) {
                const uint64_t begin = random.below(n + 1);
                uint64_t next = begin;
                for (const OwnedKeys& piece : view.split_dense({begin, n + 3}, n, by)) {
                    CHECK(piece.keys.begin == next);
                    CHECK_FALSE(piece.keys.empty());
                    for (uint64_t key = next; key < piece.keys.end; ++key) {
                        CHECK(view.owner(map.position(key)) == piece.owner);
                        if (by == SplitBy::kSegment) {
                            CHECK(view.segment_index(map.position(key)) ==
                                  view.segment_index(map.position(next)));
                        }
                    }
                    next = piece.keys.end;
                }
                CHECK(next == n);
            }
        }
    }

    TEST_CASE("what the shards own adds up to each dense table, piece by piece as it is split") {
        const View view = *View::make(small());
        for (const uint64_t n : {uint64_t{1}, uint64_t{29}, uint64_t{1000}, kLast}) {
            for (const ViewShard& shard : view.shards()) {
                std::vector<KeyRange> mine;
                for (const OwnedKeys& piece : view.split_dense({0, n}, n, SplitBy::kOwner)) {
                    if (piece.owner == shard.number) mine.push_back(piece.keys);
                }
                CHECK(view.owned(shard.number).dense_keys(n) == mine);
            }
        }
        CHECK(view.segments_of(4) == std::vector<uint32_t>{1, 3});
        CHECK(view.segments_of(kNoShard).empty());
    }

    TEST_CASE("servers, shards, workers and members are found by number") {
        const View view = *View::make(small());
        CHECK(view.server(2)->rank == 4);
        CHECK(view.server(1) == nullptr);
        CHECK(view.shard(5)->address == "d");
        CHECK(view.shard(kNoShard) == nullptr);
        CHECK(view.first_iteration(1, 3) == 12);
        CHECK(view.first_iteration(1, 4) == kNoIteration);
        CHECK(view.first_iteration(1, 5) == 1);
        CHECK(view.first_iteration(0, 5) == kNoIteration);
        CHECK_FALSE(view.holds_nothing(2));
        CHECK(View().holds_nothing(0));
        CHECK(View().owner(kLast) == kNoShard);
    }

    TEST_CASE("a view that breaks a rule is refused, and the rule is named") {
        REQUIRE(View::make(small()));

        struct Case {
            const char* says;
            std::function<void(ViewData&)> spoil;
        };

        using V = ViewData&;
        const Case cases[] = {
            {"do not begin at position 0", [](V v) { v.segments.clear(); }},
            {"do not begin at position 0", [](V v) { v.segments[0].first = 1; }},
            {"not in ascending order", [](V v) { v.segments[1].first = 200; }},
            {"segments; the most is", [](V v) { v.segments.resize(70'000); }},
            {"not in ascending order", [](V v) { std::swap(v.shards[0], v.shards[1]); }},
            {"not in ascending order", [](V v) { v.servers[1].number = 0; }},
            {"server 2 is listed, but the next", [](V v) { v.next_server = 2; }},
            {"shard 5 is listed, but the next", [](V v) { v.next_shard = 5; }},
            {"worker 1 is listed, but the next", [](V v) { v.next_worker = 1; }},
            {"worker 1 has withdrawn iterations, but has not left",
             [](V v) { v.withdrawals = {{.worker = 1}}; }},
            {"worker 2 has withdrawn iterations, but has not left",
             [](V v) { v.withdrawals = {{.worker = 2}}; }},
            {"worker 0 has withdrawn iterations 0 to 1 of table 3",
             [](V v) { v.withdrawals = {{.worker = 0, .table = 3, .first_iteration = 0}}; }},
            {"worker 0 has withdrawn iterations 2 to 1 of table 3",
             [](V v) { v.withdrawals = {{.worker = 0, .table = 3, .first_iteration = 2}}; }},
            {"withdrawal 3 after 3",
             [](V v) { v.withdrawals.assign(2, {.worker = 0, .table = 3}); }},
            {"has weight 0", [](V v) { v.servers[0].weight = 0; }},
            {"of server 1, which is not listed", [](V v) { v.shards[0].server = 1; }},
            {"has no shard",
             [](V v) {
                 v.servers.insert(v.servers.begin() + 1, {1, 0, 0, 1});
             }},
            {"since epoch 8, which is to come", [](V v) { v.shards[0].since = 8; }},
            {"an address of 513 bytes", [](V v) { v.shards[0].address.resize(513); }},
            {"held by shard 2, which is not listed", [](V v) { v.segments[0].primary = 2; }},
            {"held by shard 3, which is not listed", [](V v) { v.segments[1].backups[0] = 3; }},
            {"has two copies on server 2", [](V v) { v.segments[1].backups[0] = 5; }},
            {"has a gap",
             [](V v) { std::swap(v.segments[1].backups[0], v.segments[1].backups[1]); }},
            {"no primary, but a copy", [](V v) { v.segments[1].primary = kNoShard; }},
            {"no primary, but a copy", [](V v) { v.segments[2].primary = kNoShard; }},
            {"learned by shard 9, which", [](V v) { v.segments[2].learner.shard = 9; }},
            {"of epoch 8, which is to come", [](V v) { v.segments[2].learner.named = 8; }},
            {"half a learner", [](V v) { v.segments[2].learner.shard = kNoShard; }},
            {"which has a copy", [](V v) { v.segments[2].learner.shard = 0; }},
            {"which has a copy",
             [](V v) {
                 v.segments[1].learner = {5, 1, 7};
             }},
            {"replaces a shard without a copy", [](V v) { v.segments[2].learner.replaces = 4; }},
            {"member of table 3, but is not", [](V v) { v.members[0].worker = 0; }},
            {"from iteration 0", [](V v) { v.members[0].first_iteration = 0; }},
            {"new tables from iteration 2", [](V v) { v.workers[0].first_iteration = 2; }},
        };
        for (const Case& one : cases) {
            ViewData view = small();
            one.spoil(view);
            const Result<View> made = View::make(std::move(view));
            CAPTURE(one.says);
            REQUIRE_FALSE(made);
            CHECK(made.code() == Errc::kInvalidArgument);
            CHECK_MESSAGE(made.error().text().find(one.says) != std::string::npos,
                          made.error().text());
        }
    }

    TEST_CASE("a step between two views that breaks a rule is refused, and the rule is named") {
        const ViewData before = small();
        ViewData quiet = before;
        quiet.epoch = 8;
        REQUIRE(check_view_step(before, quiet));

        struct Case {
            const char* says;
            std::function<void(ViewData&)> change;
        };

        using V = ViewData&;
        const Case cases[] = {
            {"",
             [](V v) { v.segments.insert(v.segments.begin() + 1, {.first = 9, .primary = 0}); }},
            {"",
             [](V v) {
                 v.segments[2] = {.first = 200, .primary = 5};
                 v.shards[0].since = v.shards[3].since = 8;
             }},
            {"",
             [](V v) {
                 v.segments[0].learner = {4, 0, 8};
             }},
            {"only go up", [](V v) { v.epoch = 7; }},
            {"went down from 6 to 5",
             [](V v) {
                 v.shards.pop_back();
                 v.next_shard = 5;
             }},
            {"worker 0 is used twice",
             [](V v) { v.workers.insert(v.workers.begin(), ViewWorker{}); }},
            {"is joined", [](V v) { v.segments.erase(v.segments.begin() + 1); }},
            {"is joined", [](V v) { v.segments.pop_back(); }},
            {"goes to shard 4, which has no copy", [](V v) { v.segments[1].first = 50; }},
            {"is joined", [](V v) { v.segments[1].first = 150; }},
            {"cut while it has a learner",
             [](V v) { v.segments.insert(v.segments.begin() + 3, {.first = 300, .primary = 0}); }},
            {"goes to shard 5, which has no copy", [](V v) { v.segments[0].primary = 5; }},
            {"since epoch 8, not 3", [](V v) { v.segments[2] = {.first = 200, .primary = 5}; }},
            {"since epoch 3, not 8", [](V v) { v.shards[1].since = 8; }},
            {"a new learner of epoch 7",
             [](V v) {
                 v.segments[0].learner = {4, 0, 7};
             }},
            {"loses a primary role and gets one",
             [](V v) {
                 v.segments[1] = {.first = 100, .primary = 1};
                 v.segments[2] = {.first = 200, .primary = 5};
                 for (ViewShard& shard : v.shards)
                     shard.since = 8;
             }},
        };
        for (const Case& one : cases) {
            ViewData after = quiet;
            one.change(after);
            const Status step = check_view_step(before, after);
            CAPTURE(one.says);
            CHECK(step.has_value() == std::string(one.says).empty());
            if (!step) {
                CHECK_MESSAGE(step.error().text().find(one.says) != std::string::npos,
                              step.error().text());
            }
        }
    }
}
