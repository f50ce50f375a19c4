// SPDX-License-Identifier: Apache-2.0
/// \file
/// A trainer with headers of its own whose paths are those of Weir's tree: `run` puts them first on
/// the include path.

#include <string_view>

#include <weir/weir.h>

#include "base/log.h"
#include "lib/base/log.h"

int main() {
    static_assert(kOwnHeaders == 2);
    int lines = 0;
    weir::set_log_sink([&](weir::LogLevel, std::string_view) { ++lines; });
    weir::log_line(weir::LogLevel::kError, "a line for the sink");
    weir::set_log_sink(nullptr);
    return lines == 1 ? 0 : 1;
}
