// SPDX-License-Identifier: Apache-2.0
#include "lib/job/job_variables.h"

#include <array>
#include <cctype>
#include <chrono>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "lib/store/plugins/plugin.h"

namespace weir {
namespace {

Status set_count(const Config& config, VariableRef variable, uint32_t& count) {
    WEIR_ASSIGN(const std::optional<uint64_t> number, config.optional_number(variable));
    if (number) count = static_cast<uint32_t>(*number);  // the table has a limit
    return {};
}

Status set_seconds(const Config& config, VariableRef variable, std::chrono::nanoseconds& time) {
    WEIR_ASSIGN(const std::optional<uint64_t> number, config.optional_number(variable));
    if (number) time = std::chrono::seconds(*number);
    return {};
}

void set_text(const Config& config, VariableRef variable, std::string& text) {
    if (const std::string_view given = config.text(variable); !given.empty()) text = given;
}

struct OptionVariable {
    std::string_view option;
    VariableRef variable;
};

constexpr std::array kOptionVariables = {
    OptionVariable{"servers", "WEIR_SERVERS"},
    OptionVariable{"shards_per_server", "WEIR_SHARDS"},
    OptionVariable{"workers", "WEIR_WORKERS"},
    OptionVariable{"colocate", "WEIR_COLOCATE"},
    OptionVariable{"plugins", "WEIR_PLUGINS"},
    OptionVariable{"replicas", "WEIR_REPLICAS"},
    OptionVariable{"managers", "WEIR_MANAGERS"},
    OptionVariable{"on_worker_loss", "WEIR_ON_WORKER_LOSS"},
    OptionVariable{"work_lease", "WEIR_WORK_LEASE_S"},
    OptionVariable{"contact_file", "WEIR_CONTACT_FILE"},
    OptionVariable{"checkpoint_folder", "WEIR_CHECKPOINT_DIR"},
    OptionVariable{"checkpoint_every", "WEIR_CHECKPOINT_EVERY_S"},
    OptionVariable{"resume", "WEIR_RESUME"},
};

/// Whether a value stands behind the name of an option, not the next word of a sentence.
bool is_value(std::string_view behind) {
    if (behind.size() < 2 || behind[0] != ' ') return false;
    return std::isdigit(static_cast<unsigned char>(behind[1])) != 0 || behind[1] == '/' ||
           behind[1] == '.' || behind.starts_with(" auto)") || behind.starts_with(" DIR");
}

}  // namespace

std::vector<std::string> plugins_with_variable(std::vector<std::string> plugins,
                                               const Config& config) {
    const std::string_view given = config.text("WEIR_PLUGINS");
    return given.empty() ? std::move(plugins) : split_plugin_paths(given);
}

Result<JobOptions> with_variables(JobOptions options, const Config& config) {
    WEIR_TRY(set_count(config, "WEIR_SERVERS", options.servers));
    WEIR_TRY(set_count(config, "WEIR_SHARDS", options.shards_per_server));
    WEIR_TRY(set_count(config, "WEIR_WORKERS", options.workers));
    WEIR_TRY(set_count(config, "WEIR_REPLICAS", options.replicas));
    WEIR_TRY(set_count(config, "WEIR_MANAGERS", options.managers));
    WEIR_ASSIGN(const std::string colocate, config.optional_choice("WEIR_COLOCATE"));
    if (!colocate.empty()) options.colocate = colocate == "yes";
    WEIR_ASSIGN(const std::string loss, config.optional_choice("WEIR_ON_WORKER_LOSS"));
    for (const OnWorkerLoss one :
         {OnWorkerLoss::kStop, OnWorkerLoss::kContinue, OnWorkerLoss::kReassign}) {
        if (loss == to_string(one)) options.on_worker_loss = one;
    }
    WEIR_TRY(set_seconds(config, "WEIR_WORK_LEASE_S", options.work_lease));
    WEIR_TRY(set_seconds(config, "WEIR_CHECKPOINT_EVERY_S", options.checkpoint_every));
    options.plugins = plugins_with_variable(std::move(options.plugins), config);
    set_text(config, "WEIR_CONTACT_FILE", options.contact_file);
    set_text(config, "WEIR_CHECKPOINT_DIR", options.checkpoint_folder);
    set_text(config, "WEIR_RESUME", options.resume);
    return options;
}

Error of_option(std::string_view option, const Error& why) {
    return {why.code(), fmt::format("`{}`: {}", option, why.text()), why.os_error()};
}

std::string in_variables(std::string_view text, const Config& config, Naming named) {
    std::string told(text);
    for (const auto& [option, variable] : kOptionVariables) {
        const bool is_given = config.source(variable) == ConfigSource::kVariable;
        if (!is_given && named == Naming::kGiven) continue;
        const std::string name = fmt::format("`{}`", option);
        for (size_t at = 0; (at = told.find(name, at)) != std::string::npos;) {
            std::string place(is_given ? config.place(variable) : variable->name);
            size_t length = name.size();
            if (is_value(std::string_view(told).substr(at + length))) {
                place += '=';
                ++length;
            }
            told.replace(at, length, place);
            at += place.size();
        }
    }
    return told;
}

}  // namespace weir
