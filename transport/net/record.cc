// SPDX-License-Identifier: Apache-2.0
#include "transport/net/record.h"

#include <algorithm>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"

namespace weir::transport {

void append_record(std::vector<std::byte>& to, const Protocol& protocol, uint8_t type,
                   std::span<const std::byte> body) {
    WEIR_CHECK(body.size() <= kRecordBodyBytesMax);
    ByteWriter writer;
    writer.number(protocol.magic).number(protocol.version).number(type);
    writer.number(static_cast<uint16_t>(body.size())).raw(body);
    to.insert(to.end(), writer.bytes().begin(), writer.bytes().end());
}

void RecordReader::append(std::span<const std::byte> bytes) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(begin_));
    begin_ = 0;
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<RecordView>> RecordReader::next() {
    const std::span<const std::byte> rest = std::span(bytes_).subspan(begin_);
    const auto magic = std::as_bytes(std::span(&protocol_.magic, 1));
    const size_t known = std::min(rest.size(), magic.size());
    if (!std::equal(magic.begin(), magic.begin() + static_cast<ptrdiff_t>(known), rest.begin())) {
        return Error(Errc::kProtocol, fmt::format("it sent garbage, not {}; is it another program?",
                                                  protocol_.name));
    }
    if (rest.size() < kRecordHeaderBytes) return std::optional<RecordView>();
    ByteReader header(rest.first(kRecordHeaderBytes).subspan(magic.size()));
    const auto version = header.number<uint8_t>();
    const auto type = header.number<uint8_t>();
    const size_t body_bytes = header.number<uint16_t>();
    if (version != protocol_.version) {
        return Error(Errc::kProtocol,
                     fmt::format("it uses version {} of {}, this is version {}: use the same Weir "
                                 "everywhere",
                                 version, protocol_.name, protocol_.version));
    }
    if (body_bytes > body_bytes_max_) {
        return Error(Errc::kProtocol,
                     fmt::format("it sent a record of {} bytes where {} are the most", body_bytes,
                                 body_bytes_max_));
    }
    if (rest.size() < kRecordHeaderBytes + body_bytes) return std::optional<RecordView>();
    begin_ += kRecordHeaderBytes + body_bytes;
    return std::optional<RecordView>({type, rest.subspan(kRecordHeaderBytes, body_bytes)});
}

}  // namespace weir::transport
