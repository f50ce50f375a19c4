// SPDX-License-Identifier: Apache-2.0
#include "lib/store/functions/function_call.h"

#include <utility>

#include "lib/base/byte_codec.h"

namespace weir {

std::vector<std::byte> encode_result(const FunctionResult& result) {
    ByteWriter writer;
    writer.reserve(2 * sizeof(uint64_t) * (1 + result.numbers.size()));
    writer.number(uint64_t{result.numbers.size()}).number(uint64_t{result.keys.size()});
    writer.raw(std::as_bytes(std::span(result.numbers))).raw(std::as_bytes(std::span(result.keys)));
    return std::move(writer).take();
}

std::optional<FunctionResult> decode_result(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    const auto numbers = reader.number<uint64_t>();
    const auto keys = reader.number<uint64_t>();
    const size_t room = bytes.size() / sizeof(uint64_t);
    if (numbers > room || keys > room || 2 + numbers + keys != room) return std::nullopt;
    FunctionResult result;
    result.numbers.resize(numbers);
    for (double& number : result.numbers)
        number = reader.number<double>();
    result.keys.resize(keys);
    for (uint64_t& key : result.keys)
        key = reader.number<uint64_t>();
    if (!reader.done()) return std::nullopt;
    return result;
}

}  // namespace weir
