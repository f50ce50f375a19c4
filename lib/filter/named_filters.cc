// SPDX-License-Identifier: Apache-2.0
/// \file
/// The filters by the names that programs use.

#include <utility>

#include "lib/filter/filters.h"

namespace weir {

namespace filters {

Filter zeros() {
    return {"zeros"};
}

Filter integers() {
    return {"integers"};
}

Filter compress() {
    return {"compress"};
}

Filter table_codec() {
    return {"table-codec"};
}

Filter automatic() {
    return {"auto"};
}

Filter significant(double delta) {
    return {"significant", {delta}};
}

Filter significant_relative(double delta) {
    return {"significant-relative", {delta}};
}

Filter random_skip(double q) {
    return {"random-skip", {q}};
}

Filter top_by_budget(double bytes_per_second, double burst_bytes) {
    return {"top", {bytes_per_second, burst_bytes}};
}

Filter tail(uint32_t first_kept) {
    return {"tail", {static_cast<double>(first_kept)}};
}

Filter round(RoundForm form, bool adds_rests) {
    return {"round", {static_cast<double>(form), adds_rests ? 1.0 : 0.0}};
}

Filter own(std::string name, std::shared_ptr<const SelectorFactory> factory) {
    return {std::move(name), {}, std::move(factory)};
}

}  // namespace filters

}  // namespace weir
