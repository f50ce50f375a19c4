// SPDX-License-Identifier: Apache-2.0
/// \file
/// A plugin for tests: its rule adds what is pushed, times a factor. Macros say what is wrong with it, or that it
/// has a codec in its place.
#include <cstring>
#include <stdexcept>

#include "lib/store/plugins/weir_plugin.h"

extern "C" {

#if defined(PLUGIN_OTHER_CONTENT)
WEIR_PLUGIN_EXPORT int this_file_is_another_one = 1;
#endif

#if defined(PLUGIN_UNDEFINED)
void is_nowhere();
#endif

[[maybe_unused]] static int update_of_test(weir_rows* rows, void*) {
    for (size_t r = 0; r < rows->row_count; ++r) {
        auto* const values = static_cast<float*>(weir_values(rows, r));
        const auto* const pushed = static_cast<const float*>(weir_pushed(rows, r));
        for (uint32_t i = 0; i < rows->width; ++i) {
            if (pushed[i] == -1000) {
                std::strncpy(rows->error, "a push of -1000", rows->error_bytes_max - 1);
                rows->failed_row = r;
                return 1;
            }
            if (pushed[i] == -2000) throw std::runtime_error("a push of -2000");
            values[i] += static_cast<float>(rows->arguments[0]) * pushed[i];
        }
    }
    return 0;
}

#if defined(PLUGIN_CODEC) || defined(PLUGIN_BAD_CODEC)
/// Values without their bytes of zeros at the end, behind the number of bytes that are left.
static size_t encode_of_test(uint32_t type, const void* values, size_t count, void* body, void*) {
    size_t bytes = count * (type == WEIR_FLOAT64 ? 8 : 4);
    const size_t room = bytes;
    while (bytes > 0 && static_cast<const char*>(values)[bytes - 1] == 0)
        --bytes;
    if (bytes == room) return SIZE_MAX;
    std::memcpy(body, values, bytes);
    return bytes;
}

[[maybe_unused]] static int decode_of_test(uint32_t type, const void* body, size_t bytes,
                                           void* values, size_t count, void*) {
    const size_t room = count * (type == WEIR_FLOAT64 ? 8 : 4);
    if (bytes > room) return 1;
    std::memset(values, 0, room);
    std::memcpy(values, body, bytes);
    return 0;
}
#endif

#if defined(PLUGIN_FUNCTIONS) || defined(PLUGIN_BAD_FUNCTION)
/// y += by * x; refuses rows of which the first value of x is negative.
static int add_of_test(weir_function_rows* rows, void*) {
    auto* const y = static_cast<double*>(rows->values);
    const auto* const x = static_cast<const double*>(rows->with[0]);
    if (rows->row_count > 0 && x[0] < 0) {
        std::strncpy(rows->error, "a negative one", rows->error_bytes_max - 1);
        return 1;
    }
    for (size_t i = 0; i < rows->row_count * rows->width; ++i)
        y[i] += rows->numbers[0] * x[i];
    return 0;
}

/// The greatest value below a bound, and the greatest key.
[[maybe_unused]] static int below_of_test(weir_function_rows* rows, void*) {
    const auto* const y = static_cast<const double*>(rows->values);
    for (size_t i = 0; i < rows->row_count * rows->width; ++i) {
        if (y[i] < rows->numbers[0] && y[i] > rows->results[0]) rows->results[0] = y[i];
    }
    for (size_t i = 0; i < rows->row_count; ++i) {
        const auto key = static_cast<double>(rows->keys[i]);
        if (key > rows->results[1]) rows->results[1] = key;
    }
    return 0;
}

[[maybe_unused]] static const char* check_of_test(const double* numbers, void*) {
    return numbers[0] > 100 ? "too much" : nullptr;
}
#endif

#if defined(PLUGIN_RULE_THROWS)
static size_t throwing_state_bytes(uint32_t, uint32_t, void*) {
    throw std::runtime_error("no state today");
}
#endif

#if defined(PLUGIN_NO_SYMBOL)
WEIR_PLUGIN_EXPORT int some_other_function() {
    return 0;
}
#elif defined(PLUGIN_ABI_2)
WEIR_PLUGIN_EXPORT int weir_plugin_v2(const weir_registrar*) {
    return 0;
}
#else
int weir_plugin_v1(const weir_registrar* weir) {
#if defined(PLUGIN_UNDEFINED)
    is_nowhere();
#elif defined(PLUGIN_THROWS)
    throw std::runtime_error("no licence");
#elif defined(PLUGIN_REFUSES)
    weir->say(weir, "this host\nhas no GPU");
    return 3;
#elif defined(PLUGIN_REFUSES_SILENTLY)
    (void)weir;
    return 3;
#elif defined(PLUGIN_NO_RULES)
    (void)weir;
    return 0;
#elif defined(PLUGIN_NULL_RULE)
    return weir->add_rule(weir, nullptr);
#elif defined(PLUGIN_CODEC) || defined(PLUGIN_BAD_CODEC)
    weir_codec codec{};
    codec.size = sizeof codec;
    codec.name = "cut";
    codec.version = 5;
    codec.types = WEIR_TYPE(WEIR_FLOAT32) | WEIR_TYPE(WEIR_FLOAT64);
    codec.encode = encode_of_test;
#if defined(PLUGIN_CODEC)
    codec.decode = decode_of_test;
#endif
    return weir->add_codec(weir, &codec);
#endif
#if defined(PLUGIN_FUNCTIONS) || defined(PLUGIN_BAD_FUNCTION)
    static const weir_function_number numbers[] = {{"by", 2, 0, 0}};
    weir_function changes{};
    changes.size = sizeof changes;
    changes.name = "add_some";
    changes.version = 7;
    changes.types = WEIR_TYPE(WEIR_FLOAT64);
    changes.tables = 1;
    changes.numbers = numbers;
    changes.number_count = 1;
    changes.check = check_of_test;
    changes.run = add_of_test;
#if defined(PLUGIN_BAD_FUNCTION)
    changes.tables = 5;
    return weir->add_function(weir, &changes);
#else
    weir_function reads = changes;
    reads.name = "below";
    reads.flags = WEIR_WANTS_KEYS;
    reads.tables = 0;
    reads.result_count = 2;
    reads.result_combine = WEIR_MAX;
    reads.run = below_of_test;
    return weir->add_function(weir, &changes) != 0 ? 1 : weir->add_function(weir, &reads);
#endif
#endif
    static const weir_parameter parameters[] = {{"factor", 0, 0}};
    static const weir_argument arguments[] = {{"factor", 1, 0, 0}};
    weir_rule rule{};
    rule.size = sizeof rule;
    rule.name = "times";
#if defined(PLUGIN_TAKEN)
    rule.name = "adam";
#endif
    rule.version = 3;
    rule.types = WEIR_TYPE(WEIR_FLOAT32);
    rule.flags = WEIR_WANTS_KEYS;
    rule.parameters = parameters;
    rule.parameter_count = 1;
    rule.arguments = arguments;
    rule.argument_count = 1;
    rule.update = update_of_test;
#if defined(PLUGIN_RULE_THROWS)
    rule.state_bytes = throwing_state_bytes;
#endif
#if defined(PLUGIN_BAD_RULE)
    rule.update = nullptr;
    (void)weir->add_rule(weir, &rule);
    return 0;  // as if nothing were wrong
#else
    return weir->add_rule(weir, &rule);
#endif
}
#endif

}  // extern "C"
