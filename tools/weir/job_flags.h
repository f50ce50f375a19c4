// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The flags that say what a job looks like, the same for every command that runs one.

#include <cstdint>
#include <string>

#include "lib/base/config.h"
#include "lib/job/job.h"
#include "tools/weir/numbers.h"

namespace weir::tools {

struct JobFlags {
    static constexpr uint64_t kPartCountMax =
        4096;  ///< of servers and so on, as Job::start() has it

    JobOptions options;
    std::string rendezvous;
    std::string rank;
    std::string size;

    /// App: CLI::App. Most of who includes this parse no command line: they need not compile it.
    template <class App>
    void add_to(App& command) {
        command.add_option("--servers", options.servers, "server processes (the first ranks)")
            ->check(count(1, kPartCountMax))
            ->capture_default_str();
        command.add_option("--shards", options.shards_per_server, "threads per server")
            ->check(count(1, kPartCountMax))
            ->capture_default_str();
        command.add_option("--workers", options.workers, "workers per worker process")
            ->check(count(1, kPartCountMax))
            ->capture_default_str();
        command.add_flag("--colocate", options.colocate, "every rank works, servers too");
        command.add_option("--rendezvous", rendezvous,
                           "HOST:PORT of rank 0, for ranks started by hand");
        command.add_option("--rank", rank, "number of this process, from 0");
        command.add_option("--size", size, "number of processes");
    }

    void apply_to(Config& config) const {
        if (!rendezvous.empty()) config.set_flag("WEIR_RENDEZVOUS", "--rendezvous", rendezvous);
        if (!rank.empty()) config.set_flag("WEIR_RANK", "--rank", rank);
        if (!size.empty()) config.set_flag("WEIR_SIZE", "--size", size);
    }
};

}  // namespace weir::tools
