// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/option_names.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "lib/job/job_variables.h"

namespace weir::tools {
namespace {

struct OptionName {
    std::string_view option;  ///< of JobOptions
    std::string_view flag;
    std::string_view variable;  ///< empty: none
};

constexpr std::array kOptionNames = {
    OptionName{"servers", "--servers", "WEIR_SERVERS"},
    OptionName{"shards_per_server", "--shards", "WEIR_SHARDS"},
    OptionName{"workers", "--workers", "WEIR_WORKERS"},
    OptionName{"colocate", "--colocate", "WEIR_COLOCATE"},
    OptionName{"plugins", "--plugin", "WEIR_PLUGINS"},
    OptionName{"replicas", "--replicas", "WEIR_REPLICAS"},
    OptionName{"managers", "--managers", "WEIR_MANAGERS"},
    OptionName{"on_worker_loss", "--on-worker-loss", "WEIR_ON_WORKER_LOSS"},
    OptionName{"work_lease", "--work-lease", "WEIR_WORK_LEASE_S"},
    OptionName{"contact_file", "--contact", "WEIR_CONTACT_FILE"},
    OptionName{"checkpoint_folder", "--checkpoint", "WEIR_CHECKPOINT_DIR"},
    OptionName{"checkpoint_every", "--checkpoint-every", "WEIR_CHECKPOINT_EVERY_S"},
    OptionName{"resume", "--resume", "WEIR_RESUME"},
    OptionName{"resume_number", "--resume-number", ""},
};

std::atomic<const Config*> g_config = nullptr;

std::string in_names(std::string_view text, std::string_view OptionName::*kind) {
    std::string told;
    while (!text.empty()) {
        const size_t begin = text.find('`');
        const size_t end = begin == text.npos ? begin : text.find('`', begin + 1);
        if (end == text.npos) break;
        const std::string_view name = text.substr(begin + 1, end - begin - 1);
        const auto known = std::ranges::find(kOptionNames, name, &OptionName::option);
        const bool is_option = known != kOptionNames.end() && !((*known).*kind).empty();
        told += text.substr(0, is_option ? begin : end);
        if (is_option) told += (*known).*kind;
        text.remove_prefix(is_option ? end + 1 : end);  // it may begin the next one
    }
    return told.append(text);
}

}  // namespace

void name_variables_of(const Config* config) noexcept {
    g_config = config;
}

std::string in_flags(std::string_view text) {
    const Config* const config = g_config;
    if (config == nullptr) return in_names(text, &OptionName::flag);
    return in_names(weir::in_variables(text, *config), &OptionName::flag);
}

std::string in_variables(std::string_view text) {
    return in_names(text, &OptionName::variable);
}

}  // namespace weir::tools
