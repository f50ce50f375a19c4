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
