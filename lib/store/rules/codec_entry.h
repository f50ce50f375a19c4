// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CodecEntry: a codec of a program or a plugin, as tables use it.

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/filter/value_codec.h"

namespace weir {

struct CodecEntry {
    std::string name;
    uint32_t version = 0;  ///< that its author gives
    std::shared_ptr<const ValueCodec> codec{};

    /// All that can be compared: not what it does.
    [[nodiscard]] std::string facts() const;
};

/// One whose code is `codec`: what that throws names it. Encodes and decodes some values for a trial.
/// Errors: Errc::kInvalidArgument: a name that cannot be, no code, no type that it takes, or values that do
///         not come back to the bit
[[nodiscard]] Result<CodecEntry> make_codec(std::string name, uint32_t version,
                                            std::shared_ptr<const ValueCodec> codec);

}  // namespace weir
