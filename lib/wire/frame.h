// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The frame: what travels as one message between client, shard and manager. A header of 32, 48 or
/// 64 bytes, as its kind and flags say, then a body whose parts and sizes the header determines;
/// wire.md beside this file is the specification. All numbers are little-endian.
///
/// Headers are short so that a small push, and every reply to a push, is one cache line of a
/// shared-memory ring: each further line is another transfer between two cores.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"

namespace weir::wire {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

inline constexpr uint32_t kMagic = 0x32524957;  ///< "WIR2": protocol and its version

enum class Kind : uint8_t {
    kPush = 1,         ///< worker -> shard: values for keys
    kPull = 2,         ///< worker -> shard: send the values of keys
    kReply = 3,        ///< shard or manager -> worker: the end of a request
    kHello = 4,        ///< worker -> shard: who I am
    kJoin = 5,         ///< shard or worker -> manager: who I am and where I listen
    kAssignment = 6,   ///< manager -> all: epoch, shards, ring
    kCreateTable = 7,  ///< worker -> manager, manager -> shard: a table's schema
    kOpenTable = 8,    ///< worker -> manager: the schema of a table by name
    kBarrier = 9,      ///< worker -> manager: wait until all workers are here
    kLeave = 10,       ///< worker -> manager: I am done; manager -> shard: a worker is lost;
                       ///< worker -> shard: I give up, and push no further part of an iteration
    kShutdown = 11,    ///< manager -> all: the job is over, or has failed: why
    kStats = 12,       ///< worker -> shard: your counters
    kWithdraw = 13,    ///< worker -> manager: I no longer wait at the barrier of request `first`
};
inline constexpr uint8_t kKindMax = 13;

/// How keys and values travel: exactly one key form and one value form per push or pull.
enum Flags : uint8_t {
    kKeysRange = 1,      ///< keys first .. first + count - 1; nothing in the body
    kKeysInline = 2,     ///< the sorted key list is in the body
    kKeysRemote = 4,     ///< the sorted key list lies in the sender's memory
    kKeysKnown = 8,      ///< only the list's hash: the receiver should remember it
    kValuesInline = 16,  ///< push: values in the body; pull: to be sent in the reply's body
    kValuesRemote = 32,  ///< push: values lie in the sender's memory; pull: write them there
    kAggregate = 64,     ///< push: part of an iteration in which every worker pushes
    kIteration = 128,    ///< the header goes on with `iteration` and `parts`; of a reply: the
                         ///< iteration has failed, `first` is the worker whose part did
};

inline constexpr uint8_t kKeyForms = kKeysRange | kKeysInline | kKeysRemote | kKeysKnown;
inline constexpr uint8_t kValueForms = kValuesInline | kValuesRemote;

/// As in memory, so on the wire, up to header_bytes().
struct FrameHeader {
    // of every frame
    uint32_t magic = kMagic;
    Kind kind = Kind::kReply;
    uint8_t flags = 0;
    uint8_t value_type = 0;  ///< weir::ValueType of the sender's table
    uint8_t reserved = 0;    ///< zero
    uint64_t request = 0;    ///< the sender's number for this request, echoed in the reply
    uint64_t first = 0;  ///< kKeysRange: first key; other forms: hash of the list; kReply: detail
    uint32_t body_bytes = 0;  ///< length of what follows the header
    /// kReply: how the request ended. kPush with kAggregate: not kOk if the worker cannot send this
    /// part, which then has no keys.
    Errc status = Errc::kOk;
    uint16_t reserved2 = 0;  ///< zero
    // of a push or pull, too
    uint32_t epoch = 0;  ///< the sender's assignment of ranges
    uint32_t table = 0;  ///< the table's number
    uint32_t width = 0;  ///< values per key of the sender's table
    uint32_t count = 0;  ///< keys
    // and of one with kIteration
    uint64_t iteration = 0;  ///< push: part of this one; pull: wait until it was applied; never 0
    uint32_t parts = 0;  ///< kAggregate: requests of this worker to this shard in this iteration
    uint32_t reserved3 = 0;  ///< zero
};

static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, request) == 8 && offsetof(FrameHeader, first) == 16 &&
              offsetof(FrameHeader, body_bytes) == 24 && offsetof(FrameHeader, epoch) == 32 &&
              offsetof(FrameHeader, count) == 44 && offsetof(FrameHeader, iteration) == 48);

[[nodiscard]] inline FrameHeader header_of(Kind kind) noexcept {
    FrameHeader header;
    header.kind = kind;
    return header;
}

inline constexpr size_t kHeaderBytesMin = offsetof(FrameHeader, epoch);

/// How much of a header travels.
[[nodiscard]] constexpr size_t header_bytes(const FrameHeader& header) noexcept {
    if (header.kind != Kind::kPush && header.kind != Kind::kPull) return kHeaderBytesMin;
    return (header.flags & kIteration) != 0 ? sizeof(FrameHeader)
                                            : offsetof(FrameHeader, iteration);
}

/// The bytes that are sent.
[[nodiscard]] inline std::span<const std::byte> bytes_of(const FrameHeader& header) noexcept {
    return std::as_bytes(std::span(&header, 1)).first(header_bytes(header));
}

/// Memory of the sender, as its transport describes it; opaque to this layer.
struct MemoryHandle {
    uint64_t address = 0;
    uint64_t length_bytes = 0;
    uint64_t key = 0;
};

static_assert(sizeof(MemoryHandle) == 24);

/// What a known list is named by, beside hash and count in the header: its ends.
struct ListEnds {
    uint64_t first_key = 0;
    uint64_t last_key = 0;
};

static_assert(sizeof(ListEnds) == 16);

/// A received frame, taken apart. The spans point into the message.
struct Frame {
    FrameHeader header;
    MemoryHandle keys_at;             ///< with kKeysRemote
    MemoryHandle values_at;           ///< with kValuesRemote
    ListEnds ends;                    ///< with kKeysKnown
    std::span<const std::byte> keys;  ///< with kKeysInline: count * 8 bytes, 8-byte aligned
    std::span<const std::byte>
        values;  ///< push with kValuesInline: the rest; other kinds: the body
};

/// The most keys that one push or pull may name; longer lists are sent in pieces.
inline constexpr uint64_t kRequestKeysMax = 1u << 18;
/// More bytes of values than this are sent in pieces of whole rows ...
inline constexpr uint64_t kPieceBytesMax = 4u << 20;
/// ... of which one push or pull moves at most so many: a row is not cut, however wide.
inline constexpr uint64_t kRequestBytesMax = 16u << 20;

/// What a push or pull seems to be about, for who looks ahead: nothing is checked, and decode() may
/// find something else there. False if the message is too short to be one.
[[nodiscard]] bool glance(std::span<const std::byte> message, FrameHeader& header) noexcept;

/// Takes a message apart. Reads every header byte once, into `frame`; trusts nothing.
/// Errors: kProtocol: too short, wrong magic, unknown kind, contradicting flags, nonzero reserved
///         bits, or sizes that do not add up exactly
[[nodiscard]] Errc decode(std::span<const std::byte> message, Frame& frame) noexcept;

}  // namespace weir::wire
