// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/info/info.h"

#include <cstdio>
#include <string>

#include "tools/weir/command.h"
#include "tools/weir/info/info_report.h"

namespace weir::tools {

int run_info(const InfoFlags& flags, const Config& config) {
    const InfoPart part = flags.variables ? InfoPart::kVariables : InfoPart::kAll;
    InfoReport report;
    if (part == InfoPart::kAll) {
        report = make_info_report(config);
    } else {
        report.variables = describe_variables(config);
        report.unknown_variables = config.unknown();
    }
    const std::string text = flags.json ? info_json(report, part) : info_text(report, part);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
        std::perror("weir: error: standard output");
        return kExitFailure;
    }
    return kExitOk;
}

}  // namespace weir::tools
