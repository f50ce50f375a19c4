// SPDX-License-Identifier: Apache-2.0
/// \file
/// Walks through a KeyIndex, which list keys and remove them, against a map.
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/index/key_index.h"
#include "tests/seed.h"
#include "tests/store/next_rows.h"

TEST_SUITE("key_walk") {
    using namespace weir;
    using weir::testing::next_rows;

    static uint64_t position(uint64_t key) {
        return PositionMap::sparse().position(key);
    }

    static PositionSet eighth(uint64_t number) {
        const PositionRange range{number << 61, number << 61 | ~uint64_t{0} >> 3};
        return PositionSet(std::span(&range, 1));
    }

    /// An index, what should be in it, and walks that stop and go on while it changes.
    class WalkHistory {
    public:
        WalkHistory(uint64_t seed, KeyCompare compare)
            : random_(seed), index_(memory_, {.expected_keys = 0, .compare = compare}) {
            for (Walk& walk : walks_)
                begin(walk);
        }

        void run(size_t keys_wanted) {
            while (right_ && index_.next_row() < keys_wanted) {
                switch (random_.below(10)) {
                    case 0: remove(); break;
                    case 1:
                    case 2:
                    case 3: insert(); break;
                    default: step(walks_[random_.below(walks_.size())]); break;
                }
            }
            CHECK(right_);
            CHECK(walks_ended_ > 3);
            CHECK(removals_ > 0);
        }

    private:
        struct Walk {
            KeyCursor cursor;
            PositionSet positions;
            std::unordered_set<uint64_t> due;     // there at the start, and still
            std::unordered_set<uint64_t> listed;  // so far
        };

        void begin(Walk& walk) {
            walk.cursor = {};
            walk.positions = random_.below(3) == 0 ? PositionSet::whole_ring()
                                                   : eighth(random_.below(8)).with(eighth(7));
            walk.due.clear();
            walk.listed.clear();
            for (const auto& [key, row] : model_) {
                if (walk.positions.contains(position(key))) walk.due.insert(key);
            }
        }

        void step(Walk& walk) {
            std::vector<uint64_t> keys;
            std::vector<uint32_t> rows;
            const size_t most = 1 + random_.below(random_.below(2) == 0 ? 5 : 30'000);
            index_.list(walk.cursor, walk.positions, most, 1 + random_.below(20'000), keys, rows);
            right_ &= keys.size() <= most && rows.size() == keys.size();
            for (size_t i = 0; i < keys.size(); ++i) {
                const auto at = model_.find(keys[i]);
                right_ &= at != model_.end() && at->second == rows[i];
                right_ &= walk.listed.insert(keys[i]).second;
                right_ &= walk.positions.contains(position(keys[i]));
                walk.due.erase(keys[i]);
            }
            if (!walk.cursor.at_end) return;
            right_ &= walk.due.empty();
            ++walks_ended_;
            begin(walk);
        }

        void insert() {
            std::set<uint64_t> chosen;
            for (uint64_t i = 1 + random_.below(5000); i > 0; --i) {
                const uint64_t key = random_.below(4) == 0 ? random_.below(300'000) : random_();
                if (held_.contains(position(key))) chosen.insert(key);
            }
            const std::vector<uint64_t> keys(chosen.begin(), chosen.end());
            std::vector<uint32_t> rows(keys.size());
            const size_t missing = index_.find(keys, rows);
            size_t model_missing = 0;
            for (size_t i = 0; i < keys.size(); ++i) {
                const auto at = model_.find(keys[i]);
                right_ &= rows[i] == (at == model_.end() ? kNoRow : at->second);
                model_missing += at == model_.end() ? 1 : 0;
            }
            right_ &= missing == model_missing;
            if (index_.has_room_for(keys.size())) {
                index_.upsert(keys, rows);
            } else {
                REQUIRE(index_.insert_missing(keys, rows, next_rows(index_, missing)));
            }
            for (size_t i = 0; i < keys.size(); ++i)
                right_ &= rows[i] == model_.try_emplace(keys[i], rows[i]).first->second;
            right_ &= index_.size() == model_.size();
        }

        /// Some more steps of a removal, or the start of the next one.
        void remove() {
            if (removal_.at_end) {
                removal_ = {};
                held_ = held_.with(eighth(giving_up_));  // gone by now: it may be used again
                giving_up_ = random_.below(8);
                held_ = held_.without(eighth(giving_up_));
            }
            std::vector<uint32_t> freed;
            index_.remove_outside(removal_, held_, 1 + random_.below(10'000), freed);
            std::unordered_set<uint32_t> rows(freed.begin(), freed.end());
            right_ &= rows.size() == freed.size();
            for (auto at = model_.begin(); at != model_.end();) {
                if (rows.erase(at->second) == 0) {
                    ++at;
                    continue;
                }
                right_ &= !held_.contains(position(at->first));
                for (Walk& walk : walks_) {
                    walk.due.erase(at->first);
                    walk.listed.erase(at->first);  // may come again, as another row
                }
                at = model_.erase(at);
            }
            right_ &= rows.empty() && index_.size() == model_.size();
            if (!removal_.at_end) return;
            ++removals_;
            for (const auto& [key, row] : model_)
                right_ &= held_.contains(position(key));
        }

        Random random_;
        HeapMemory memory_;
        KeyIndex index_;
        std::unordered_map<uint64_t, uint32_t> model_;  // key -> row
        std::vector<Walk> walks_{3};
        PositionSet held_ = PositionSet::whole_ring();
        KeyCursor removal_{.at_end = true};
        uint64_t giving_up_ = 0;
        size_t walks_ended_ = 0;
        size_t removals_ = 0;
        bool right_ = true;
    };

    TEST_CASE("walks list each key once while keys come, go, and the index splits") {
        WEIR_TEST_SEED(seed, 43);
        for (const KeyCompare compare : {KeyCompare::kPortable, best_key_compare()}) {
            for (uint64_t i = 0; i < 3; ++i)
                WalkHistory(seed + i, compare).run(40'000);
            WalkHistory(seed + 3, compare).run(200'000);
        }
    }

    /// Keys that share a bucket under this seed, so that they overflow far.
    static std::vector<uint64_t> colliding_keys(uint64_t seed, uint64_t count) {
        const auto inverse = [](uint64_t odd) {
            uint64_t x = odd;
            for (int i = 0; i < 5; ++i)
                x *= 2 - odd * x;
            return x;
        };
        Random random(seed);
        const uint64_t mask = random();
        const uint64_t multiplier = random() | 1;
        std::vector<uint64_t> keys(count);
        for (uint64_t i = 0; i < count; ++i) {
            // The last bucket of the index: what overflows begins again at the first one.
            uint64_t key = (~uint64_t{0} - i * 977) * inverse(multiplier);
            key ^= key >> 32;
            keys[i] = (key * inverse(KeyHash::kMix)) ^ mask;
        }
        return keys;
    }

    TEST_CASE("keys that all overflow from one bucket are listed and removed like others") {
        constexpr uint64_t kSeed = 7;
        const std::vector<uint64_t> keys = colliding_keys(kSeed, 1000);
        std::vector<uint32_t> rows(keys.size());
        HeapMemory memory;
        KeyIndex index(memory, {.seed = kSeed});
        REQUIRE(index.insert_missing(keys, rows, next_rows(index, index.find(keys, rows))));
        CHECK(index.longest_walk() > 150);
        KeyCursor cursor;
        std::vector<uint64_t> listed;
        std::vector<uint32_t> listed_rows;
        for (int step = 0; !cursor.at_end; ++step) {
            REQUIRE(step < 100'000);
            const size_t before = listed.size();
            index.list(cursor, PositionSet::whole_ring(), 7, 3, listed, listed_rows);
            REQUIRE(listed.size() <= before + 7);
        }
        for (size_t i = 0; i < listed.size(); ++i) {
            uint32_t row = 0;
            CHECK(index.find(std::span(&listed[i], 1), std::span(&row, 1)) == 0);
            CHECK(row == listed_rows[i]);
        }
        std::ranges::sort(listed);
        CHECK(std::ranges::adjacent_find(listed) == listed.end());
        CHECK(listed.size() == keys.size());

        std::vector<uint32_t> freed;
        PositionSet kept = eighth(3);
        for (KeyCursor at; !at.at_end;)
            index.remove_outside(at, kept, 1, freed);
        CHECK(freed.size() + index.size() == keys.size());
        // Nothing is left behind: look-ups walk as far as in an index that never had more.
        CHECK(index.longest_walk() == (index.size() + KeyBucket::kKeys - 1) / KeyBucket::kKeys);
        size_t found = 0;
        for (const uint64_t key : keys) {
            uint32_t row = 0;
            const bool is_there = index.find(std::span(&key, 1), std::span(&row, 1)) == 0;
            CHECK(is_there == kept.contains(position(key)));
            found += is_there ? 1 : 0;
        }
        CHECK(found == index.size());
    }

    TEST_CASE("any cursor ends, and lists each key once at most") {
        WEIR_TEST_SEED(seed, 44);
        Random random(seed);
        HeapMemory memory;
        KeyIndex index(memory);
        std::vector<uint64_t> keys(100'000);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = mix64(i);
        std::vector<uint32_t> rows(keys.size());
        REQUIRE(index.insert_missing(keys, rows, next_rows(index, index.find(keys, rows))));
        for (int i = 0; i < 20; ++i) {
            KeyCursor cursor{.next = i == 0 ? ~uint64_t{0} : random()};
            std::vector<uint64_t> listed;
            std::vector<uint32_t> listed_rows;
            int steps = 0;
            while (!cursor.at_end && ++steps < 1000)
                index.list(cursor, PositionSet::whole_ring(), 5000, 1000, listed, listed_rows);
            CHECK(cursor.at_end);
            std::ranges::sort(listed);
            CHECK(std::ranges::adjacent_find(listed) == listed.end());
        }
    }
}
