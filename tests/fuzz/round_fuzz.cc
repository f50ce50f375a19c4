// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes are refused as rounded values, or become finite ones; and any floats are
/// refused, or rounded to bytes that become values of the same number. Input: the form (1 byte),
/// the number of values (2 bytes), and bytes.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/filter/select/block_round.h"

namespace {

using namespace weir;
using namespace weir::filter;

bool all_are_finite(std::span<const float> values) {
    bool all = true;
    for (const float value : values)
        all = all && std::isfinite(value);
    return all;
}

void check_floats(RoundForm form, std::span<const std::byte> input) {
    std::vector<float> values(input.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), input.data(), values.size() * sizeof(float));
    std::vector<std::byte> bytes(rounded_bytes(form, values.size()));
    if (!round_values(form, values, input.size(), bytes)) return;
    WEIR_CHECK(all_are_finite(values));
    std::vector<float> back(values.size());
    WEIR_CHECK(unround_values(form, bytes, back) && all_are_finite(back));
    // What was rounded is a value of the form, and stays.
    if (!round_values(form, back, 1, bytes)) return;
    std::vector<float> again(values.size());
    WEIR_CHECK(unround_values(form, bytes, again) && again == back);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 3) return 0;
    const auto form = static_cast<RoundForm>(data[0]);
    uint16_t count = 0;
    std::memcpy(&count, data + 1, sizeof count);
    // A copy of its own, so that the sanitizer sees reads beyond the bytes.
    const std::vector<uint8_t> copy(data + 3, data + size);
    const auto bytes = std::as_bytes(std::span(copy));
    std::vector<float> values(count);
    if (unround_values(form, bytes, values)) {
        WEIR_CHECK(is_valid(form) && bytes.size() == rounded_bytes(form, count));
        WEIR_CHECK(all_are_finite(values));
    }
    if (is_valid(form)) check_floats(form, bytes);
    return 0;
}
