// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/jobs/running_job_flags.h"

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/weir/jobs/running_job.h"
#include "tools/weir/numbers.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {

void add_server(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<ServerFlags>();
    CLI::App* const command = app.add_subcommand("server", "join a running job as a server");
    command->add_option("--join", flags->join.contact, kContactMeaning)
        ->required()
        ->type_name(kContactType);
    command->add_option("--shards", flags->join.shards, "shards, each a thread")
        ->check(count(1, 1024))
        ->capture_default_str();
    command
        ->add_option("--weight", flags->join.weight,
                     "share of the parameters, where the servers of the job's start have 1 each")
        ->check(count(1, 1000))
        ->capture_default_str();
    add_grace(
        *command, flags->grace_s,
        "seconds after SIGTERM in which it must have handed over all, or it ends without; 0: as "
        "long as it takes");
    command->footer(
        std::string(kContactFooter) +
        "The job gives it its share of the parameters, while training goes on. SIGTERM, or Ctrl-C\n"
        "once, makes it hand over all and end with 0, unless rank 0 of the job gets the signal, "
        "too;\n"
        "Ctrl-C twice, or SIGTERM again after a second, ends it at once. If a signal stops the "
        "training, it ends as the ranks of\n"
        "the job do, with 130 (SIGINT) or 143 (SIGTERM).");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_server(*flags, config); };
    });
}

void add_leave(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<LeaveFlags>();
    CLI::App* const command = app.add_subcommand("leave", "make a server leave a running job");
    command->add_option("contact", flags->contact, kContactMeaning)
        ->required()
        ->type_name(kContactType);
    command->add_option("--server", flags->server, "its number, as `weir status` shows it")
        ->required()
        ->check(count(0, kCountMax));
    command->footer(
        std::string(kContactFooter) +
        "Waits until the server has handed over all that it holds. The last server cannot leave.");
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_leave(*flags, config); };
    });
}

void add_status(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<StatusFlags>();
    CLI::App* const command = app.add_subcommand("status", "show the state of a running job");
    command->add_option("contact", flags->contact, kContactMeaning)
        ->required()
        ->type_name(kContactType);
    command->add_flag("--json", flags->json, "as JSON, for programs");
    command->footer(kContactFooter);
    command->callback([flags, &chosen] {
        chosen.run = [flags](Config& config) { return run_status(*flags, config); };
    });
}

}  // namespace weir::tools
