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

std::string exit_codes(std::string_view command) {
    struct Own {
        std::string_view command;
        std::string_view one;      ///< of 1, behind "failed"
        std::string_view stopped;  ///< of 130 and 143; empty: it does not return them
    };

    constexpr std::string_view kStopped = "130, 143: stopped by SIGINT, SIGTERM or `weir stop`";
    static constexpr Own kOwn[] = {
        {"lr", "", kStopped},
        {"server", "", "130, 143: a signal stopped the job, or this server before it had left"},
        {"get", "; also if a server says nothing of some keys", ""},
        {"checkpoint", "; `weir checkpoint verify`: also if a checkpoint is damaged", ""},
        {"doctor", "; also if something stops jobs here", ""},
    };
    if (command == "run")
        return "0: all ranks returned 0; 1: a rank could not be started; 2: wrong flags or "
               "variables; else what the first rank that failed returned, or 128 + N if signal N "
               "ended it";
    const auto* const own = std::ranges::find(kOwn, command, &Own::command);
    std::string codes = "0: done; 1: failed";
    if (own != std::end(kOwn)) codes += own->one;
    codes += "; 2: wrong flags or variables";
    const std::string_view stopped = command.empty()         ? kStopped
                                     : own == std::end(kOwn) ? std::string_view()
                                                             : own->stopped;
    return stopped.empty() ? codes : codes.append("; ").append(stopped);
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
    if (words.empty()) {  // app.help() would be that of `weir help`, the command that was chosen
        fmt::print("{}\nSubjects:\n", app.get_formatter()->make_help(&app, app.get_name(),
                                                                     CLI::AppFormatMode::Normal));
        for (const Subject& one : subjects())
            fmt::print("  {:27} {}\n", one.name, one.meaning);
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
