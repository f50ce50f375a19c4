// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerPlace: where a manager of a job is. Of several, a list of them is in the order of their numbers, which
/// count from 1 and are in the order of their ranks.

#include <cstdint>
#include <string>

namespace weir {

struct ManagerPlace {
    uint32_t rank = 0;         ///< of its process, for people
    std::string address = {};  ///< where members connect to
    friend bool operator==(const ManagerPlace&, const ManagerPlace&) = default;
};

}  // namespace weir
