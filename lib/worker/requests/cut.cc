// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/cut.h"

#include <memory>

#include "lib/base/check.h"
#include "lib/key/key_list.h"
#include "lib/worker/requests/cut_list.h"

namespace weir {
namespace {

Content begin_cut(const Content& from, const View& view) {
    Content content = from.without_keys();
    content.epoch = static_cast<uint32_t>(view.epoch());
    content.extras = from.extras;
    return content;
}

/// A run of rows of the caller's, from row `row` on.
void take_rows(const Content& from, size_t row, Content& content) {
    if (from.is_push())
        content.values = from.values.subspan(row * from.row_bytes, content.pushed_bytes());
    if (from.has_out())
        content.out = from.out.subspan(row * from.caller_row_bytes, content.caller_bytes());
}

std::vector<Cut> cut_range(const Content& from, SplitBy by, const View& view) {
    WEIR_CHECK(from.order.empty());
    std::vector<Cut> cuts;
    const KeyRange keys{from.first, from.first + from.count};
    for (const OwnedKeys& owned : view.split_dense(keys, from.positions.key_count(), by)) {
        Cut& one = cuts.emplace_back(Cut{owned.owner, owned.keys, begin_cut(from, view)});
        Content& content = one.content;
        content.is_range = true;
        content.first = owned.keys.begin;
        content.count = static_cast<uint32_t>(owned.keys.key_count());
        content.place.position = from.positions.position(owned.keys.begin);
        take_rows(from, owned.keys.begin - keys.begin, content);
    }
    return cuts;
}

std::vector<Cut> cut_list(const Content& from, SplitBy by, const View& view) {
    const auto list =
        std::make_shared<const CutList>(from.list(), from.order, view, from.positions, by);
    std::vector<Cut> cuts;
    for (const CutList::Piece& piece : list->pieces()) {
        const std::span<const uint64_t> keys = list->keys(piece);
        const KeyRange some{keys.front(), keys.front() + 1};
        Cut& one = cuts.emplace_back(Cut{piece.shard, some, begin_cut(from, view)});
        Content& content = one.content;
        content.keeps = list;
        content.keys = keys.data();
        content.first = hash_key_list(keys);
        content.count = static_cast<uint32_t>(keys.size());
        content.place.position = piece.position;
        content.values = from.values;
        content.out = from.out;
        if (!list->is_run(piece)) {
            content.order = list->rows(piece);
            continue;
        }
        take_rows(from, list->rows(piece).front(), content);
    }
    return cuts;
}

}  // namespace

std::vector<Cut> cut(const Content& from, bool was_sent, const View& view) {
    WEIR_CHECK(from.is_piece());
    const SplitBy by = from.is_push() && was_sent ? SplitBy::kSegment : SplitBy::kOwner;
    std::vector<Cut> cuts = from.is_range ? cut_range(from, by, view) : cut_list(from, by, view);
    uint64_t count = 0;
    for (Cut& one : cuts) {
        one.was_sent = was_sent;
        count += one.content.count;
    }
    WEIR_CHECK(count == from.count);  // no key is lost, or in two of them
    return cuts;
}

Content empty_part(const Content& part, const View& view) {
    WEIR_CHECK(part.is_part);
    Content empty = begin_cut(part, view);
    empty.is_range = true;
    empty.place.position = 0;
    return empty;
}

}  // namespace weir
