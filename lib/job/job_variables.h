// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The WEIR_ variables that say what a job is to be.

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/job/job.h"

namespace weir {

/// `options`, with what flags and variables say in place of what the program does.
/// Errors: kInvalidArgument, naming the variable or flag
[[nodiscard]] Result<JobOptions> with_variables(JobOptions options, const Config& config);

/// An error of the value of an option, which it may not name itself.
[[nodiscard]] Error of_option(std::string_view option, const Error& why);

enum class Naming : uint8_t {
    kGiven,  ///< options that have their value from a variable
    kAll,
};

/// `text`, in which options stand as `servers`, with variables in place of them: "`servers` 2" becomes
/// "WEIR_SERVERS=2".
[[nodiscard]] std::string in_variables(std::string_view text, const Config& config,
                                       Naming named = Naming::kGiven);

/// JobOptions::plugins, likewise.
[[nodiscard]] std::vector<std::string> plugins_with_variable(std::vector<std::string> plugins,
                                                             const Config& config);

}  // namespace weir
