// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Encoder: from a content to a frame, when a connection is about to take it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/filter/body.h"
#include "lib/store/memory.h"
#include "lib/wire/frame.h"
#include "lib/worker/client_options.h"
#include "lib/worker/peers/peer.h"
#include "lib/worker/requests/request.h"
#include "transport/transport.h"

namespace weir {

/// A header, and what follows it. Refers to the content, the attempt, and its own handles.
class EncodedFrame {
public:
    EncodedFrame() = default;
    ~EncodedFrame() = default;
    EncodedFrame(const EncodedFrame&) = delete;
    EncodedFrame& operator=(const EncodedFrame&) = delete;

    wire::FrameHeader header;

    [[nodiscard]] size_t bytes() const noexcept {
        return wire::header_bytes(header) + header.body_bytes;
    }

    /// Once the header is complete.
    [[nodiscard]] std::span<const std::span<const std::byte>> parts() noexcept {
        parts_[0] = wire::bytes_of(header);
        return std::span(parts_).first(count_);
    }

private:
    friend class Encoder;

    void add(std::span<const std::byte> part) noexcept {
        parts_[count_++] = part;
        header.body_bytes += static_cast<uint32_t>(part.size());
    }

    wire::MemoryHandle keys_at_;
    wire::MemoryHandle values_at_;
    wire::MemoryHandle out_at_;
    wire::ListEnds ends_;
    uint64_t stamp_ = 0;
    uint64_t codecs_ = 0;
    size_t count_ = 1;
    std::array<std::span<const std::byte>, 9> parts_;  ///< the first one is the header
};

/// Decides whether keys and values travel in the message, are read from (or written to) the caller's
/// registered memory, or are copied to registered memory of ours.
///
/// Thread: the client's
class Encoder {
public:
    Encoder(transport::Endpoint& endpoint, const Clock& clock, Memory& memory,
            const ClientCoreOptions& options, ClientCounters& counters)
        : endpoint_(endpoint),
          clock_(clock),
          memory_(memory),
          counters_(counters),
          eager_bytes_(options.eager_bytes),
          encoded_bytes_min_(options.encoded_bytes_min),
          message_bytes_max_(endpoint.capabilities().message_bytes_max) {}

    enum class Outcome {
        kDone,
        kNoMemory,  ///< for a copy
        kBroken     ///< the connection is: its end is about to come
    };

    /// A push or pull, for a peer that is open. Sets the attempt's form; all but the predecessor is in
    /// the header.
    [[nodiscard]] Outcome encode(uint64_t id, ClientRequest& request, const Peer& peer,
                                 EncodedFrame& frame);

    [[nodiscard]] size_t message_bytes_max() const noexcept { return message_bytes_max_; }

    /// What is neither push, pull nor scan.
    static void encode_control(uint64_t id, const Content& content, EncodedFrame& frame);
    /// A scan, for a peer that is open, of whose attempt `values_copy` is the memory for the rows.
    /// False: the connection is broken.
    [[nodiscard]] bool encode_scan(uint64_t id, ClientRequest& request, const Peer& peer,
                                   EncodedFrame& frame);

private:
    /// How pushed values travel, or what is pulled.
    enum class ValuesWay {
        kInMessage,        ///< what is pulled: in the reply
        kByAddress,        ///< the caller's memory is registered: the shard reads or writes it
        kCopiedByAddress,  ///< through a registered copy
        kCopiedInMessage   ///< pushed: put together in a copy, which goes into the message
    };

    /// One content on its way into one frame.
    struct Work {
        const Content& content;
        Attempt& attempt;
        const Peer& peer;
        size_t room;  ///< that the message still has
        std::span<const std::byte> keys;
        std::span<const std::byte> values;
    };

    [[nodiscard]] Outcome place_keys(Work& work, wire::MemoryHandle& handle);
    [[nodiscard]] bool is_to_be_encoded(const Work& work) const noexcept;
    static void add_parts(const Work& work, EncodedFrame& frame);
    static void choose_pulled_codecs(Work& work);
    [[nodiscard]] Outcome encode_body(Work& work);
    [[nodiscard]] std::span<const std::byte> kept_rows(const Content& content, size_t kept_count);
    [[nodiscard]] std::span<const std::byte> factors(const Content& content);
    void list_kept(const Content& content);
    void count_body(const Content& content);
    [[nodiscard]] Outcome place_body(Work& work, wire::MemoryHandle& handle);
    [[nodiscard]] Outcome place_values(Work& work, wire::MemoryHandle& handle);
    [[nodiscard]] ValuesWay choose_values_way(const Work& work, wire::MemoryHandle& handle);
    [[nodiscard]] Outcome place_out(Work& work, wire::MemoryHandle& handle);
    [[nodiscard]] ValuesWay choose_out_way(const Work& work, wire::MemoryHandle& handle);
    [[nodiscard]] bool copy_values(const Content& content, Attempt& attempt);
    [[nodiscard]] size_t eager_bytes(const Peer& peer) const noexcept;
    [[nodiscard]] bool expose(const Peer& peer, std::span<const std::byte> memory,
                              wire::MemoryHandle& handle);

    transport::Endpoint& endpoint_;
    const Clock& clock_;
    Memory& memory_;
    ClientCounters& counters_;  ///< bytes that go into copies
    size_t eager_bytes_;
    size_t encoded_bytes_min_;
    uint32_t message_bytes_max_;
    BodyEncoder bodies_;
    BodyMemory rows_;              ///< those of a push that are kept, or its factors
    BodyMemory products_;          ///< of factors
    std::vector<std::byte> kept_;  ///< of the push that is being encoded
};

}  // namespace weir
