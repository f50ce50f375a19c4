// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Request: a push or pull at its shard, from its arrival to its reply; KeptRequests: those that cannot go
/// on yet.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/key/key_list.h"
#include "lib/key/key_range.h"
#include "lib/store/index/known_lists.h"
#include "lib/store/memory.h"
#include "lib/store/row_layout.h"
#include "lib/wire/frame.h"
#include "transport/transport.h"

namespace weir {

struct ShardTable;

/// The frame, and what its shard finds for it. Arguments, keys and values are in its message, or in
/// KeptRequest::carried; in mapped memory of its worker; or in KeptRequest::memory. Those that lie with the worker are
/// to be found anew after each wait. When its body is expanded, its codecs become 0.
struct Request : wire::Frame {
    static constexpr uint32_t kNotKept = ~uint32_t{0};

    transport::ConnectionId connection = 0;
    uint32_t slot = kNotKept;    ///< in KeptRequests
    bool has_been_read = false;  ///< by the Fetcher: keys, values and room are in its memory
    bool was_push = false;       ///< pull: of a push that was executed; as pull_of() makes it
    std::span<const std::byte>
        kept{};  ///< of a body that is expanded: the entries that `values` has; none: all
    std::byte* out = nullptr;     ///< pull: the worker's memory if it is mapped, or nullptr
    std::span<std::byte> room{};  ///< pull of a list, not mapped: buffer for the values

    [[nodiscard]] bool is_kept() const noexcept { return slot != kNotKept; }

    [[nodiscard]] bool has(wire::Flags form) const noexcept { return (header.flags & form) != 0; }

    /// Whether what the reply says may be lost with this shard, unless it is replicated before.
    [[nodiscard]] bool shows_changes() const noexcept { return header.iteration > 0 || was_push; }

    /// Its values are rows as they are stored.
    [[nodiscard]] bool has_whole_rows() const noexcept {
        return (header.encoding & wire::kWholeRows) != 0;
    }

    /// A push without values.
    [[nodiscard]] bool erases() const noexcept { return (header.encoding & wire::kErases) != 0; }

    /// Of one that erases: only rows whose values are all smaller in size.
    [[nodiscard]] std::optional<double> below() const noexcept {
        double bound = 0;
        if (arguments.size() != sizeof bound) return {};
        std::memcpy(&bound, arguments.data(), sizeof bound);
        return bound;
    }

    /// A push without values, that calls a function.
    [[nodiscard]] bool calls() const noexcept {
        return header.kind == wire::Kind::kPush && (header.encoding & wire::kCalls) != 0;
    }

    /// Of a pull.
    [[nodiscard]] bool asks_written() const noexcept {
        return header.kind == wire::Kind::kPull && (header.encoding & wire::kAsksWritten) != 0;
    }

    /// A push: its values, and maybe its keys, are a body that is not expanded yet.
    [[nodiscard]] bool is_encoded() const noexcept { return codecs != 0; }

