// SPDX-License-Identifier: Apache-2.0
#include "lib/store/rules/codec_entry.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/base/printable.h"
#include "lib/base/random.h"
#include "lib/store/rules/rule_threw.h"

namespace weir {
namespace {

using Bytes = std::span<const std::byte>;

/// Says in what its code throws which codec that was.
class NamedCodec final : public ValueCodec {
public:
    NamedCodec(std::string name, std::shared_ptr<const ValueCodec> codec)
        : name_(std::move(name)), codec_(std::move(codec)) {}

    [[nodiscard]] bool takes(ValueType type) const noexcept override { return codec_->takes(type); }

    [[nodiscard]] std::optional<size_t> encode(ValueType type, Bytes values,
                                               std::span<std::byte> body) const override {
        try {
            const std::optional<size_t> bytes = codec_->encode(type, values, body);
            return bytes && *bytes > body.size() ? std::nullopt : bytes;
        } catch (const std::bad_alloc&) {
            return {};
        } catch (...) {
            if (!has_thrown_.exchange(true))
                log(LogLevel::kError,
                    "codec '{}' threw as it encoded: {}; values travel as they are", name_,
                    text_of_exception());
            return {};
        }
    }

    [[nodiscard]] Status decode(ValueType type, Bytes body,
                                std::span<std::byte> values) const override {
        try {
            return codec_->decode(type, body, values);
        } catch (const std::bad_alloc&) {
            log(LogLevel::kError, "codec '{}' has no memory to decode {} bytes into {}", name_,
                body.size(), values.size());
            throw;
        } catch (...) {
            throw RuleThrew(
                fmt::format("codec '{}' threw as it decoded: {}", name_, text_of_exception()));
        }
    }

private:
    std::string name_;
    std::shared_ptr<const ValueCodec> codec_;
    mutable std::atomic<bool> has_thrown_ = false;
};

/// Values of which many are alike, or none.
std::vector<std::byte> some_values(ValueType type, size_t count, bool are_alike, Random& random) {
    std::vector<std::byte> values(count * size_of(type));
    for (size_t i = 0; i < count; ++i) {
        const uint64_t bits = are_alike ? i / 8 : random();
        std::memcpy(values.data() + i * size_of(type), &bits, size_of(type));
    }
    return values;
}

Status try_out(const ValueCodec& codec, ValueType type) {
    constexpr size_t kCounts[] = {0, 1, 7, 64, 1000};
    Random random(1);
    for (const size_t count : kCounts) {
        for (const bool are_alike : {true, false}) {
            const std::vector<std::byte> values = some_values(type, count, are_alike, random);
            std::vector<std::byte> body(values.size());
            const std::optional<size_t> bytes = codec.encode(type, values, body);
            if (!bytes) continue;
            std::vector<std::byte> back(values.size());
            const Bytes used = Bytes(body).first(std::min(*bytes, body.size()));
            const Status decoded = codec.decode(type, used, back);
            if (*bytes <= body.size() && decoded && back == values) continue;
            return Error(Errc::kInvalidArgument,
                         fmt::format("{} values of type {}, encoded, {}", count, to_string(type),
                                     *bytes > body.size() ? "are longer than before"
                                     : !decoded           ? "are refused: " + decoded.error().text()
                                                          : std::string("come back as others")));
        }
    }
    return {};
}

Error wrong_codec(std::string_view name, std::string_view why) {
    return {Errc::kInvalidArgument, fmt::format("codec '{}': {}", name, why)};
}

}  // namespace

std::string CodecEntry::facts() const {
    std::string facts = fmt::format("codec {} {} ", name, version);
    for (size_t i = 0; i < kValueTypeCount; ++i)
        facts += codec->takes(static_cast<ValueType>(i)) ? '+' : '-';
    return facts;
}

Result<CodecEntry> make_codec(std::string name, uint32_t version,
                              std::shared_ptr<const ValueCodec> codec) {
    if (!is_printable_name(name)) {
        return Error(Errc::kInvalidArgument,
                     "the name of a codec is empty, or has a control character");
    }
    if (codec == nullptr) return wrong_codec(name, "it has no code");
    bool takes_any = false;
    for (size_t i = 0; i < kValueTypeCount; ++i) {
        const auto type = static_cast<ValueType>(i);
        if (!codec->takes(type)) continue;
        takes_any = true;
        try {
            if (const Status tried = try_out(*codec, type); !tried)
                return wrong_codec(name, tried.error().text());
        } catch (const std::bad_alloc&) {
            throw;
        } catch (...) {
            return wrong_codec(name, fmt::format("it threw on values of type {}: {}",
                                                 to_string(type), text_of_exception()));
        }
    }
    if (!takes_any) return wrong_codec(name, "it takes values of no type");
    auto named = std::make_shared<NamedCodec>(name, std::move(codec));
    return CodecEntry{std::move(name), version, std::move(named)};
}

}  // namespace weir
