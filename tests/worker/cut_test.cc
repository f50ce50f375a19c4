// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/cut.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/ring/plan.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr uint64_t kCutKeys = 1000;  // of the table
constexpr uint32_t kCutRowBytes = 2 * sizeof(uint64_t);

/// The caller's keys and values of a push or pull: each row says of which key it is.
struct Callers {
    std::vector<uint64_t> keys;
    std::vector<uint32_t> rows;  ///< of the keys, ascending
    std::vector<uint64_t> values;

    Callers(Random& random, size_t count, bool is_range, bool is_scattered) {
        std::set<uint64_t> chosen;
        const uint64_t first = random.below(kCutKeys - count);
        for (uint64_t i = 0; chosen.size() < count; ++i)
            chosen.insert(is_range ? first + i : random.below(kCutKeys));
        keys.assign(chosen.begin(), chosen.end());
        for (uint32_t row = 0; rows.size() < count; ++row)
            if (!is_scattered || random.below(3) == 0) rows.push_back(row);
        values.resize(2 * (size_t{rows.back()} + 1));
        for (size_t i = 0; i < count; ++i)
            values[2 * rows[i]] = values[2 * rows[i] + 1] = keys[i];
    }
};

View view_of(uint32_t servers) {
    NewServer server;
    server.addresses.resize(2, "here");
    return std::move(first_view(std::vector(servers, server), 4)).value();
}

Content content_of(Callers& callers, wire::Kind kind, bool is_range, bool is_scattered,
                   const PositionMap& positions, bool gets_values = false) {
    Content content;
    content.kind = kind;
    content.is_range = is_range;
    content.table = 3;
    if (kind == wire::Kind::kPush) content.row_bytes = kCutRowBytes;
    if (kind == wire::Kind::kPull || gets_values) {
        content.out_row_bytes = kCutRowBytes;
        content.caller_row_bytes = kCutRowBytes;
    }
    content.count = static_cast<uint32_t>(callers.keys.size());
    content.positions = positions;
    content.place.time = 77;
    if (is_range) content.first = callers.keys.front();
    if (!is_range) content.keys = callers.keys.data();
    if (is_scattered) content.order = callers.rows;
    const auto bytes = std::as_writable_bytes(std::span(callers.values));
    if (content.is_push()) content.values = bytes;
    if (content.has_out()) content.out = bytes;
    return content;
}

/// Checks that the values of each key are where the content says.
void check_rows(const Content& content, std::multiset<uint64_t>& seen) {
    const std::byte* const memory = content.is_push() ? content.values.data() : content.out.data();
    if (content.is_push() && content.has_out()) CHECK(content.out.data() == memory);
    for (uint32_t i = 0; i < content.count; ++i) {
        const uint64_t key = content.is_range ? content.first + i : content.list()[i];
        const size_t row = content.order.empty() ? i : content.order[i];
        uint64_t value = 0;
        std::memcpy(&value, memory + row * kCutRowBytes, sizeof value);
        CHECK(value == key);
        seen.insert(key);
    }
}

}  // namespace

TEST_SUITE("cut") {
    TEST_CASE("cut once or twice, each key has its values, and the place of the content") {
        WEIR_TEST_SEED(seed, 6);
        Random random(seed);
        const View before = view_of(3);
        const View after = view_of(2);
        for (int round = 0; round < 200; ++round) {
            const bool is_range = random.below(3) == 0;
            const bool is_scattered = !is_range && random.below(2) == 0;
            const bool is_dense = is_range || random.below(2) == 0;
            const bool was_sent = random.below(2) == 0;
            const auto kind = random.below(2) == 0 ? wire::Kind::kPush : wire::Kind::kPull;
            Callers callers(random, 1 + random.below(300), is_range, is_scattered);
            const PositionMap positions =
                is_dense ? PositionMap::dense(kCutKeys) : PositionMap::sparse();
            Content whole =
                content_of(callers, kind, is_range, is_scattered, positions, random.below(2) == 0);
            if (whole.has_out() && random.below(2) == 0) whole.out_row_bytes /= 2;  // is widened
            std::multiset<uint64_t> seen;
            for (const Cut& one : cut(whole, was_sent, before)) {
                CHECK(one.was_sent == was_sent);
                for (const Cut& last : cut(one.content, one.was_sent, after)) {
                    const Content& content = last.content;
                    CHECK(content.place.time == whole.place.time);
                    CHECK(content.epoch == static_cast<uint32_t>(after.epoch()));
                    CHECK(content.table == whole.table);
                    CHECK(content.kind == whole.kind);
                    const uint64_t first =
                        content.is_range ? content.first : content.list().front();
                    CHECK(content.place.position == positions.position(first));
                    CHECK(after.owner(content.place.position) == last.shard);
                    check_rows(content, seen);
                }
            }
            CHECK(seen == std::multiset<uint64_t>(callers.keys.begin(), callers.keys.end()));
        }
    }

    TEST_CASE("a push that was sent is cut by segment; a pull and a new push by shard") {
        WEIR_TEST_SEED(seed, 7);
        Random random(seed);
        const View view = view_of(3);
        Callers callers(random, 900, true, false);
        const PositionMap positions = PositionMap::dense(kCutKeys);
        const Content push = content_of(callers, wire::Kind::kPush, true, false, positions);
        const auto is_in_one_segment = [&](const Cut& one) {
            const uint64_t last = one.content.first + one.content.count - 1;
            return view.segment_index(positions.position(one.content.first)) ==
                   view.segment_index(positions.position(last));
        };
        const std::vector<Cut> again = cut(push, true, view);
        CHECK(std::ranges::all_of(again, is_in_one_segment));
        CHECK(cut(push, false, view).size() <= again.size());
    }

    TEST_CASE("a part that has failed, or is empty, has no keys and no arguments of the caller") {
        WEIR_TEST_SEED(seed, 8);
        Random random(seed);
        const View view = view_of(2);
        Callers callers(random, 20, false, true);
        Content part = content_of(callers, wire::Kind::kPush, false, true, PositionMap::sparse());
        part.is_part = true;
        part.iteration = 9;
        part.parts = 2;
        const Content failed = failed_part(part, Errc::kOk);
        CHECK(failed.part_status == Errc::kCancelled);
        CHECK(failed_part(part, Errc::kNoMemory).part_status == Errc::kNoMemory);
        const Content empty = empty_part(part, view);
        CHECK(empty.part_status == Errc::kOk);
        for (const Content* const content : {&failed, &empty}) {
            CHECK(content->count == 0);
            CHECK(content->is_range);
            CHECK(content->list().empty());
            CHECK(content->values.empty());
            CHECK(content->iteration == 9);
            CHECK(content->place.time == 77);
        }
        CHECK(cut(failed, true, view).empty());
    }
}

}  // namespace weir::test
