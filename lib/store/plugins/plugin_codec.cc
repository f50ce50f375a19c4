// SPDX-License-Identifier: Apache-2.0
#include "lib/store/plugins/plugin_codec.h"

#include <utility>

#include <fmt/core.h>

#include "lib/store/plugins/plugin_struct.h"

namespace weir {
namespace {

static_assert(WEIR_BFLOAT16 == static_cast<int>(ValueType::kBFloat16) &&
              WEIR_FLOAT16 == static_cast<int>(ValueType::kFloat16) &&
              WEIR_TYPES_OF_CODECS == (1U << kValueTypeCount) - 1);

class PluginCodec final : public ValueCodec {
public:
    PluginCodec(const weir_codec& codec, std::shared_ptr<void> object)
        : is_(codec), object_(std::move(object)) {}

    [[nodiscard]] bool takes(ValueType type) const noexcept override {
        return is_valid(type) && (is_.types & WEIR_TYPE(static_cast<uint32_t>(type))) != 0;
    }

    [[nodiscard]] std::optional<size_t> encode(ValueType type, std::span<const std::byte> values,
                                               std::span<std::byte> body) const override {
        const size_t bytes = is_.encode(static_cast<uint32_t>(type), values.data(),
                                        values.size() / size_of(type), body.data(), is_.user);
        return bytes > body.size() ? std::nullopt : std::optional(bytes);
    }

    [[nodiscard]] Status decode(ValueType type, std::span<const std::byte> body,
                                std::span<std::byte> values) const override {
        const int refused = is_.decode(static_cast<uint32_t>(type), body.data(), body.size(),
                                       values.data(), values.size() / size_of(type), is_.user);
        if (refused == 0) return {};
        return Error(Errc::kProtocol, "an encoded body: the table's codec refuses it");
    }

private:
    weir_codec is_;
    std::shared_ptr<void> object_;
};

Error refused_codec(std::string_view codec, std::string_view why) {
    return {Errc::kInvalidArgument,
            fmt::format("its codec{} {}", codec.empty() ? "" : fmt::format(" '{}'", codec), why)};
}

}  // namespace

Result<CodecEntry> make_plugin_codec(const weir_codec& codec, std::shared_ptr<void> object) {
    if (const Status known = check_struct(codec, "weir_codec"); !known)
        return refused_codec("", known.error().text());
    const char* const name = name_or_null(codec.name);
    if (name == nullptr)
        return refused_codec("", fmt::format("has no name: one of 1 to {} bytes, without control "
                                             "characters",
                                             WEIR_NAME_BYTES_MAX));
    if (codec.encode == nullptr || codec.decode == nullptr)
        return refused_codec(name, "has no function `encode`, or none for `decode`");
    if (codec.types == 0 || (codec.types & ~WEIR_TYPES_OF_CODECS) != 0)
        return refused_codec(name, fmt::format("has `types` {:#x}: set a WEIR_TYPE() of each type "
                                               "that it takes, and nothing else",
                                               codec.types));
    return make_codec(name, codec.version, std::make_shared<PluginCodec>(codec, std::move(object)));
}

}  // namespace weir
