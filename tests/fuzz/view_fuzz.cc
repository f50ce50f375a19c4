// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes that a peer sends as the parts of a view are refused or decoded. Nothing
/// is read outside of a part. A change is the same after it is split into parts and joined again,
/// and a view made from it has an answer for every position. Input: parts, each after its length
/// (2 bytes).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/ring/view_change.h"
#include "lib/ring/view_check.h"
#include "tests/ring/view_step.h"

namespace {

using namespace weir;
using Bytes = std::span<const std::byte>;

/// A view of epoch 1. The changes that begin at epoch 1 apply to it.
View first_view() {
    ViewData data;
    data.epoch = 1;
    data.next_server = 2;
    data.next_shard = 2;
    data.next_worker = 1;
    data.servers = {{0, 0, 1, 1}, {1, 1, 2, 1}};
    data.shards = {{0, 0, 1, "a"}, {1, 1, 1, "b"}};
    data.segments.resize(2);
    data.segments[0].primary = 0;
    data.segments[1].first = uint64_t{1} << 63;
    data.segments[1].primary = 1;
    data.workers = {{0, 2, 1}};
    return std::move(View::make(std::move(data))).value();
}

void check_view_of(const View& before, const ViewChange& change) {
    const Result<View> view = apply(before, change);
    if (!view) {
        WEIR_CHECK(!view.error().text().empty());
        return;
    }
    WEIR_CHECK(check_view(view->data()));
    WEIR_CHECK(*apply(before, view_change(before, *view)) == *view);
    for (size_t i = 0; i < view->segments().size(); ++i) {
        const PositionRange range = view->range(i);
        WEIR_CHECK(view->segment_index(range.first) == i && view->segment_index(range.last) == i);
    }
    uint64_t keys = 0;
    for (const OwnedKeys& piece : view->split_dense({0, 1000}, 1000, SplitBy::kOwner))
        keys += piece.keys.key_count();
    WEIR_CHECK(keys == 1000);
    (void)testing::check_view_step(before.data(), view->data());
}

void check_parts_of(const ViewChange& change) {
    ViewParts again;
    for (const std::vector<std::byte>& part : encode_parts(change, kViewPartBytesMin)) {
        WEIR_CHECK(part.size() <= kViewPartBytesMin);
        WEIR_CHECK(again.add(part));
    }
    WEIR_CHECK(again.complete() && again.change() == change);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const View before = first_view();
    Bytes input(reinterpret_cast<const std::byte*>(data), size);
    ViewParts parts;
    while (input.size() >= sizeof(uint16_t)) {
        uint16_t length = 0;
        std::memcpy(&length, input.data(), sizeof(length));
        input = input.subspan(sizeof(length));
        const Bytes body = input.first(std::min<size_t>(length, input.size()));
        // A copy of its own, so that the sanitizer sees reads beyond the part.
        const std::vector<std::byte> part(body.begin(), body.end());
        if (!parts.add(part)) return 0;
        input = input.subspan(body.size());
    }
    if (!parts.complete()) return 0;
    check_parts_of(parts.change());
    check_view_of(View(), parts.change());
    check_view_of(before, parts.change());
    return 0;
}
