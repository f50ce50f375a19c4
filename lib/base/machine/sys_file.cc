// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/sys_file.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include <fmt/core.h>

namespace weir {
namespace {

constexpr int kCpusMax = 1 << 16;  // a list with a number above it is damaged

/// Removes the number at the front of `text` and returns it.
std::optional<uint64_t> take_number(std::string_view& text) {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{}) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
}

}  // namespace

std::optional<std::string> read_sys_text(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    std::ostringstream text;
    text << file.rdbuf();
    if (file.bad()) return std::nullopt;
    std::string result = std::move(text).str();
    while (!result.empty() && result.back() == '\n')
        result.pop_back();
    return result;
}

std::optional<uint64_t> read_sys_number(const std::string& path) {
    const std::optional<std::string> text = read_sys_text(path);
    if (!text) return std::nullopt;
    std::string_view rest = *text;
    return take_number(rest);
}

std::optional<uint64_t> sys_field(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (!line.starts_with(name)) continue;
        line.remove_prefix(name.size());
        if (!line.starts_with(':') && !line.starts_with(' ')) continue;
        line.remove_prefix(1);
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        const std::optional<uint64_t> number = take_number(line);
        if (!number) return std::nullopt;
        return line == " kB" ? *number * 1024 : *number;
    }
    return std::nullopt;
}

std::vector<int> parse_cpu_list(std::string_view text) {
    std::vector<int> cpus;
    while (!text.empty()) {
        const std::optional<uint64_t> first = take_number(text);
        if (!first) break;
        std::optional<uint64_t> last = first;
        if (text.starts_with('-')) {
            text.remove_prefix(1);
            last = take_number(text);
        }
        if (!last || *last >= kCpusMax) break;
        for (uint64_t cpu = *first; cpu <= *last; ++cpu)
            cpus.push_back(static_cast<int>(cpu));
        if (!text.starts_with(',')) break;
        text.remove_prefix(1);
    }
    return cpus;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
    std::string text;
    for (size_t i = 0; i < cpus.size();) {
        size_t last = i;
        while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1)
            ++last;
        if (!text.empty()) text += ',';
        text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
        i = last + 1;
    }
    return text;
}

}  // namespace weir
