// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobFlags: the flags that describe a job, the same for every command that runs one.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/config.h"
#include "lib/job/job.h"
#include "lib/job/job_variables.h"
#include "lib/store/plugins/plugin.h"

namespace weir::tools {

struct JobFlags {
    JobOptions options;
    std::string rendezvous;
    std::string rank;
    std::string size;
    std::vector<std::string> plugins;
    OnWorkerLoss other_loss = OnWorkerLoss::kStop;  ///< what the command can do but stop

    /// The command line has said by `flag` what `variable` may say, too.
    void give(VariableRef variable, const char* flag, std::string_view value) {
        given_.push_back({variable, flag, std::string(value)});
    }

    /// The same, when it does.
    [[nodiscard]] std::function<void(const std::string&)> gives(VariableRef variable,
                                                                const char* flag) {
        return [this, variable, flag](const std::string& value) { give(variable, flag, value); };
    }

    /// Then `options` has what flags and variables say.
    /// Errors: kInvalidArgument, naming the variable
    [[nodiscard]] Status apply_to(Config& config) {
        if (!rendezvous.empty()) config.set_flag("WEIR_RENDEZVOUS", "--rendezvous", rendezvous);
        if (!rank.empty()) config.set_flag("WEIR_RANK", "--rank", rank);
        if (!size.empty()) config.set_flag("WEIR_SIZE", "--size", size);
        if (!plugins.empty())
            config.set_flag("WEIR_PLUGINS", "--plugin", join_plugin_paths(plugins));
        for (const auto& [variable, flag, value] : given_)
            config.set_flag(variable, flag, value);
        WEIR_ASSIGN(options, with_variables(std::move(options), config));
        const OnWorkerLoss loss = options.on_worker_loss;
        if (loss == OnWorkerLoss::kStop || loss == other_loss) return {};
        return Error(Errc::kInvalidArgument,
                     fmt::format("WEIR_ON_WORKER_LOSS={}: this command can do stop and {}",
                                 to_string(loss), to_string(other_loss)));
    }

private:
    struct Given {
        VariableRef variable;
        const char* flag;
        std::string value;
    };

    std::vector<Given> given_;
};

}  // namespace weir::tools
