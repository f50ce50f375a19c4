// SPDX-License-Identifier: Apache-2.0
#include "lib/node/manager_names.h"

#include <fmt/core.h>

#include "lib/node/life_line.h"

namespace weir {
namespace {

bool are_several(const ManagerLife* life) {
    return life != nullptr && !life->addresses.empty();
}

}  // namespace

std::string manager_ranks(size_t count) {
    std::string text = "ranks 0";
    for (size_t rank = 1; rank < count; ++rank)
        text += fmt::format(", {}", rank);
    return text;
}

std::string manager_name(const ManagerLife* life) {
    if (!are_several(life)) return "the manager (rank 0)";
    return fmt::format("the manager that leads (one of {})", manager_ranks(life->addresses.size()));
}

std::string manager_is_gone(const ManagerLife* life) {
    if (!are_several(life)) return "the manager (rank 0) is gone";
    return fmt::format("most managers of the job ({}) are gone",
                       manager_ranks(life->addresses.size()));
}

}  // namespace weir
