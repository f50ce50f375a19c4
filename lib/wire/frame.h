// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The frame: what worker, shard and manager send each other. It is a header of 32, 48 or 64
/// bytes, as its kind and flags say, and a body, whose parts and sizes the header determines.
/// Numbers are little-endian. wire.md beside this file is the specification.
///
/// A message is one frame. Pushes and pulls, and the replies to them, may share one.
///
/// Headers are short so that a small push, and every reply to a push, is one cache line of a
/// shared-memory ring: each further line is another transfer between two cores.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/filter/codecs.h"

namespace weir::wire {

static_assert(std::endian::native == std::endian::little, "the wire format is little-endian");

inline constexpr uint32_t kMagic = 0x34524957;  ///< "WIR4": protocol and its version

enum class Kind : uint8_t {
    kPush = 1,         ///< worker -> shard: values for keys
    kPull = 2,         ///< worker -> shard: send the values of keys
    kReply = 3,        ///< to the sender of a request: how it ended
    kHello = 4,        ///< worker -> shard: the worker's number, in `first`, and its pass
    kJoin = 5,         ///< shard or worker -> manager: its role, rank, number and address
    kView = 6,         ///< manager -> all: a part of a view: who holds what, who takes part
    kCreateTable = 7,  ///< worker -> manager, manager -> shard: a table's schema
    kOpenTable = 8,    ///< worker -> manager: the schema of a table by name
    kBarrier = 9,      ///< worker -> manager: reply when all workers wait at the barrier
    kLeave = 10,       ///< worker -> manager: it is done, or gives up and why; worker -> shard:
                       ///< it gives up, and pushes no further part of an iteration; manager ->
                       ///< shard: worker `first` is lost, or, with a status, why its server, which
                       ///< was leaving, stays; manager -> worker: shard `first` is lost, and which
                       ///< parameters are; command, or the server itself -> manager: a server is to
                       ///< leave
    kShutdown = 11,    ///< manager -> shard or worker: the job is over, or why it has failed, or
                       ///< why the manager closes this connection, or, with kAsksToStop in
                       ///< `first`, that the workers are to end; command -> manager: the job is to
                       ///< end, by `first`; shard -> manager: code of the program has thrown here,
                       ///< and the job is to end with this error
    kStats = 12,       ///< worker -> shard: send the shard's counters; worker -> manager: give a
                       ///< sign of life, and say whom the barrier waits for
    kWithdraw = 13,    ///< worker -> manager: it no longer waits for the answer to the barrier or
                       ///< work request `first`
    kScan = 14,        ///< worker -> shard: send the next rows of a table
    kFollow = 15,      ///< shard -> shard: begins a connection from a primary to its learner
    kRecord = 16,      ///< primary -> learner: a part of a record
    kApplied = 17,     ///< learner -> primary: it has applied all up to record `first`
    kStopped = 18,     ///< shard -> manager: it answers no more for what the view of epoch `first`
                       ///< takes from it, and its learners have all of it; manager -> shard:
                       ///< all such shards have said so, and it may drop that
    kComplete = 19,    ///< shard -> manager: a learner has all of its segment, or has no memory for
                       ///< it, or cannot be reached
    kFirstIteration = 20,  ///< manager -> shard: from which iteration on may a new worker take
                           ///< part in some tables; shard -> manager: the answer for one of them
    kAdmit = 21,           ///< manager -> shard or worker that joins a running job: its numbers
    kLink = 22,   ///< shard or worker -> manager: its link goes on over this connection, number
                  ///< `request` of it, and it has taken `first` frames, or (with a status) it ends;
                  ///< manager -> shard or worker: the same number of frames, to go on
    kTaken = 23,  ///< to the other end of a link: `first` frames were taken
    kLifeLine = 24,  ///< process -> manager: this connection, number `request`, tells that the
                     ///< process lives; manager -> process: so it does
    kWork = 25,      ///< worker -> manager: it wants its share of the work, gives it back, or says
                     ///< that it is done, by `first`; manager -> shard: iterations of all tables
                     ///< below number `first` are over
    kLease = 26,     ///< process -> manager: process `first` lives, and asks for a lease, question
                     ///< `request`; manager -> process: it holds for `first` nanoseconds, counted
                     ///< from when it was asked for
    kCheckpoint = 27,  ///< worker -> manager: write one; the reply comes when it is on the disk;
                       ///< manager -> shard: what it does for one; shard -> manager: what is done
    kLeader = 28,      ///< process -> manager, one of several: who leads, now and whenever that
                       ///< changes; manager -> process: in term `request`, manager `first`, counted
                       ///< from 1, does; 0: it does not know. With a status: it takes no part
                       ///< any more
    kDropTable = 29,   ///< worker -> manager: nobody wants the table of this name any more;
                       ///< manager -> shard: so it is with number `first`, or it is refused;
                       ///< shard -> manager: it has dropped that
    kPasses = 30,      ///< manager -> shard: how members prove to it who they are
    kGet = 31,   ///< command -> manager: the values of some keys; manager -> shard: of some that
                 ///< it is primary of; shard -> manager: these
    kRule = 32,  ///< worker -> manager: what servers know of the update rule of this name
    kHeld = 33,  ///< manager -> worker: how many rows do its filters hold back? worker -> manager:
                 ///< `first`
};
inline constexpr uint8_t kKindMax = 33;

/// In `first` of a kShutdown to or from the manager: the workers are to end, in order.
inline constexpr uint64_t kAsksToStop = 1;
/// To the manager: the job ends now.
inline constexpr uint64_t kStopsNow = 2;

/// How keys and values travel: exactly one key form and one value form per push or pull.
enum Flags : uint8_t {
    kKeysRange = 1,      ///< keys first .. first + count - 1; nothing in the body
    kKeysInline = 2,     ///< the sorted key list is in the body
    kKeysRemote = 4,     ///< the sorted key list lies in the sender's memory
    kKeysKnown = 8,      ///< only hash and ends of a list that the receiver should remember
    kValuesInline = 16,  ///< push: values in the body; pull: send them in the reply's body
    kValuesRemote = 32,  ///< push: values lie in the sender's memory; pull: write them there
    kAggregate = 64,     ///< push: part of an iteration in which every worker pushes
    kPushed = 64,        ///< reply with an error: the push was executed; its values cannot be sent
    kIteration = 128,    ///< push or pull: the header has `iteration` and `parts`; reply: the
                         ///< iteration has failed, through worker `first`
};

enum Encoding : uint8_t {
    kHasArguments = 1,  ///< push: the body begins with arguments of the rule: a count, the numbers
    kWantsValues = 2,   ///< push: once it was executed, it goes on as a pull of its keys
    kOutRemote = 4,     ///< with kWantsValues: to the sender's memory; else in the reply's body
    kAsksWritten = 8,   ///< pull: a byte for each key, 1 if it was ever pushed, and not its values
    kCalls =
        8,  ///< push, with kHasArguments: brings no values; in place of arguments the function that changes
            ///< the rows of its keys (CallMessage)
    kWholeRows = 16,  ///< values are whole rows as they are stored, with the state of the rule; a
                      ///< push puts them in the place of what was there
    kErases = 32,     ///< push: brings no values; its keys are as if never written; with kHasStamp,
                      ///< those whose rows have a lower stamp; with kHasArguments, a number, those
                      ///< whose values are all smaller in size
    kHasStamp = 64,   ///< push: the body begins with a stamp, as 8 bytes, before arguments
    kEncoded =
        128,  ///< push: its values are a body (lib/filter/body.h), with keys where its codecs say so;
              ///< pull: its reply has values in any of these codecs, or says where they are
};

/// The most arguments of a push.
inline constexpr uint64_t kArgumentsMax = 8;
/// The most words of 8 bytes of an encoded CallMessage.
inline constexpr uint64_t kCallWordsMax = 68;

inline constexpr uint8_t kKeyForms = kKeysRange | kKeysInline | kKeysRemote | kKeysKnown;
inline constexpr uint8_t kValueForms = kValuesInline | kValuesRemote;

/// In memory as on the wire, where only the first header_bytes() bytes are sent.
struct FrameHeader {
    // in every frame
    uint32_t magic = kMagic;
    Kind kind = Kind::kReply;
    uint8_t flags = 0;
    uint8_t value_type = 0;  ///< weir::ValueType of the sender's table
    uint8_t encoding = 0;    ///< push and pull: Encoding bits; else zero
    uint64_t request = 0;    ///< the sender's number for this request, echoed in the reply
    /// kKeysRange: the first key. kKeysKnown: the list's hash. kReply: detail of an error, or for a
    /// pull the last iteration that was closed when its values were read, 0 if none. kHello: a
    /// worker's number. kLeave from the manager: that of the worker or shard that is lost; of a
    /// command: of the server that is to leave. kWithdraw: the request number of the barrier,
    /// or of the question for work.
    uint64_t first = 0;
    uint32_t body_bytes = 0;  ///< length of what follows the header
    /// kReply, kShutdown: how the request, or the job, ended. In pushes and pulls, predecessor() is
    /// in place of these two.
    Errc status = Errc::kOk;
    uint16_t reserved2 = 0;  ///< zero
    // in pushes and pulls only
    uint32_t epoch = 0;  ///< of the sender's view, the low half
    uint32_t table = 0;  ///< the table's number
    uint32_t time = 0;   ///< of this piece among its worker's in this table, the low half
    uint32_t count = 0;  ///< number of keys
    // in pushes and pulls with kIteration only
    uint64_t iteration = 0;  ///< push: a part of it; pull: reply after it is closed; not 0
    uint32_t parts = 0;  ///< kAggregate: requests of this worker to this shard in this iteration
    /// kAggregate: not kOk if the worker cannot send this part, which then has no keys.
    Errc part_status = Errc::kOk;
    uint16_t reserved3 = 0;  ///< zero

