// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/info/info.h"

#include "tools/weir/command.h"
#include "tools/weir/info/info_plugins.h"
#include "tools/weir/info/info_report.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {

static Status show_plugins(const InfoFlags& flags) {
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    WEIR_ASSIGN(const std::vector<Plugin> plugins, load_plugins(flags.plugins, rules));
    return print_result(flags.json, plugins_text(plugins, rules), plugins_json(plugins, rules));
}

int run_info(const InfoFlags& flags, const Config& config) {
    if (!flags.plugins.empty()) {
        const Status shown = show_plugins(flags);
        return shown ? int{kExitOk} : failure(shown.error());
    }
    const InfoPart part = flags.variables ? InfoPart::kVariables : InfoPart::kAll;
    InfoReport report;
    if (part == InfoPart::kAll) {
        report = make_info_report(config);
    } else {
        report.variables = describe_variables(config);
        report.unknown_variables = config.unknown();
    }
    const Status told = print_result(flags.json, info_text(report, part), info_json(report, part));
    return told ? int{kExitOk} : failure(told.error());
}

}  // namespace weir::tools
