// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/pmi1_text.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

#include "lib/bootstrap/bootstrap.h"

namespace weir::boot {
namespace {

Error bad_text(std::string_view what) {
    return {Errc::kProtocol, fmt::format("PMI-1: {}", what)};
}

std::optional<uint64_t> parse_number(std::string_view digits, uint64_t most) {
    uint64_t number = 0;
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, number);
    if (error != std::errc{} || stop != end || number > most) return std::nullopt;
    return number;
}

int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

}  // namespace

const std::string* Pmi1Line::find(std::string_view name) const noexcept {
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& field) { return field.first == name; });
    return found == fields.end() ? nullptr : &found->second;
}

bool Pmi1Line::succeeded() const noexcept {
    const std::string* const rc = find("rc");
    return rc == nullptr || *rc == "0";
}

Result<uint64_t> Pmi1Line::number(std::string_view name, uint64_t most) const {
    const std::string* const text = find(name);
    if (text == nullptr) return bad_text(fmt::format("the launcher's {} has no {}", command, name));
    const auto value = parse_number(*text, most);
    if (!value) return bad_text(fmt::format("the launcher's {} says {}={}", command, name, *text));
    return *value;
}

Result<Pmi1Line> parse_pmi1_line(std::string_view line) {
    if (line.size() > kPmi1LineBytesMax) return bad_text("the launcher sent a line without an end");
    if (std::any_of(line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; })) {
        return bad_text("the launcher sent a line that is not plain text");
    }
    if (!line.starts_with("cmd=")) {
        return bad_text(fmt::format("the launcher sent '{}', which does not start with cmd=",
                                    line.substr(0, 60)));
    }
    Pmi1Line parsed;
    while (!line.empty()) {
        const size_t space = line.find(' ');
        const std::string_view word = line.substr(0, space);
        line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
        const size_t equals = word.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string_view value = word.substr(equals + 1);
        if (parsed.command.empty() && word.starts_with("cmd=")) {
            parsed.command = value;
            if (value.empty()) return bad_text("the launcher sent an empty command");
        } else {
            parsed.fields.emplace_back(word.substr(0, equals), value);
        }
    }
    return parsed;
}

std::string hex_encode(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    hex.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        const auto byte = static_cast<uint8_t>(c);
        hex += kDigits[byte >> 4];
        hex += kDigits[byte & 15];
    }
    return hex;
}

Result<std::string> hex_decode(std::string_view hex) {
    if (hex.size() % 2 != 0) return bad_text("a value with half a byte");
    std::string bytes;
    bytes.reserve(hex.size() / 2);
    for (size_t i = 0; i < hex.size(); i += 2) {
        const int high = hex_digit(hex[i]);
        const int low = hex_digit(hex[i + 1]);
        if (high < 0 || low < 0) return bad_text("a value that is not hexadecimal");
        bytes += static_cast<char>(high * 16 + low);
    }
    return bytes;
}

std::vector<std::string> pmi1_chunks(std::string_view value, size_t chunk_bytes_max) {
    WEIR_CHECK(chunk_bytes_max >= 16);
    const std::string hex = hex_encode(value);
    const std::string text = fmt::format("{}:{}", hex.size(), hex);
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size(); at += chunk_bytes_max) {
        chunks.push_back(text.substr(at, chunk_bytes_max));
    }
    return chunks;
}

Status Pmi1Joiner::add(std::string_view chunk) {
    if (chunk.empty()) return bad_text("an empty part of a value");
    if (!started_) {
        const size_t colon = chunk.find(':');
        const auto length = parse_number(chunk.substr(0, colon), 2 * Bootstrap::kValueBytesMax);
        if (colon == std::string_view::npos || !length)
            return bad_text("a value without its length");
        expected_ = *length;
        started_ = true;
        chunk.remove_prefix(colon + 1);
    }
    if (hex_.size() + chunk.size() > expected_) return bad_text("a value longer than it says");
    hex_ += chunk;
    return {};
}

}  // namespace weir::boot
