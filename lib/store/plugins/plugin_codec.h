// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Codecs that are C functions (weir_plugin.h), as tables use them.

#include <memory>

#include "lib/base/result.h"
#include "lib/store/plugins/weir_plugin.h"
#include "lib/store/rules/codec_entry.h"

namespace weir {

/// The entry keeps a copy of the name of `codec`, and `object`, which has its functions.
/// Errors: Errc::kInvalidArgument, saying what is wrong with the codec
[[nodiscard]] Result<CodecEntry> make_plugin_codec(const weir_codec& codec,
                                                   std::shared_ptr<void> object);

}  // namespace weir
