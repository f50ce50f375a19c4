// SPDX-License-Identifier: Apache-2.0
#include "lib/node/manager_names.h"

#include <fmt/core.h>

#include "lib/node/lease_line.h"
#include "lib/node/life_line.h"

namespace weir {
namespace {

bool are_several(const ManagerLife* life) {
    return life != nullptr && !life->places.empty();
}

}  // namespace

std::string manager_ranks(std::span<const ManagerPlace> several) {
    std::string text = "ranks";
    for (const ManagerPlace& one : several)
        text += fmt::format("{} {}", &one == several.data() ? "" : ",", one.rank);
    return text;
}

std::string manager_name(const ManagerLife* life) {
    if (!are_several(life)) return "the manager (rank 0)";
    return fmt::format("the manager that leads (one of {})", manager_ranks(life->places));
}

std::string manager_is_gone(const ManagerLife* life) {
    if (!are_several(life)) return "the manager (rank 0) is gone";
    return fmt::format("most managers of the job (of {}) are gone", manager_ranks(life->places));
}

std::string manager_is_silent(const ManagerLife* life) {
    return fmt::format(
        "{} has not answered for {} s; see whether its process is stopped, and "
        "whether its host and the network to it work",
        manager_name(life), LeaseLine::kSilentNs / kSecond);
}

std::string_view manager_pronoun(const ManagerLife* life) {
    return are_several(life) ? "them" : "it";
}

std::string_view manager_possessive(const ManagerLife* life) {
    return are_several(life) ? "their" : "its";
}

std::string_view advice_on_managers(const ManagerLife* life) {
    if (are_several(life)) return "";
    return "; its copies keep a job only as long as a manager lives: with `managers` 3, which "
           "needs 3 processes with servers, it would have gone on";
}

std::string resume_if_there(std::string_view checkpoint_folder) {
    if (checkpoint_folder.empty()) return {};
    return fmt::format(", with `resume` {} if a checkpoint is there", checkpoint_folder);
}

std::string start_again_text(std::string_view checkpoint_folder) {
    if (checkpoint_folder.empty()) return {};
    return "; start the job again" + resume_if_there(checkpoint_folder);
}

std::string job_ends_without_manager(const ManagerLife* life, bool has_copies,
                                     std::string_view checkpoint_folder) {
    std::string text =
        fmt::format("; without {} the job cannot go on: start it again", manager_pronoun(life));
    text += resume_if_there(checkpoint_folder);
    if (has_copies) text += advice_on_managers(life);
    return text;
}

}  // namespace weir
