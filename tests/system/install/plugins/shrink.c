// SPDX-License-Identifier: Apache-2.0
/// \file
/// A plugin in C with two functions that run where the rows lie: one draws values towards 0, as the penalty
/// by * |w| asks for, and one counts those that have come there.
///
///     cc -std=c99 -O2 -shared -fPIC shrink.c -o shrink.so

#include <weir/weir_plugin.h>

static int shrink(struct weir_function_rows* rows, void* user) {
    float* const w = (float*)rows->values;
    const float by = (float)rows->numbers[0];
    (void)user;
    for (size_t i = 0; i < rows->row_count * rows->width; ++i)
        w[i] = w[i] > by ? w[i] - by : w[i] < -by ? w[i] + by : 0;
    return 0;
}

static int zeros(struct weir_function_rows* rows, void* user) {
    const float* const w = (const float*)rows->values;
    (void)user;
    for (size_t i = 0; i < rows->row_count * rows->width; ++i)
        rows->results[0] += w[i] == 0;
    return 0;
}

WEIR_PLUGIN_EXPORT int weir_plugin_v1(const struct weir_registrar* weir) {
    static const struct weir_function_number by[] = {{"by", 0.5, 0, 0}};
    const struct weir_function changes = {.size = sizeof changes,
                                          .name = "shrink",
                                          .version = 1,
                                          .types = WEIR_TYPE(WEIR_FLOAT32),
                                          .numbers = by,
                                          .number_count = 1,
                                          .run = shrink};
    const struct weir_function reads = {.size = sizeof reads,
                                        .name = "zeros",
                                        .version = 1,
                                        .types = WEIR_TYPE(WEIR_FLOAT32),
                                        .result_count = 1,
                                        .run = zeros};
    const int failed = weir->add_function(weir, &changes);
    return failed ? failed : weir->add_function(weir, &reads);
}
