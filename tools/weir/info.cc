// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/info.h"

#include <cstdio>
#include <memory>

#include <fmt/core.h>

#include "tools/weir/info_report.h"

namespace weir::tools {
namespace {

struct Flags {
    bool json = false;
    bool variables = false;
};

int run_info(const Flags& flags, const Config& config) {
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

}  // namespace

void add_info(CLI::App& app, Program& program) {
    CLI::App* const command = app.add_subcommand(
        "info", "show what this build, this machine and this environment can do");
    auto flags = std::make_shared<Flags>();
    command->add_flag("--json", flags->json, "as JSON, for programs");
    command->add_flag("-f,--variables", flags->variables,
                      "only the WEIR_* variables: value, default, meaning");
    command->callback([flags, &program] {
        program.wants_good_config = false;  // it is what one asks when something is wrong
        program.run = [flags, &program] { return run_info(*flags, program.config); };
    });
}

}  // namespace weir::tools
