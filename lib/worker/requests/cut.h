// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Cuts: the contents that take the place of one whose keys have moved.

#include <vector>

#include "lib/key/key_range.h"
#include "lib/ring/view.h"
#include "lib/worker/requests/content.h"

namespace weir {

/// A new content, and who is primary of its keys.
struct Cut {
    uint32_t shard = kNoShard;  ///< kNoShard: nobody has these keys any more
    KeyRange keys;              ///< some of them, for an error that names them
    Content content;
    bool was_sent = false;  ///< a shard may have executed it, as a part of the one before
};

/// Cuts a push or pull by `view`. The contents together have its keys, and its place; none has anything
/// of it but what the caller has and what they own.
///
/// `was_sent`: a push that may have been executed is cut by segment, since a shard remembers by segment what
/// was executed; else by shard.
[[nodiscard]] std::vector<Cut> cut(const Content& from, bool was_sent, const View& view);

/// An empty part, as that of which `part` is, for a shard that waits for one.
[[nodiscard]] Content empty_part(const Content& part, const View& view);

}  // namespace weir
