// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/handshake.h"

#include <array>

#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "transport/net/half_open.h"
#include "transport/shm/memory/regions.h"

namespace weir::transport::shm {

namespace {

constexpr Protocol kProtocol{"the handshake of shm", 0x4853'4557, 3};  // "WESH"
constexpr uint8_t kWelcome = Handshake::kFirstOwnType;

std::vector<std::byte> encode(const Terms& terms) {
    ByteWriter writer;
    writer.number(terms.message_bytes_max).number(terms.messages_in_flight);
    writer.number(terms.membarrier);
    return std::move(writer).take();
}

EndpointOptions options_of(const Terms& terms) {
    return {terms.message_bytes_max, terms.messages_in_flight, 1};
}

}  // namespace

ChannelHandshake::ChannelHandshake(const Self& self, Side side)
    : self_(self), side_(side), handshake_(kProtocol, side, self.secret, random_bytes()) {}

Status ChannelHandshake::begin(int socket) {
    return send_output(socket);
}

void ChannelHandshake::refuse_for_now(int socket) {
    refuse(socket, Errc::kDeadline, HalfOpenPlaces::kRetryText);
}

void ChannelHandshake::refuse(int socket, Errc code, std::string_view text) {
    handshake_.refuse(code, text);
    static_cast<void>(send_output(socket));
}

/// Sends the output, which is one record. If the peer has hung up, this is no error: advance()
/// reads why.
Status ChannelHandshake::send_output(int socket, std::span<const int> fds) {
    const std::vector<std::byte> record = std::exchange(handshake_.output(), {});
    if (record.empty()) return {};
    Status sent = send_packet(socket, record, fds);
    return sent.code() == Errc::kPeerLost ? Status() : sent;
}

Result<Progress> ChannelHandshake::advance(int socket) {
    while (!done_) {
        Packet packet;
        switch (receive_packet(socket, packet)) {
            case Receive::kNothing: return Progress::kWaiting;
            case Receive::kEnd:
                if (proof_sent_) {
                    return Error(Errc::kRefused,
                                 "the other side ended the handshake; its log says why");
                }
                return Error(Errc::kPeerLost, "the other side left during the handshake");
            case Receive::kPacket: {
                WEIR_ASSIGN(const Progress progress, take(socket, packet));
                if (progress == Progress::kLater) return progress;
                break;
            }
        }
    }
    return Progress::kDone;
}

/// How many descriptors belong to the next packet.
size_t ChannelHandshake::fds_expected() const noexcept {
    if (side_ == Side::kConnecting) return handshake_.is_open() ? 1 : 0;
    return handshake_.waits_for_ready() ? 2 : 0;
}

Result<Progress> ChannelHandshake::take(int socket, const Packet& packet) {
    RecordReader reader(kProtocol, Handshake::kBodyBytesMax);
    reader.append(std::span(packet.buffer).first(packet.length_bytes));
    WEIR_ASSIGN(const std::optional<RecordView> record, reader.next());
    if (packet.truncated || !record || reader.bytes_left() != 0) {
        return Error(Errc::kProtocol,
                     fmt::format("it sent a packet of {} bytes that is not one record",
                                 packet.length_bytes));
    }
    const std::optional<Errc> refusal = Handshake::refusal_of(*record);
    if (refusal == Errc::kDeadline && side_ == Side::kConnecting) return Progress::kLater;
    if (const size_t fds = refusal ? 0 : fds_expected(); packet.fds.size() != fds) {
        return Error(Errc::kProtocol,
                     fmt::format("it sent {} descriptors where {} belong", packet.fds.size(), fds));
    }
    if (side_ == Side::kConnecting && handshake_.is_open()) {
        if (record->type != kWelcome || !record->body.empty()) {
            return Error(Errc::kProtocol, "it sent another record where its welcome belongs");
        }
        WEIR_TRY(take_welcome(packet));
        return Progress::kWaiting;
    }
    const Result<Handshake::Step> step = handshake_.take(*record);
    if (step.code() == Errc::kRefused && !handshake_.was_refused()) {
        refuse(socket, Errc::kRefused, "wrong secret");
    }
    WEIR_TRY(step);
    WEIR_TRY(take_step(socket, *step, packet));
    WEIR_TRY(send_output(socket));
    return Progress::kWaiting;
}

Status ChannelHandshake::take_step(int socket, Handshake::Step step, const Packet& packet) {
    switch (step) {
        case Handshake::Step::kWait: break;
        case Handshake::Step::kSendPayload:
            handshake_.send_payload(encode(self_.terms));
            proof_sent_ = true;
            break;
        case Handshake::Step::kProven:
            WEIR_TRY(agree_on(handshake_.peer_payload()));
            if (side_ == Side::kConnecting) return make_rings(socket);
            handshake_.send_payload(encode(self_.terms));
            break;
        case Handshake::Step::kOpen: return map_rings(socket, packet);
    }
    return {};
}

Status ChannelHandshake::make_rings(int socket) {
    WEIR_ASSIGN(SharedBlock block, make_shared(agreement_.shape.total_bytes(), Peers::kMayWrite,
                                               "the rings of a connection"));
    agreement_.memory = std::move(block.mapping);
    handshake_.ready();
    return send_output(socket, std::array{block.fd.get(), self_.live_page_fd});
}

Status ChannelHandshake::map_rings(int socket, const Packet& packet) {
    WEIR_ASSIGN(agreement_.memory,
                map_received({packet.fds[0].get(), 0, agreement_.shape.total_bytes(), true, true}));
    WEIR_ASSIGN(agreement_.live_page,
                map_received({packet.fds[1].get(), 0, kLivePageBytes, false, false}));
    handshake_.put(kWelcome, {});
    WEIR_TRY(send_output(socket, std::array{self_.live_page_fd}));
    agreement_.channel = Channel(agreement_.memory.bytes(), agreement_.shape, side_);
    done_ = true;
    return {};
}

Status ChannelHandshake::take_welcome(const Packet& packet) {
    WEIR_ASSIGN(agreement_.live_page,
                map_received({packet.fds[0].get(), 0, kLivePageBytes, false, false}));
    agreement_.channel = Channel(agreement_.memory.bytes(), agreement_.shape, side_);
    done_ = true;
    return {};
}

Status ChannelHandshake::agree_on(std::span<const std::byte> payload) {
    ByteReader reader(payload);
    Terms theirs;
    theirs.message_bytes_max = reader.number<uint32_t>();
    theirs.messages_in_flight = reader.number<uint32_t>();
    theirs.membarrier = reader.number<uint32_t>();
    const EndpointOptions clamped = clamp(options_of(theirs));
    if (!reader.done() || clamped.message_bytes_max != theirs.message_bytes_max ||
        clamped.messages_in_flight != theirs.messages_in_flight || theirs.membarrier > 1) {
        return Error(Errc::kProtocol,
                     fmt::format("its terms are out of bounds: messages of {} bytes, {} in flight",
                                 theirs.message_bytes_max, theirs.messages_in_flight));
    }
    agreement_.shape = shape_for(options_of(self_.terms), options_of(theirs));
    agreement_.asymmetric = self_.terms.membarrier == 1 && theirs.membarrier == 1;
    return {};
}

}  // namespace weir::transport::shm
