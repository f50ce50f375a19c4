// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/content.h"

#include <string>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

Content Content::without_keys() const {
    Content bare;
    bare.kind = kind;
    bare.value_type = value_type;
    bare.has_whole_rows = has_whole_rows;
    bare.erases = erases;
    bare.stamp = stamp;
    bare.is_part = is_part;
    bare.part_status = part_status;
    bare.table = table;
    bare.epoch = epoch;
    bare.row_bytes = row_bytes;
    bare.out_row_bytes = out_row_bytes;
    bare.caller_row_bytes = caller_row_bytes;
    bare.asks_written = asks_written;
    bare.parts = parts;
    bare.iteration = iteration;
    bare.place = place;
    bare.positions = positions;
    bare.filters = filters;
    return bare;
}

Content failed_part(const Content& part, Errc why) {
    WEIR_CHECK(part.is_part);
    Content failed = part.without_keys();
    failed.is_range = true;
    failed.part_status = why == Errc::kOk ? Errc::kCancelled : why;
    return failed;
}

Content pull_after(const Content& push) {
    WEIR_CHECK(push.is_ordered() && push.has_out());
    Content pull = push;
    pull.kind = wire::Kind::kPull;
    pull.row_bytes = 0;
    pull.place = {};
    pull.values = {};
    pull.filters = nullptr;
    pull.extras = nullptr;
    pull.stamp = 0;
    return pull;
}

std::string_view fate_of_push(wire::Kind kind) {
    return kind == wire::Kind::kPush ? "; the push may have been applied, once at most" : "";
}

Error with_keys(const Status& why, const Content& content) {
    std::string text = why.error().text();
    if (content.is_piece() && content.count > 0) {
        const bool is_range = content.is_range;
        const uint64_t first = is_range ? content.first : content.list().front();
        const uint64_t last = is_range ? content.first + content.count - 1 : content.list().back();
        text += fmt::format("; it has {} keys of this call, {} to {}", content.count, first, last);
    }
    return {why.code(), text.append(fate_of_push(content.kind))};
}

}  // namespace weir
