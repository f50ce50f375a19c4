// SPDX-License-Identifier: Apache-2.0
/// \file
/// A plugin in C: gradient descent for a loss with the penalty lambda |row|, which makes useless rows zeros.
///
///     cc -std=c99 -O2 -shared -fPIC group_lasso.c -o group_lasso.so -lm

#include <math.h>
#include <weir/weir_plugin.h>

enum { RATE, LAMBDA };

static int update(struct weir_rows* rows, void* user) {
    const float rate = (float)rows->arguments[RATE];
    const float lambda = (float)rows->parameters[LAMBDA];
    (void)user;
    for (size_t r = 0; r < rows->row_count; ++r) {
        float* const values = (float*)weir_values(rows, r);
        const float* const gradient = (const float*)weir_pushed(rows, r);
        float squares = 0;
        float shrunk = 0;
        for (uint32_t i = 0; i < rows->width; ++i) {
            values[i] -= rate * gradient[i];
            squares += values[i] * values[i];
        }
        if (squares > 0) shrunk = fmaxf(0, 1 - rate * lambda / sqrtf(squares));
        for (uint32_t i = 0; i < rows->width; ++i)
            values[i] *= shrunk;
    }
    return 0;
}

WEIR_PLUGIN_EXPORT int weir_plugin_v1(const struct weir_registrar* weir) {
    static const struct weir_parameter parameters[] = {{.name = "rate"},
                                                       {.name = "lambda", .may_be_zero = 1}};
    static const struct weir_argument arguments[] = {{.name = "rate"}};  // a push may bring it
    const struct weir_rule rule = {.size = sizeof rule,
                                   .name = "group_lasso",
                                   .version = 1,
                                   .types = WEIR_TYPE(WEIR_FLOAT32),
                                   .combine = WEIR_MEAN,
                                   .parameters = parameters,
                                   .parameter_count = 2,
                                   .arguments = arguments,
                                   .argument_count = 1,
                                   .update = update};
    return weir->add_rule(weir, &rule);
}
