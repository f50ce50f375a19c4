// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: the LIBSVM parser takes any bytes, and its results keep its contract.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string_view>

#include "lib/base/check.h"
#include "lib/data/libsvm_parser.h"

namespace {

using namespace weir::data;

void parse(std::string_view rest, const LibsvmFormat& format) {
    ParsedLines lines;
    while (const auto bad = parse_libsvm(rest, lines, format)) {
        WEIR_CHECK(!bad->expected.empty() && !bad->found.empty());
        WEIR_CHECK(bad->next_offset > 0 && bad->next_offset <= rest.size());
        WEIR_CHECK(bad->column >= 1 && bad->column <= bad->next_offset + 1);
        rest.remove_prefix(bad->next_offset);
    }
    WEIR_CHECK(lines.labels.size() == lines.lengths.size());
    WEIR_CHECK(lines.keys.size() == lines.values.size());
    WEIR_CHECK(std::accumulate(lines.lengths.begin(), lines.lengths.end(), uint64_t{0}) ==
               lines.keys.size());
    WEIR_CHECK(lines.numbers.size() == (format.any_label ? lines.labels.size() : 0));
    for (const float number : lines.numbers)
        WEIR_CHECK(std::isfinite(number));
    for (const int8_t label : lines.labels)
        WEIR_CHECK(format.any_label ? label == 0 : label == 1 || label == -1);
    for (const float value : lines.values) {
        WEIR_CHECK(std::isfinite(value) && value != 0);
        WEIR_CHECK(!lines.all_ones || value == 1);
    }
    size_t at = 0;
    for (const uint32_t length : lines.lengths) {
        const std::set<uint64_t> keys(
            lines.keys.begin() + static_cast<std::ptrdiff_t>(at),
            lines.keys.begin() + static_cast<std::ptrdiff_t>(at + length));
        WEIR_CHECK(keys.size() == length);
        at += length;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t byte_count) {
    const std::string_view text(reinterpret_cast<const char*>(bytes), byte_count);
    parse(text, {});
    LibsvmFormat any;
    any.any_label = true;
    parse(text, any);
    return 0;
}
