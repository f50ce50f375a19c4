// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Flags that several commands have.

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/labels.h"
#include "lib/filter/filters.h"
#include "lib/wire/on_worker_loss.h"
#include "tools/weir/job_flags.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace weir::tools {

void add_labels(CLI::App& command, data::LabelMap& map);

/// --filters LIST; `standard`: without it.
void add_filters(CLI::App& command, Filters& filters, const std::string& standard);

/// A check for CLI11: returns what is wrong with the text of filters, or "".
[[nodiscard]] std::string wrong_filters(const std::string& text);

/// The flags that describe a job, the same for every command that runs one.
void add_job(CLI::App& command, JobFlags& job);

/// --plugin FILE, as often as there are files.
void add_plugins(CLI::App& command, std::vector<std::string>& files, const std::string& meaning);

inline constexpr const char* kPluginsMeaning =
    "file with update rules to load (`weir help plugins`); may be given several times; the same "
    "files for all processes with servers";

/// The meaning of flags that commands for jobs, and `weir run`, have in common.
inline constexpr uint64_t kPartCountMax =
    4096;  ///< of servers, workers and shards, as in Job::start()
inline constexpr const char* kServersMeaning =
    "servers of the job, on its first ranks; each rank has one at most";
inline constexpr const char* kShardsMeaning = "shards per server; each is a thread";
inline constexpr const char* kWorkersMeaning =
    "workers of each process that has workers; each is a thread";
inline constexpr const char* kReplicasMeaning =
    "copies on other servers, 0 to 2: the job goes on when as many servers die";

/// --json [FILE]. parse_command_line() makes a - of a FILE that is not given.
void add_json(CLI::App& command, std::string& file);

/// The same of a command that needs the word `needed`: in `weir status --json JOB` the word is the JOB,
/// and no FILE.
void add_json(CLI::App& command, std::string& file, CLI::Option& needed);

/// Prints what a command has found: on standard output as text, and as JSON where --json says so, which
/// replaces the text there.
[[nodiscard]] Status print_result(const std::string& json_file, const std::string& text,
                                  const std::string& json);

void add_grace(CLI::App& command, uint32_t& seconds, const std::string& meaning);

/// What a command can do but stop when a worker dies.
struct WorkerLossWord {
    std::string word;
    OnWorkerLoss meaning;
    std::string other;       ///< the word that it does not take
    std::string why_not_it;  ///< and why
};

void add_worker_loss(CLI::App& command, JobFlags& job, const WorkerLossWord& is);

/// How a command is told which running job it is for.
inline constexpr const char* kContactMeaning =
    "the --rendezvous of the job, or the file that --contact made it write";
inline constexpr const char* kContactType = "HOST:PORT|FILE";
inline constexpr const char* kContactFooter =
    "At HOST:PORT, give WEIR_SECRET_FILE as the ranks of the job have it. A file whose name looks\n"
    "like HOST:PORT needs a folder before it: ./HOST:PORT.\n";

}  // namespace weir::tools
