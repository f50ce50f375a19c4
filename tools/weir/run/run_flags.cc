// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/run/run_flags.h"

#include <memory>

#include <CLI/CLI.hpp>

#include "lib/store/plugins/plugin.h"
#include "tools/weir/numbers.h"
#include "tools/weir/run/run.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {
namespace {

constexpr const char* kRunFooter =
    "The ranks find each other without MPI, by WEIR_RENDEZVOUS, WEIR_RANK and WEIR_SIZE, which "
    "they\n"
    "get in their environment. Each line that rank 3 writes has [3] before it. Rank 0 reads the\n"
    "standard input, if that is no terminal.\n"
    "A rank fails if it returns another code than 0, or a signal ends it. After a second the "
    "others\n"
    "get SIGTERM, and SIGKILL --grace seconds later. `weir run` returns what the first one that\n"
    "failed returned; 128 + N if signal N ended it.\n"
    "Ranks of a job that is stopped (`weir stop`) return 143, and have --grace seconds to end "
    "before\n"
    "they get SIGTERM; so does `weir run`.\n"
    "--json tells of each rank how it ended. On standard output, that of the ranks goes to\n"
    "standard error.\n"
    "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to all ranks. The third signal to "
    "stop\n"
    "kills them.\n"
    "Without --rendezvous (or WEIR_RENDEZVOUS) the ranks meet at a free port of 127.0.0.1, with a\n"
    "secret of their own. With it, `weir status` and its like find the job there.\n"
    "On several hosts, start the ranks by mpirun or srun: `weir help launchers`.\n";

}  // namespace

CLI::App* add_run(CLI::App& app, const std::vector<std::string>& behind, Command& chosen) {
    const auto flags = std::make_shared<RunFlags>();
    CLI::App* const command =
        app.add_subcommand("run", "start the ranks of a job on this host, without a launcher");
    command->add_option("-n,--ranks", flags->ranks, "processes to start")
        ->required()
        ->check(count(1, RunFlags::kRanksMax));

    struct Shape {
        const char* flag;
        const char* variable;
        const char* meaning;
        uint64_t least;
        uint64_t most;
    };

    for (const Shape& is : {Shape{"--servers", "WEIR_SERVERS", kServersMeaning, 1, kPartCountMax},
                            Shape{"--shards", "WEIR_SHARDS", kShardsMeaning, 1, kPartCountMax},
                            Shape{"--workers", "WEIR_WORKERS", kWorkersMeaning, 1, kPartCountMax},
                            Shape{"--replicas", "WEIR_REPLICAS", kReplicasMeaning, 0, 2}}) {
        command
            ->add_option_function<std::string>(
                is.flag,
                [flags, variable = is.variable](const std::string& text) {
                    flags->variables[variable] = text;
                },
                std::string(is.meaning) + "; sets " + is.variable)
            ->option_text("N")
            ->check(count(is.least, is.most));
    }
    add_plugins(*command, flags->plugins,
                "file with update rules that the ranks load; may be given several times; sets "
                "WEIR_PLUGINS");
    command->add_option("--rendezvous", flags->rendezvous, "where the ranks meet")
        ->option_text("HOST:PORT");
    add_grace(*command, flags->grace_s,
              "seconds from SIGTERM to SIGKILL, when a rank has failed; 0: there is no SIGKILL");
    command->add_flag("--keep-going", flags->goes_on,
                      "when a rank fails, the others go on: for jobs with --replicas, or with "
                      "--on-worker-loss");
    add_json(*command, flags->json);
    command->add_option("PROGRAM", flags->command, "program to start, and behind -- its arguments")
        ->option_text("-- PROGRAM ARGUMENTS...");
    command->footer(kRunFooter);
    command->callback([flags, behind, &chosen] {
        flags->command.insert(flags->command.end(), behind.begin(), behind.end());
        if (!flags->plugins.empty())
            flags->variables["WEIR_PLUGINS"] = join_plugin_paths(flags->plugins);
        if (flags->command.empty())
            throw CLI::ValidationError("no program to start",
                                       "name one: `weir run -n 2 -- PROGRAM`");
        chosen.run = [flags](Config& config) { return run_ranks(*flags, config); };
    });
    return command;
}

}  // namespace weir::tools
