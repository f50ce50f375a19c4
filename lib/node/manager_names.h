// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What errors call the manager of a job, or its managers.

#include <span>
#include <string>

namespace weir {

struct ManagerLife;
struct ManagerPlace;

/// "ranks 0, 4, 8"
[[nodiscard]] std::string manager_ranks(std::span<const ManagerPlace> several);

/// "the manager (rank 0)", or of several "the manager that leads (one of ranks 0, 4, 8)".
/// `life`: what the process knows; null: there is one
[[nodiscard]] std::string manager_name(const ManagerLife* life);

/// "the manager (rank 0) is gone", or of several "most managers of the job (ranks 0, 4, 8) are gone".
[[nodiscard]] std::string manager_is_gone(const ManagerLife* life);

}  // namespace weir
