// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Finding: one line of what `weir doctor` says.

#include <cstdint>
#include <string>

namespace weir::tools {

struct Finding {
    enum class Level : uint8_t {
        kGood,
        kNote,     ///< costs something, or matters to some jobs only
        kProblem,  ///< stops jobs
    };

    Level level = Level::kGood;
    std::string subject;
    std::string says;
    std::string advice;  ///< what to do; only a good one may have none
};

}  // namespace weir::tools
