// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/help/help.h"

#include <algorithm>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "lib/base/config.h"
#include "tools/weir/command.h"
#include "tools/weir/command_line.h"

namespace weir::tools {

std::string wrapped(std::string_view text, size_t indent, size_t columns) {
    std::string all;
    std::string line(indent, ' ');
    while (!text.empty()) {
        const size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        if (line.size() > indent && line.size() + 1 + word.size() > columns) {
            all += line + "\n";
            line.assign(indent, ' ');
        }
        if (line.size() > indent) line += ' ';
        line += word;
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return all + line + "\n";
}

std::string subject_names() {
    std::string names;
    for (const Subject& one : subjects())
        names.append(names.empty() ? "" : ", ").append(one.name);
    return names;
}

std::string variables_text() {
    std::string text =
        "A flag counts more than a variable, and a variable more than its default. An empty "
        "variable\n"
        "counts as unset. `weir info -f` shows the values that are in force here.\n\n";
    for (const ConfigVariable& one : kConfigVariables) {
        text += fmt::format("{}\n", one.name);
        text +=
            wrapped(fmt::format("{}; {}{}{}", one.meaning, allowed_values(one),
                                one.default_value.empty() ? "" : "; default: ", one.default_value),
                    4);
    }
    return text;
}

int print_help(const CLI::App& app, const std::vector<std::string>& words) {
    if (words.empty()) {
        fmt::print("{}", app.help());
        return kExitOk;
    }
    const auto subject = std::ranges::find(subjects(), words.front(), &Subject::name);
    if (subject != subjects().end() && words.size() == 1) {
        fmt::print("{}", subject->text.empty() ? variables_text() : std::string(subject->text));
        return kExitOk;
    }
    const CLI::App* at = &app;
    std::string before;  // for its usage
    for (const std::string& word : words) {
        const auto commands = at->get_subcommands(nullptr);
        const auto found = std::ranges::find_if(
            commands, [&](const CLI::App* one) { return one->get_name() == word; });
        if (found != commands.end()) {
            before += (before.empty() ? "" : " ") + at->get_name();
            at = *found;
            continue;
        }
        return usage_error(fmt::format("there is no help for '{}'; name a command, or one of: {}",
                                       word, subject_names()),
                           "help");
    }
    fmt::print("{}", at->help(before));
    return kExitOk;
}

}  // namespace weir::tools
