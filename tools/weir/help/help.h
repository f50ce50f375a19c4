// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// `weir help`: the help of a command, or a subject that is no command, in short.

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace weir::tools {

struct Subject {
    std::string_view name;
    std::string_view meaning;
    std::string_view text;  ///< empty: made by the program (variables)
};

[[nodiscard]] const std::vector<Subject>& subjects();

/// "launchers, jobs, ..."
[[nodiscard]] std::string subject_names();

/// What `weir COMMAND` may return, and why; "": any command.
[[nodiscard]] std::string exit_codes(std::string_view command);

/// Every WEIR_ variable: what it takes, its default, its meaning.
[[nodiscard]] std::string variables_text();

/// Prints the help for `words`: none, a command ("bench push"), or a subject. Returns the exit code.
int print_help(const CLI::App& app, const std::vector<std::string>& words);

/// Lines of at most `columns` characters, each behind `indent` spaces.
[[nodiscard]] std::string wrapped(std::string_view text, size_t indent, size_t columns = 80);

}  // namespace weir::tools
