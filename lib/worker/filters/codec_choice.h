// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CodecChoice: which codecs are worth their time on a link, for the filter `auto`; LinkSpeed: how fast that is.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "lib/filter/codecs.h"

namespace weir {

/// How long bytes take on the way to a peer and until its reply, as requests show it that do not wait for
/// anything else: the fastest of the last ones. (Many replies wait for other workers.)
class LinkSpeed {
public:
    /// Of fewer bytes most of the time is the way there and back.
    static constexpr uint64_t kBytesMin = size_t{16} << 10;

    /// A request leaves. Returns how many bytes are then under way.
    uint64_t sent(uint64_t bytes) noexcept { return open_bytes_ += bytes; }

    /// A new connection: nothing is under way.
    void opened() noexcept { open_bytes_ = 0; }

    /// The reply has come, after `ns`, to a request of so many bytes, with `received` bytes of values. `ahead`:
    /// what sent() has returned.
    void replied(uint64_t bytes, uint64_t received, uint64_t ahead, uint64_t ns) noexcept {
        open_bytes_ -= std::min(open_bytes_, bytes);
        if (bytes + received < kBytesMin) return;
        const double its = static_cast<double>(ns) / static_cast<double>(ahead + received);
        best_ = count_ == 0 ? its : std::min(best_, its);
        if (++count_ < kWindow) return;
        ns_per_byte_ = best_;
        count_ = 0;
    }

    /// 0: not known yet.
    [[nodiscard]] double ns_per_byte() const noexcept {
        return ns_per_byte_ != 0 || count_ == 0 ? ns_per_byte_ : best_;
    }

private:
    static constexpr uint32_t kWindow = 32;

    uint64_t open_bytes_ = 0;
    uint32_t count_ = 0;  ///< in this window
    double best_ = 0;
    double ns_per_byte_ = 0;
};

/// Of one table, in one direction. What a body costs, and how long it is, is measured; where fewer bytes
/// save less time than they cost, they are not made. What was not tried for a while is tried again.
class CodecChoice {
public:
    /// From few to many.
    static constexpr std::array<Codecs, 3> kLevels = {
        0, kZeros | kIntegers | kHalvesB | kHalves,
        kZeros | kIntegers | kHalvesB | kHalves | kCompress | kKeyDifferences};

    /// Of those that a pull has taken, which has no keys: what choose() has returned.
    [[nodiscard]] static constexpr Codecs as_level(Codecs pulled) noexcept {
        return (pulled & kCompress) != 0 ? kLevels.back() : pulled;
    }

    /// Those of the next body. `ns_per_byte`: of the link; 0: not known.
    [[nodiscard]] Codecs choose(double ns_per_byte) noexcept {
        ++count_;
        for (size_t level = 1; level < kLevels.size(); ++level) {
            if (tried_[level].bodies == 0) return kLevels[level];
        }
        if (count_ % kTryAgain == 0) return kLevels[1 + count_ / kTryAgain % 2];
        const double link = ns_per_byte != 0 ? ns_per_byte : kUnknownNsPerByte;
        size_t best = 0;
        double least_ns = link;  // of a byte as it is
        for (size_t level = 1; level < kLevels.size(); ++level) {
            const Tried& its = tried_[level];
            const double ns = its.ns_per_byte + its.share * link;
            if (ns >= least_ns) continue;
            least_ns = ns;
            best = level;
        }
        return kLevels[best];
    }

    /// A body of so many bytes was made of `raw`, or expanded, and both ends together take about `ns` for it.
    void note(Codecs chosen, uint64_t raw, uint64_t bytes, double ns) noexcept {
        const auto* const level = std::ranges::find(kLevels, chosen);
        if (level == kLevels.end() || raw == 0) return;
        Tried& its = tried_[static_cast<size_t>(level - kLevels.begin())];
        const double part = its.bodies == 0 ? 1 : kNewest;
        its.ns_per_byte += part * (ns / static_cast<double>(raw) - its.ns_per_byte);
        its.share += part * (static_cast<double>(bytes) / static_cast<double>(raw) - its.share);
        ++its.bodies;
    }

private:
    static constexpr uint32_t kTryAgain = 64;
    static constexpr double kNewest = 0.25;         ///< in the means
    static constexpr double kUnknownNsPerByte = 1;  ///< 1 GB/s

    struct Tried {
        uint64_t bodies = 0;
        double ns_per_byte = 0;  ///< raw
        double share = 0;        ///< of the bytes that is left
    };

    uint32_t count_ = 0;
    std::array<Tried, kLevels.size()> tried_;
};

}  // namespace weir
