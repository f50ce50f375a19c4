// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous_message.h"

#include <algorithm>
#include <span>

#include <fmt/core.h>

#include "lib/bootstrap/bootstrap.h"

namespace weir::boot {
namespace {

constexpr std::string_view kMagic = "WRDV";
constexpr uint8_t kVersion = 1;
static_assert(kRendezvousTextBytesMax >= Bootstrap::kValueBytesMax);
static_assert(kRendezvousBodyBytesMax >=
              4 + 2 + Bootstrap::kKeyBytesMax + 2 + kRendezvousTextBytesMax);

void put_number(std::string& to, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i)
        to += static_cast<char>(number >> (8 * i));
}

void put_text(std::string& to, std::string_view text) {
    put_number(to, text.size(), 2);
    to += text;
}

template <class Bytes>
void put_bytes(std::string& to, const Bytes& bytes) {
    to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Takes fields off the front; once something is missing or wrong, ok() stays false.
class BodyReader {
public:
    explicit BodyReader(std::string_view body) : left_(body) {}

    uint64_t number(int bytes) {
        const std::string_view field = take(static_cast<size_t>(bytes));
        uint64_t number = 0;
        for (size_t i = 0; i < field.size(); ++i) {
            number |= uint64_t{static_cast<uint8_t>(field[i])} << (8 * i);
        }
        return number;
    }

    uint32_t number32() { return static_cast<uint32_t>(number(4)); }

    bool flag() {
        const uint64_t value = number(1);
        ok_ = ok_ && value <= 1;
        return value == 1;
    }

    std::string text(size_t bytes_max) {
        const uint64_t length = number(2);
        ok_ = ok_ && length <= bytes_max;
        return std::string(take(ok_ ? length : 0));
    }

    template <class Bytes>
    void bytes(Bytes& to) {
        const std::string_view field = take(to.size());
        std::copy(field.begin(), field.end(), reinterpret_cast<char*>(to.data()));
    }

    /// Whether everything was there and nothing is left over.
    [[nodiscard]] bool finished() const noexcept { return ok_ && left_.empty(); }

private:
    std::string_view take(size_t count) {
        if (!ok_ || count > left_.size()) {
            ok_ = false;
            return {};
        }
        const std::string_view taken = left_.substr(0, count);
        left_.remove_prefix(count);
        return taken;
    }

    std::string_view left_;
    bool ok_ = true;
};

std::string encode_body(const RendezvousMessage& m) {
    std::string body;
    switch (m.kind) {
        case RendezvousKind::kHello:
            put_number(body, m.rank, 4);
            put_number(body, m.size, 4);
            put_number(body, m.secured ? 1 : 0, 1);
            put_bytes(body, m.nonce);
            put_text(body, m.text);
            break;
        case RendezvousKind::kChallenge:
            put_number(body, m.secured ? 1 : 0, 1);
            put_bytes(body, m.nonce);
            put_bytes(body, m.proof);
            break;
        case RendezvousKind::kProof: put_bytes(body, m.proof); break;
        case RendezvousKind::kWelcome: break;
        case RendezvousKind::kEntry:
            put_number(body, m.rank, 4);
            put_text(body, m.key);
            put_text(body, m.text);
            break;
        case RendezvousKind::kCommit: put_number(body, m.round, 4); break;
        case RendezvousKind::kRelease:
            put_number(body, m.round, 4);
            put_number(body, m.local_rank, 4);
            break;
        case RendezvousKind::kRefused:
        case RendezvousKind::kWaiting:
        case RendezvousKind::kFailed: put_text(body, m.text); break;
    }
    return body;
}

/// Whether the body is exactly what the kind asks for.
bool decode_body(std::string_view body, RendezvousMessage& m) {
    constexpr size_t kHostBytesMax = 128;
    BodyReader reader(body);
    switch (m.kind) {
        case RendezvousKind::kHello:
            m.rank = reader.number32();
            m.size = reader.number32();
            m.secured = reader.flag();
            reader.bytes(m.nonce);
            m.text = reader.text(kHostBytesMax);
            break;
        case RendezvousKind::kChallenge:
            m.secured = reader.flag();
            reader.bytes(m.nonce);
            reader.bytes(m.proof);
            break;
        case RendezvousKind::kProof: reader.bytes(m.proof); break;
        case RendezvousKind::kWelcome: break;
        case RendezvousKind::kEntry:
            m.rank = reader.number32();
            m.key = reader.text(Bootstrap::kKeyBytesMax);
            m.text = reader.text(Bootstrap::kValueBytesMax);
            break;
        case RendezvousKind::kCommit: m.round = reader.number32(); break;
        case RendezvousKind::kRelease:
            m.round = reader.number32();
            m.local_rank = reader.number32();
            break;
        case RendezvousKind::kRefused:
        case RendezvousKind::kWaiting:
        case RendezvousKind::kFailed: m.text = reader.text(kRendezvousTextBytesMax); break;
        default: return false;
    }
    return reader.finished();
}

Error bad_message(std::string_view what) {
    return {Errc::kProtocol, std::string(what)};
}

}  // namespace

std::string encode(const RendezvousMessage& message) {
    const std::string body = encode_body(message);
    WEIR_CHECK(body.size() <= kRendezvousBodyBytesMax);
    std::string bytes(kMagic);
    put_number(bytes, kVersion, 1);
    put_number(bytes, static_cast<uint8_t>(message.kind), 1);
    put_number(bytes, 0, 2);
    put_number(bytes, body.size(), 4);
    return bytes + body;
}

void RendezvousReader::feed(std::string_view bytes) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    buffer_ += bytes;
}

Result<std::optional<RendezvousMessage>> RendezvousReader::next() {
    const std::string_view left = std::string_view(buffer_).substr(begin_);
    const std::string_view magic = left.substr(0, kMagic.size());
    if (magic != kMagic.substr(0, magic.size())) {
        return bad_message("not a Weir rendezvous message (another program?)");
    }
    if (left.size() < kRendezvousHeaderBytes) return std::optional<RendezvousMessage>();
    BodyReader header(left.substr(kMagic.size(), kRendezvousHeaderBytes - kMagic.size()));
    const uint64_t version = header.number(1);
    RendezvousMessage message;
    message.kind = static_cast<RendezvousKind>(header.number(1));
    const uint64_t zeros = header.number(2);
    const size_t body_bytes = header.number(4);
    if (version != kVersion) {
        return bad_message(
            fmt::format("version {} of the rendezvous; this is version {}: use the same Weir on "
                        "all ranks",
                        version, kVersion));
    }
    if (zeros != 0 || body_bytes > body_bytes_max_)
        return bad_message("a rendezvous message of wrong length");
    if (left.size() - kRendezvousHeaderBytes < body_bytes)
        return std::optional<RendezvousMessage>();
    if (!decode_body(left.substr(kRendezvousHeaderBytes, body_bytes), message)) {
        return bad_message("a rendezvous message with a wrong body");
    }
    begin_ += kRendezvousHeaderBytes + body_bytes;
    return std::optional<RendezvousMessage>(std::move(message));
}

transport::Proof rendezvous_proof(const transport::Secret& secret, transport::Side prover,
                                  const RendezvousMessage& hello,
                                  const transport::Nonce& rank_0_nonce) {
    std::string said = "weir rendezvous";
    put_number(said, hello.rank, 4);
    put_number(said, hello.size, 4);
    put_text(said, hello.text);
    return transport::make_proof(secret, prover, hello.nonce, rank_0_nonce,
                                 std::as_bytes(std::span(said)));
}

}  // namespace weir::boot
