// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What errors call the manager of a job, or its managers.

#include <span>
#include <string>
#include <string_view>

namespace weir {

struct ManagerLife;
struct ManagerPlace;

/// "ranks 0, 4, 8"
[[nodiscard]] std::string manager_ranks(std::span<const ManagerPlace> several);

/// "the manager (rank 0)", or of several "the manager that leads (one of ranks 0, 4, 8)".
/// `life`: what the process knows; null: there is one
[[nodiscard]] std::string manager_name(const ManagerLife* life);

/// "the manager (rank 0) is gone", or of several "most managers of the job (of ranks 0, 4, 8) are gone".
[[nodiscard]] std::string manager_is_gone(const ManagerLife* life);

/// "the manager (rank 0) has not answered for 120 s; see whether ...".
[[nodiscard]] std::string manager_is_silent(const ManagerLife* life);

/// "it", or "them" of several.
[[nodiscard]] std::string_view manager_pronoun(const ManagerLife* life);

/// "its", or "their".
[[nodiscard]] std::string_view manager_possessive(const ManagerLife* life);

/// "; its copies keep ...": how a job with copies survives the end of the only manager. Nothing if there are
/// several.
[[nodiscard]] std::string_view advice_on_managers(const ManagerLife* life);

/// ", with --resume FOLDER if a checkpoint is there": how the job may be started again, from who does not know
/// whether there is one. Nothing if `checkpoint_folder` is empty.
[[nodiscard]] std::string resume_if_there(std::string_view checkpoint_folder);

/// "; start the job again" with that. Nothing if `checkpoint_folder` is empty.
[[nodiscard]] std::string start_again_text(std::string_view checkpoint_folder);

/// "; without it the job cannot go on: ...", what follows the end of the manager for a worker, and what to do.
/// `checkpoint_folder`: empty if this process knows none. Whether a checkpoint is in it nobody says any more.
[[nodiscard]] std::string job_ends_without_manager(const ManagerLife* life, bool has_copies,
                                                   std::string_view checkpoint_folder);

}  // namespace weir