    /// Size of the arguments, keys and values in its message.
    [[nodiscard]] size_t carried_bytes() const noexcept {
        const size_t of_keys = has(wire::kKeysInline) ? keys.size() : 0;
        const bool has_values = has(wire::kValuesInline) && header.kind == wire::Kind::kPush;
        return arguments.size() + of_keys + (has_values ? values.size() : 0);
    }
};

/// What a push that wants values goes on as, once it was executed. Its keys are where those of the push are.
[[nodiscard]] Request pull_of(const Request& push) noexcept;

/// Of a request that names a range.
[[nodiscard]] inline KeyRange range_of(const Request& request) noexcept {
    return {request.header.first, request.header.first + request.header.count};
}

/// Of a request that names a list, whose keys are here.
[[nodiscard]] inline std::span<const uint64_t> keys_of(const Request& request) noexcept {
    return {reinterpret_cast<const uint64_t*>(request.keys.data()), request.header.count};
}

/// Of one that names a list by its hash.
[[nodiscard]] inline ListId known_list(const Request& request) noexcept {
    const wire::FrameHeader& h = request.header;
    return {h.first, h.count, request.ends.first_key, request.ends.last_key};
}

/// Of a request that has keys.
[[nodiscard]] inline uint64_t first_key_of(const Request& request) noexcept {
    const wire::FrameHeader& h = request.header;
    if ((h.flags & wire::kKeysRange) != 0) return h.first;
    if ((h.flags & wire::kKeysKnown) != 0 || request.has_keys_in_body())
        return request.ends.first_key;
    return keys_of(request)[0];
}

/// Of one key, in a push or pull.
[[nodiscard]] inline size_t row_bytes_of(const Request& request, const RowLayout& layout) noexcept {
    const wire::FrameHeader& h = request.header;
    if (h.encoding != 0) [[unlikely]] {
        if (request.erases() || request.calls()) return 0;
        if (request.has_whole_rows()) return layout.row_bytes();
        if (request.asks_written()) return 1;
    }
    return h.kind == wire::Kind::kPush ? layout.pushed_bytes() : layout.value_bytes();
}

/// What a request waits for: it is in the queue of that, and in no other one.
enum class Wait : uint8_t {
    kNothing,    ///< it is being looked at, or has been replied to
    kView,       ///< the one of its epoch
    kIteration,  ///< until one is closed
    kTurn,       ///< push: for those before it, for pinned rows, or for room in streams
    kBytes,      ///< its keys and values are being read, or are to be
    kWrite,      ///< pull: its values are being written, or are to be
    kClose,      ///< its connection is about to close; its worker sends it again on another one
};

/// A request that waits.
struct KeptRequest : Request {
    std::vector<std::byte> carried;  ///< arguments, keys and values, as in its message
    KnownLists::Entry list;          ///< that it names by its hash: held, so that it stays known
    Wait wait = Wait::kNothing;
    bool is_deferred = false;  ///< as Sessions::add_deferred() counts it
    Errc status = Errc::kOk;   ///< of its reads: kOk, kOutOfRange, kPeerLost, kNoMemory

    /// Of the Fetcher.
    struct Reading {
        Block memory;              ///< keys that are read, then values; each 64-byte aligned
        size_t memory_bytes = 0;   ///< that it needs
        size_t values_offset = 0;  ///< in the memory
        uint32_t reads_open = 0;
        bool keys_posted = false;
        bool posted = false;  ///< nothing left to post
    } reading;

    /// Of PullWrites. The network writes from `room`, or if that is empty from the rows of the range, which
    /// are pinned from posting to completion.
    struct Writing {
        ShardTable* table = nullptr;        ///< must outlive the write
        bool is_replied = false;            ///< its worker gets a reply, not an immediate
        uint64_t shown = 0;                 ///< the last closed iteration when the values were read
        Block scanned = {};                 ///< scan, and pull that takes codecs: where `room` is
        std::vector<std::byte> reply = {};  ///< of these: the body of the reply
    } writing;
};

using RequestQueue = std::deque<uint32_t>;  ///< of slots

/// Thread: the shard's
class KeptRequests {
public:
    /// Copies a request and what its message carried, which the sender can change no more. The reference is
    /// valid until end().
    [[nodiscard]] KeptRequest& keep(const Request& request);

    void end(KeptRequest& request);

    [[nodiscard]] KeptRequest& operator[](size_t slot) noexcept { return slots_[slot]; }

    /// nullptr if there is none, or it waits for something else.
    [[nodiscard]] KeptRequest* find(uint64_t slot, Wait wait) noexcept {
        const bool is_there =
            slot < slots_.size() && slots_[slot].is_kept() && slots_[slot].wait == wait;
        return is_there ? &slots_[slot] : nullptr;
    }

    /// Whether the network writes, or is to write, values of the table.
    [[nodiscard]] bool writes_of(const ShardTable& table) const noexcept;

private:
    std::deque<KeptRequest> slots_;
    std::vector<uint32_t> free_;
};

}  // namespace weir
