// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Records: the messages that a stream (or packets) of bytes consists of. A record is a header
/// {magic u32, version u8, type u8, body bytes u16} and its body, little-endian.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace weir::transport {

/// The protocol of a connection. It is part of every record's header and of every proof.
struct Protocol {
    std::string_view name;  ///< for people: "the verbs side channel"
    uint32_t magic = 0;
    uint8_t version = 0;
};

struct RecordView {
    uint8_t type = 0;
    std::span<const std::byte> body;  ///< valid until the reader's next call
};

inline constexpr size_t kRecordHeaderBytes = 8;
inline constexpr size_t kRecordBodyBytesMax = 0xffff;

void append_record(std::vector<std::byte>& to, const Protocol& protocol, uint8_t type,
                   std::span<const std::byte> body);

/// Cuts received bytes into records. Thread: one.
class RecordReader {
public:
    /// Records with longer bodies are refused.
    RecordReader(const Protocol& protocol, size_t body_bytes_max)
        : protocol_(protocol), body_bytes_max_(body_bytes_max) {}

    /// Sets a new limit for the bodies of the records that follow.
    void set_body_bytes_max(size_t bytes) noexcept { body_bytes_max_ = bytes; }

    void append(std::span<const std::byte> bytes);

    /// The next whole record, or nullopt. A wrong beginning of a record is an error at once.
    /// Errors:  kProtocol (not a record, another version, too long); take no more records then
    [[nodiscard]] Result<std::optional<RecordView>> next();

    /// Received bytes that belong to no record returned so far.
    [[nodiscard]] size_t bytes_left() const noexcept { return bytes_.size() - begin_; }

    /// These bytes: another protocol follows on the connection. Valid until the next call.
    [[nodiscard]] std::span<const std::byte> rest() const noexcept {
        return std::span(bytes_).subspan(begin_);
    }

private:
    Protocol protocol_;
    size_t body_bytes_max_;
    std::vector<std::byte> bytes_;
    size_t begin_ = 0;
};

}  // namespace weir::transport
