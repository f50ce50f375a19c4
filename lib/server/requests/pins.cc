// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/pins.h"

#include <algorithm>

namespace weir {

bool Pins::unpin(uint64_t write) {
    const auto is_its = [&](const Pin& pin) { return pin.write == write; };
    return std::erase_if(pins_, is_its) > 0 && pins_.empty();
}

bool Pins::any_of(KeyRange keys) const noexcept {
    return std::any_of(pins_.begin(), pins_.end(),
                       [&](const Pin& pin) { return !intersect(pin.keys, keys).empty(); });
}

}  // namespace weir
