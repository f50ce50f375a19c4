// SPDX-License-Identifier: Apache-2.0
#include "lib/node/manager_names.h"

#include <fmt/core.h>

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
    return fmt::format("most managers of the job ({}) are gone", manager_ranks(life->places));
}

}  // namespace weir
