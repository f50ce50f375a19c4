// SPDX-License-Identifier: Apache-2.0
/// \file
/// A plugin in C with a codec: values that are all plus or minus the same number, as signSGD pushes them, become
/// that number and a bit each.
///
///     cc -std=c99 -O2 -shared -fPIC signs.c -o signs.so

#include <string.h>
#include <weir/weir_plugin.h>

static const uint32_t kSign = UINT32_C(1) << 31;

static size_t encode(uint32_t type, const void* values, size_t count, void* body, void* user) {
    const uint32_t* const bits = (const uint32_t*)values;
    const size_t bytes = 4 + (count + 7) / 8;
    uint32_t number;
    (void)type;
    (void)user;
    if (count == 0 || bytes > 4 * count) return SIZE_MAX;  // the values travel as they are
    number = bits[0] & ~kSign;
    memset(body, 0, bytes);
    memcpy(body, &number, 4);
    for (size_t i = 0; i < count; ++i) {
        if ((bits[i] & ~kSign) != number) return SIZE_MAX;
        if (bits[i] & kSign) ((uint8_t*)body)[4 + i / 8] |= (uint8_t)(1U << i % 8);
    }
    return bytes;
}

static int decode(uint32_t type, const void* body, size_t body_bytes, void* values, size_t count,
                  void* user) {
    const uint8_t* const signs = (const uint8_t*)body + 4;
    uint32_t* const bits = (uint32_t*)values;
    uint32_t number;
    (void)type;
    (void)user;
    if (body_bytes != 4 + (count + 7) / 8) return 1;  // somebody sent it: anything may be in it
    memcpy(&number, body, 4);
    for (size_t i = 0; i < count; ++i)
        bits[i] = number ^ (signs[i / 8] >> i % 8 & 1 ? kSign : 0);
    return 0;
}

WEIR_PLUGIN_EXPORT int weir_plugin_v1(const struct weir_registrar* weir) {
    const struct weir_codec codec = {.size = sizeof codec,
                                     .name = "signs",
                                     .version = 1,
                                     .types = WEIR_TYPE(WEIR_FLOAT32),
                                     .encode = encode,
                                     .decode = decode};
    return weir->add_codec(weir, &codec);
}
