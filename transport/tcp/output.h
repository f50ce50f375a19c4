// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Output: what a connection has to send, in order: copies of small things, and references to
/// registered memory for bulk data.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <sys/uio.h>

#include "transport/tcp/frame.h"

namespace weir::transport::tcp {

/// Thread: the endpoint's.
class Output {
public:
    /// Whose memory a part is.
    enum class Memory : uint8_t {
        kCopied,
        kOwn,      ///< a write's source: the caller keeps it until the write has ended
        kExposed,  ///< what a peer reads: it may be deregistered at any time
    };

    struct Part {
        Memory memory = Memory::kCopied;
        const std::byte* at = nullptr;  ///< unless it is copied
        uint64_t bytes = 0;
        uint64_t key = 0;  ///< of the exposed memory
    };

    [[nodiscard]] bool empty() const noexcept { return next_ == parts_.size(); }

    /// Parts of Memory::kExposed: the reads whose answers are not wholly sent, empty ones too.
    [[nodiscard]] uint32_t exposed_parts() const noexcept { return exposed_parts_; }

    [[nodiscard]] size_t copied_bytes() const noexcept { return copies_.size() - copies_sent_; }

    void add(std::span<const std::byte> bytes);

    void add(const Frame& frame) {
        const auto bytes = encode(frame);
        add(std::span(bytes).first(head_bytes(frame.type)));
    }

    /// The data of a write, and the zeros behind them.
    void add_own(std::span<const std::byte> data) {
        add_data({Memory::kOwn, data.data(), data.size()});
    }

    /// The data of a read of the memory with this key, and the zeros behind them.
    void add_exposed(std::span<const std::byte> data, uint64_t key) {
        add_data({Memory::kExposed, data.data(), data.size(), key});
    }

    void add_padding(uint64_t data_bytes) {
        static constexpr std::byte kZeros[kFrameAlignment] = {};
        add(std::span(kZeros).first(padding_of(data_bytes)));
    }

    /// The parts that come next, as many as fit into `vectors`. Returns how many.
    [[nodiscard]] size_t next(std::span<iovec> vectors) const noexcept;

    /// Calls fn(Part) for the first `count` parts.
    template <class Fn>
    void for_each(size_t count, Fn&& fn) const {
        for (size_t i = 0; i < count; ++i)
            fn(parts_[next_ + i]);
    }

    /// So many bytes were sent.
    void sent(uint64_t bytes);

private:
    void add_data(const Part& part);

    std::vector<Part> parts_;
    size_t next_ = 0;  ///< the first part that is not wholly sent
    std::vector<std::byte> copies_;
    size_t copies_sent_ = 0;
    uint32_t exposed_parts_ = 0;
};

}  // namespace weir::transport::tcp