    /// Push and pull: the send number of the piece that was sent before this one on this
    /// connection for this table.
    [[nodiscard]] uint32_t predecessor() const noexcept {
        return static_cast<uint32_t>(status) | uint32_t{reserved2} << 16;
    }

    void set_predecessor(uint32_t number) noexcept {
        status = static_cast<Errc>(number & 0xffff);
        reserved2 = static_cast<uint16_t>(number >> 16);
    }
};

static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, request) == 8 && offsetof(FrameHeader, first) == 16 &&
              offsetof(FrameHeader, body_bytes) == 24 && offsetof(FrameHeader, status) == 28 &&
              offsetof(FrameHeader, epoch) == 32 && offsetof(FrameHeader, count) == 44 &&
              offsetof(FrameHeader, iteration) == 48 && offsetof(FrameHeader, part_status) == 60);

/// A push or pull.
[[nodiscard]] constexpr bool is_request(Kind kind) noexcept {
    return kind == Kind::kPush || kind == Kind::kPull;
}

[[nodiscard]] inline FrameHeader header_of(Kind kind) noexcept {
    FrameHeader header;
    header.kind = kind;
    return header;
}

inline constexpr size_t kHeaderBytesMin = offsetof(FrameHeader, epoch);

/// Size of a header on the wire.
[[nodiscard]] constexpr size_t header_bytes(const FrameHeader& header) noexcept {
    if (header.kind != Kind::kPush && header.kind != Kind::kPull) return kHeaderBytesMin;
    return (header.flags & kIteration) != 0 ? sizeof(FrameHeader)
                                            : offsetof(FrameHeader, iteration);
}

