// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Frames that shards and managers refuse, each wrong in one way; and the lines of the log that say
/// why a connection was closed.

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/repeated_log.h"
#include "lib/key/value_type.h"
#include "lib/wire/frame.h"
#include "tests/log_lines.h"

namespace weir::test {

using testing::LogLines;

/// How many lines say that `who` closed a connection because of `why`.
inline size_t closings(const LogLines& log, const std::string& who, const std::string& why) {
    const std::vector<std::string> lines = log.lines();
    return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
        return line.starts_with(who + ": closing the connection to ") &&
               line.ends_with(": it sent " + why);
    }));
}

/// One message, a name for it, and the reason that must be logged.
struct BadFrame {
    std::string what;
    std::vector<std::byte> bytes;
    std::string why = "a malformed frame";
};

/// A push or pull of the first key of table 0, whose values are 8 bytes wide.
inline wire::FrameHeader one_key(wire::Kind kind, uint8_t flags) {
    wire::FrameHeader header;
    header.kind = kind;
    header.flags = flags;
    header.value_type = static_cast<uint8_t>(ValueType::kUInt64);
    header.epoch = 1;
    header.count = 1;
    return header;
}

/// A message with this header as it is, body_bytes too.
inline std::vector<std::byte> raw_bytes(const wire::FrameHeader& header,
                                        std::span<const std::byte> body) {
    const std::span<const std::byte> head = wire::bytes_of(header);
    std::vector<std::byte> bytes(head.begin(), head.end());
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
}

/// With the right body_bytes.
inline std::vector<std::byte> frame_bytes(wire::FrameHeader header,
                                          std::span<const std::byte> body) {
    header.body_bytes = static_cast<uint32_t>(body.size());
    return raw_bytes(header, body);
}

/// A valid push of one key to whose header `change` has been applied.
template <class Change>
BadFrame bad_header(std::string what, Change&& change) {
    wire::FrameHeader header = one_key(wire::Kind::kPush, wire::kKeysRange | wire::kValuesInline);
    header.body_bytes = 8;
    change(header);
    return {std::move(what), raw_bytes(header, std::vector<std::byte>(8))};
}

/// A push or pull of one key whose body, of `body` words, does not fit to its flags and count.
inline BadFrame bad_body(std::string what, wire::Kind kind, int flags, uint32_t count,
                         const std::vector<uint64_t>& body) {
    wire::FrameHeader header = one_key(kind, static_cast<uint8_t>(flags));
    header.count = count;
    return {std::move(what), frame_bytes(header, std::as_bytes(std::span(body)))};
}

