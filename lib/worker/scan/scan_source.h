// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ScanSource: where a scan gets its pieces from, by the layout of the table.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/key/key_range.h"
#include "lib/key/position.h"
#include "lib/worker/client_core.h"

namespace weir {

/// Some rows, as a scan gives them to its caller.
struct ScanRows {
    KeyRange range;                    ///< of a dense table; `keys` is empty
    std::span<const uint64_t> keys{};  ///< of a sparse table
    std::span<const std::byte> values{};
    std::span<const std::byte> state{};
    std::span<const uint32_t> stamps{};

    [[nodiscard]] bool empty() const noexcept { return range.empty() && keys.empty(); }
};

/// What a scan is to read.
struct ScanExtent {
    std::optional<KeyRange> keys;
    uint32_t share = 0;
    uint32_t shares = 1;
    bool has_state = false;
    bool has_values = true;   ///< of a sparse table they may be left out
    bool has_stamps = false;  ///< of an erasable one
    /// Of a piece's rows. One that is larger makes calls rarer; the piece is to stay in cache.
    size_t piece_bytes = size_t{512} << 10;
};

/// Part `share` of `shares` of 0 .. last. It is not empty unless there are more shares than numbers: then
/// its last number is the one before its first.
[[nodiscard]] inline PositionRange share_of(uint64_t last, uint32_t share,
                                            uint32_t shares) noexcept {
    const auto at = [&](uint64_t i) {
        return static_cast<uint64_t>((static_cast<uint128>(last) + 1) * i / shares);
    };
    return {at(share), at(uint64_t{share} + 1) - 1};
}

/// One call that is under way for a scan.
struct ScanCall {
    ClientCore::CallId id = 0;
    uint64_t asked_ns = 0;

    /// Whether it ended at a deadline that had begun while its caller was elsewhere.
    [[nodiscard]] bool was_too_early(Errc code, uint64_t begun_ns) const noexcept {
        return code == Errc::kDeadline && asked_ns < begun_ns;
    }
};

/// When the caller waits for a piece: from when on, and until when.
struct ScanTime {
    uint64_t begun_ns = 0;
    uint64_t end_ns = 0;

    [[nodiscard]] uint64_t left_ns(uint64_t now_ns) const noexcept {
        return end_ns > now_ns ? end_ns - now_ns : 1;
    }
};

/// Thread: the client's
class ScanSource {
public:
    virtual ~ScanSource() = default;
    ScanSource(const ScanSource&) = delete;
    ScanSource& operator=(const ScanSource&) = delete;

    /// The caller does not use the last piece any more.
    virtual void release() = 0;

    /// Asks for as many pieces as may be under way.
    /// `deadline_ns`: of each of these calls, from `now_ns`.
    [[nodiscard]] virtual Status ask(uint64_t now_ns, uint64_t deadline_ns) = 0;

    /// Whether nothing is under way, and nothing left.
    [[nodiscard]] virtual bool is_over() const noexcept = 0;

    /// Whether one has come.
    [[nodiscard]] virtual bool is_ready() = 0;

    /// One that has come. There may be no rows in it although more follow. Valid until release().
    [[nodiscard]] virtual Result<ScanRows> take(const ScanTime& time, uint64_t now_ns) = 0;

    /// Nobody will take what is under way. The first error of it.
    [[nodiscard]] virtual Status drop() = 0;

protected:
    ScanSource() = default;
};

}  // namespace weir