/// The part of `header` that is sent.
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

/// The ends of a known list; with the hash and count in the header they identify it.
struct ListEnds {
    uint64_t first_key = 0;
    uint64_t last_key = 0;
    friend bool operator==(const ListEnds&, const ListEnds&) = default;
};

static_assert(sizeof(ListEnds) == 16);

/// A decoded frame. The spans point into the message.
struct Frame {
    FrameHeader header;
    MemoryHandle keys_at;    ///< with kKeysRemote
    MemoryHandle values_at;  ///< with kValuesRemote
    MemoryHandle out_at;     ///< with kOutRemote
    ListEnds ends;           ///< with kKeysKnown, and of keys that are in an encoded body
    uint32_t number = 0;     ///< not on the wire: the receiver's count of pushes, if it counts this
    uint32_t stamp = 0;      ///< with kHasStamp, not 0
    Codecs codecs = 0;       ///< with kEncoded, not 0: of its body, or a pull takes
    std::span<const std::byte>
        arguments;                    ///< with kHasArguments: doubles; with kCalls: a CallMessage
    std::span<const std::byte> keys;  ///< with kKeysInline: count * 8 bytes, 8-byte aligned
    std::span<const std::byte>
        values;  ///< push with kValuesInline: its values, encoded or not; neither push nor pull: the body

    [[nodiscard]] bool has_keys_in_body() const noexcept {
        return (codecs & kKeyDifferences) != 0 && header.kind == Kind::kPush;
    }
};

/// The most keys in the list of one push or pull; longer lists are sent in pieces. A range may
/// have 16 times as many.
inline constexpr uint64_t kRequestKeysMax = 1u << 18;
/// Requests with more bytes of values than this are sent in pieces of whole rows.
inline constexpr uint64_t kPieceBytesMax = 4u << 20;
/// The most bytes of values in one push or pull: a single row may be longer than kPieceBytesMax.
inline constexpr uint64_t kRequestBytesMax = 16u << 20;

/// Copies the header of a push or pull, up to `iteration`, for a caller that looks ahead. Nothing
/// is checked but kind and length, and the sender may change the message before decode() reads
/// it. False if the message is neither a push nor a pull, or is too short.
[[nodiscard]] bool glance(std::span<const std::byte> message, FrameHeader& header) noexcept;

/// Frames of a message begin at multiples of this; there are zeros between them.
inline constexpr size_t kFrameAlign = 8;

/// Where a frame begins behind `bytes` bytes of others.
[[nodiscard]] constexpr size_t aligned(size_t bytes) noexcept {
    return (bytes + kFrameAlign - 1) / kFrameAlign * kFrameAlign;
}

/// With which the reply to an encoded pull begins. Its values follow, or are where the pull has said.
struct EncodedValues {
    uint32_t codecs = 0;  ///< 0: they are as they are
    uint32_t bytes = 0;
};

static_assert(sizeof(EncodedValues) == 8);

/// What a pull may take.
inline constexpr Codecs kPulledCodecs = kZeros | kValueCodecs | kCompress;

/// Decodes the first frame of what is left of a peer's message, and takes it off. The peer is not
/// trusted. Every header byte is read once, into `frame`: the peer may change the message meanwhile.
/// Errors: kProtocol: too short, wrong magic, unknown kind, contradicting flags, nonzero reserved
///         bits, or sizes that do not add up exactly
[[nodiscard]] Errc decode_next(std::span<const std::byte>& rest, Frame& frame) noexcept;

/// The same of a message that is one frame.
[[nodiscard]] inline Errc decode(std::span<const std::byte> message, Frame& frame) noexcept {
    const Errc status = decode_next(message, frame);
    return status == Errc::kOk && !message.empty() ? Errc::kProtocol : status;
}

}  // namespace weir::wire
