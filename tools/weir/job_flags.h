// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobFlags: the flags that describe a job, the same for every command that runs one.

#include <string>

#include "lib/base/config.h"
#include "lib/job/job.h"

namespace weir::tools {

struct JobFlags {
    JobOptions options;
    std::string rendezvous;
    std::string rank;
    std::string size;

    void apply_to(Config& config) const {
        if (!rendezvous.empty()) config.set_flag("WEIR_RENDEZVOUS", "--rendezvous", rendezvous);
        if (!rank.empty()) config.set_flag("WEIR_RANK", "--rank", rank);
        if (!size.empty()) config.set_flag("WEIR_SIZE", "--size", size);
    }
};

}  // namespace weir::tools
