// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// WorkShare: what one worker has of the job's work in one round; see Client::take_work().

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/base/result.h"

namespace weir {

/// Also the body of the reply to Kind::kWork, encoded as those of messages.h are.
struct WorkShare {
    static constexpr uint32_t kPiecesMax = 4096;          ///< of the whole work
    static constexpr size_t kDescriptionBytesMax = 4096;  ///< of the whole work

    uint64_t round = 0;            ///< counts from 1
    uint32_t index = 0;            ///< of this worker among those of the round
    uint32_t worker_count = 1;     ///< of the round
    uint32_t piece_count = 0;      ///< of the whole work
    std::vector<uint32_t> pieces;  ///< this worker's, ascending; 0 .. piece_count - 1

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<WorkShare> decode(std::span<const std::byte> body);

    friend bool operator==(const WorkShare&, const WorkShare&) = default;
};

/// The error of calls that wait for other workers while the work is taken anew.
[[nodiscard]] Error reassigned();

}  // namespace weir