/// Everything for which the decoder refuses a message.
inline std::vector<BadFrame> malformed_frames() {
    using namespace wire;  // NOLINT(google-build-using-namespace): all flags and limits
    using Header = FrameHeader;
    std::vector<BadFrame> frames;
    const std::vector<std::byte> good =
        bad_header("", [](Header&) {}).bytes;  // and what is left of it when it is cut
    for (const size_t length : {size_t{0}, size_t{1}, size_t{8}, kHeaderBytesMin - 1,
                                kHeaderBytesMin, offsetof(Header, iteration) - 1}) {
        frames.push_back({"a header of " + std::to_string(length) + " bytes",
                          {good.begin(), good.begin() + static_cast<ptrdiff_t>(length)}});
    }
    for (const uint32_t body : {0U, 7U, 9U, 0x80000000U, 0xffffffffU}) {
        frames.push_back(bad_header("8 bytes that say they are " + std::to_string(body),
                                    [body](Header& h) { h.body_bytes = body; }));
    }
    for (const uint8_t kind : {uint8_t{0}, uint8_t{kKindMax + 1}, uint8_t{255}}) {
        frames.push_back(bad_header("kind " + std::to_string(kind),
                                    [kind](Header& h) { h.kind = static_cast<Kind>(kind); }));
    }
    const auto header = [&](const char* what, auto change) {
        frames.push_back(bad_header(what, change));
    };
    header("no magic", [](Header& h) { h.magic = 0; });
    header("the magic of another version", [](Header& h) { h.magic += 1U << 24; });
    frames.back().why = "a frame of another version of Weir: use one version everywhere";
    header("another magic", [](Header& h) { h.magic += 1U << 25 | 1; });
    header("an encoding that nobody knows", [](Header& h) { h.encoding = 1; });
    header("no keys", [](Header& h) { h.flags = kValuesInline; });
    header("keys in two forms", [](Header& h) { h.flags |= kKeysInline; });
    header("no values", [](Header& h) { h.flags = kKeysRange; });
    header("values in two forms", [](Header& h) { h.flags |= kValuesRemote; });
    header("every flag", [](Header& h) { h.flags = 255; });
    header("a part of no iteration", [](Header& h) {
        h.flags |= kAggregate;
        h.parts = 1;
    });
    header("a part of iteration 0", [](Header& h) {
        h.flags |= kAggregate | kIteration;
        h.parts = 1;
    });
    header("a part of no parts", [](Header& h) {
        h.flags |= kAggregate | kIteration;
        h.iteration = 1;
    });
    header("the reserved bytes behind the parts", [](Header& h) {
        h.flags |= kIteration;
        h.iteration = 1;
        h.reserved3 = 1;
    });
    header("a status of what is no part", [](Header& h) {
        h.flags |= kIteration;
        h.iteration = 1;
        h.part_status = Errc::kCancelled;
    });
    header("a range that is too long", [](Header& h) { h.count = kRequestKeysMax * 16 + 1; });
    header("a range of all keys", [](Header& h) { h.count = ~uint32_t{0}; });
    const auto body = [&](const char* what, Kind kind, int flags, uint32_t count,
                          const std::vector<uint64_t>& words) {
        frames.push_back(bad_body(what, kind, flags, count, words));
    };
    body("a list that is cut", Kind::kPush, kKeysInline | kValuesInline, 3, {0, 1});
    body("a list that is too long", Kind::kPush, kKeysInline | kValuesInline, kRequestKeysMax + 1,
         {0, 1});
    body("a list whose bytes overflow", Kind::kPush, kKeysInline | kValuesInline,
         (uint32_t{1} << 29) + 1, {0, 1});
    body("a handle of keys that is cut", Kind::kPull, kKeysRemote | kValuesInline, 1, {64, 8});
    body("keys of another length", Kind::kPull, kKeysRemote | kValuesInline, 1, {64, 16, 1});
    body("keys of every length", Kind::kPull, kKeysRemote | kValuesInline, 1, {0, ~0UL, 1});
    body("keys whose length overflows", Kind::kPull, kKeysRemote | kValuesInline, uint32_t{1} << 29,
         {64, 0, 1});
    body("a handle of values that is cut", Kind::kPull, kKeysRange | kValuesRemote, 1, {64, 8});
    body("too many bytes of values", Kind::kPull, kKeysRange | kValuesRemote, 1,
         {64, kRequestBytesMax + 1, 1});
    body("every byte of values", Kind::kPush, kKeysRange | kValuesRemote, 1, {~0UL, ~0UL, ~0UL});
    body("more than a handle of values", Kind::kPush, kKeysRange | kValuesRemote, 1, {64, 8, 1, 0});
    body("half of a list's ends", Kind::kPull, kKeysKnown | kValuesInline, 1, {0});
    body("a pull with values", Kind::kPull, kKeysRange | kValuesInline, 1, {0});
    body("a pull that is part of an iteration", Kind::kPull,
         kKeysRange | kValuesInline | kAggregate, 1, {});
    body("a push of no keys", Kind::kPush, kKeysRange | kValuesInline, 0, {});
    Header late = one_key(Kind::kPush, kKeysRange | kValuesInline | kAggregate | kIteration);
    late.iteration = late.parts = 1;
    late.count = 0;  // sound, if nothing were missing
    std::vector<std::byte> cut = raw_bytes(late, {});
    for (const size_t length : {cut.size() - 16, cut.size() - 1}) {
        frames.push_back({"an iteration of which " + std::to_string(length) + " bytes are there",
                          {cut.begin(), cut.begin() + static_cast<ptrdiff_t>(length)}});
    }
    return frames;
}

}  // namespace weir::test
