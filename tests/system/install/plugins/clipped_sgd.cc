// SPDX-License-Identifier: Apache-2.0
/// \file
/// A plugin in C++: gradient descent whose steps are at most `clip` long. It counts, in the state of a row, the
/// steps that were longer; and refuses a gradient that is no number.
///
///     c++ -std=c++17 -O2 -shared -fPIC clipped_sgd.cc -o clipped_sgd.so

#include <cmath>
#include <cstdio>

#include <weir/weir_plugin.h>

namespace {

enum { kRate, kClip };

template <class T>
int update_rows(weir_rows* rows) {
    const T rate = static_cast<T>(rows->parameters[kRate]);
    const T clip = static_cast<T>(rows->parameters[kClip]);
    for (size_t r = 0; r < rows->row_count; ++r) {
        auto* const values = static_cast<T*>(weir_values(rows, r));
        auto* const clipped_count = static_cast<uint32_t*>(weir_state(rows, r));
        const auto* const gradient = static_cast<const T*>(weir_pushed(rows, r));
        T squares = 0;
        for (uint32_t i = 0; i < rows->width; ++i)
            squares += gradient[i] * gradient[i];
        if (std::isnan(squares)) {
            std::snprintf(rows->error, rows->error_bytes_max, "a gradient that is no number");
            rows->failed_row = r;
            return 1;
        }
        const T length = rate * std::sqrt(squares);
        const T factor = length > clip ? rate * clip / length : rate;
        *clipped_count += length > clip ? 1 : 0;
        for (uint32_t i = 0; i < rows->width; ++i)
            values[i] -= factor * gradient[i];
    }
    return 0;
}

int update_clipped(weir_rows* rows, void*) {
    return rows->value_type == WEIR_FLOAT32 ? update_rows<float>(rows) : update_rows<double>(rows);
}

size_t one_count(uint32_t, uint32_t, void*) {
    return sizeof(uint32_t);
}

const char* check_clip(const double* parameters, uint32_t, void*) {
    return parameters[kRate] > 1 ? "a rate above 1 steps over the minimum" : nullptr;
}

}  // namespace

extern "C" int weir_plugin_v1(const weir_registrar* weir) {
    const weir_parameter parameters[] = {{"rate", 0, 0}, {"clip", 0, 0}};
    weir_rule rule{};
    rule.size = sizeof rule;
    rule.name = "clipped_sgd";
    rule.version = 1;
    rule.types = WEIR_TYPES_FLOATING;
    rule.flags = WEIR_WANTS_KEYS;  // so that errors name them
    rule.parameters = parameters;
    rule.parameter_count = 2;
    rule.state_bytes = one_count;
    rule.check = check_clip;
    rule.update = update_clipped;
    return weir->add_rule(weir, &rule);
}
