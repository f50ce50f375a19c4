// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Functions that are C functions (weir_plugin.h), as tables use them.

#include <memory>

#include "lib/base/result.h"
#include "lib/store/functions/function_entry.h"
#include "lib/store/plugins/weir_plugin.h"

namespace weir {

/// The entry keeps copies of the texts of `function`, and `object`, which has its functions.
/// Errors: Errc::kInvalidArgument, saying what is wrong with the function
[[nodiscard]] Result<FunctionEntry> make_plugin_function(const weir_function& function,
                                                         std::shared_ptr<void> object);

}  // namespace weir
