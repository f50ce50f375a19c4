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
};

constexpr std::array kOptionNames = {
    OptionName{"servers", "--servers"},
    OptionName{"shards_per_server", "--shards"},
    OptionName{"workers", "--workers"},
    OptionName{"colocate", "--colocate"},
    OptionName{"plugins", "--plugin"},
    OptionName{"replicas", "--replicas"},
    OptionName{"managers", "--managers"},
    OptionName{"on_worker_loss", "--on-worker-loss"},
    OptionName{"work_lease", "--work-lease"},
    OptionName{"contact_file", "--contact"},
    OptionName{"checkpoint_folder", "--checkpoint"},
    OptionName{"checkpoint_every", "--checkpoint-every"},
    OptionName{"resume", "--resume"},
    OptionName{"resume_number", "--resume-number"},
};

std::atomic<const Config*> g_config = nullptr;

std::string named_flags(std::string_view text) {
    std::string told;
    while (!text.empty()) {
        const size_t begin = text.find('`');
        const size_t end = begin == text.npos ? begin : text.find('`', begin + 1);
        if (end == text.npos) break;
        const std::string_view name = text.substr(begin + 1, end - begin - 1);
        const auto known = std::ranges::find(kOptionNames, name, &OptionName::option);
        const bool is_option = known != kOptionNames.end();
        told += text.substr(0, is_option ? begin : end);
        if (is_option) told += known->flag;
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
    return named_flags(config == nullptr ? std::string(text) : in_variables(text, *config));
}

}  // namespace weir::tools
