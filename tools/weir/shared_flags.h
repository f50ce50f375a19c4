// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Flags that several commands have.

#include <cstdint>
#include <string>

#include "lib/data/labels.h"
#include "lib/wire/on_worker_loss.h"
#include "tools/weir/job_flags.h"

namespace CLI {
class App;
}

namespace weir::tools {

void add_labels(CLI::App& command, data::LabelMap& map);

/// The flags that describe a job, the same for every command that runs one.
void add_job(CLI::App& command, JobFlags& job);

void add_grace(CLI::App& command, uint32_t& seconds, const std::string& meaning);

/// What a command can do but stop when a worker dies.
struct WorkerLossWord {
    std::string word;
    OnWorkerLoss meaning;
    std::string what;         ///< what it does
    std::string other;        ///< the word that other commands have for it
    std::string why_not_it;   ///< why this one has not
    std::string others_have;  ///< which commands have which words
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
