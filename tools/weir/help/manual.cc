// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/help/manual.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "lib/base/check.h"
#include "lib/base/config.h"
#include "lib/data/output_file.h"
#include "tools/weir/help/help.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

using Page = std::pair<std::string, std::string>;  // the name of its file, and the text

bool is_hidden(const CLI::App& command) {
    return command.get_group().empty();
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
    std::vector<const CLI::App*> list;
    for (const CLI::App* const one : app.get_subcommands(nullptr)) {
        if (!is_hidden(*one)) list.push_back(one);
    }
    return list;
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool is_positional) {
    std::vector<const CLI::Option*> list;
    for (const CLI::Option* const one : app.get_options()) {
        if (!one->get_group().empty() && one->get_positional() == is_positional)
            list.push_back(one);
    }
    return list;
}

/// For troff: no character has a meaning of its own, and `weir lr` is bold.
std::string roff(std::string_view text) {
    std::string out;
    bool is_bold = false;
    bool begins_line = true;
    for (const char c : text) {
        if (begins_line && (c == '.' || c == '\'')) out += "\\&";
        begins_line = c == '\n';
        if (c == '`') {
            is_bold = !is_bold;
            out += is_bold ? "\\fB" : "\\fR";
        } else if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else if (c == '~') {
            out += "\\(ti";
        } else if (c == '^') {
            out += "\\(ha";
        } else {
            out += c;
        }
    }
    return out;
}

/// What stands behind a flag, or for an argument.
std::string value_text(const CLI::Option& option) {
    const std::string& said = option.get_option_text();
    if (option.get_positional()) {
        const std::string name = option.get_name(true);
        if (said.find(name) != said.npos) return said;
        return option.get_expected_max() > 1 ? name + "..." : name;
    }
    if (!said.empty()) return said;
    if (option.get_items_expected_max() == 0) return "";
    std::string type = option.get_type_name();
    type = type.substr(0, type.find(':'));  // behind it is what a check of CLI11 says
    std::string word = type == "UINT" || type == "INT" ? "N"
                       : type == "FLOAT"               ? "X"
                       : type.empty()                  ? "VALUE"
                                                       : type;
    const std::string_view meaning = option.get_description();
    if (word == "TEXT" && (meaning.starts_with("file") || meaning.starts_with("FILE")))
        word = "FILE";
    return option.get_expected_max() > 1 ? word + "..." : word;
}

std::string flag_names(const CLI::Option& option) {
    std::string names;
    for (const std::string& one : option.get_snames())
        names += fmt::format("{}\\fB\\-{}\\fR", names.empty() ? "" : ", ", roff(one));
    for (const std::string& one : option.get_lnames())
        names += fmt::format("{}\\fB\\-\\-{}\\fR", names.empty() ? "" : ", ", roff(one));
    return names;
}

std::string meaning_of(const CLI::Option& option) {
    std::string text = option.get_description();
    std::ranges::replace(text, '\n', ' ');
    if (!option.get_default_str().empty())
        text += fmt::format("; default: {}", option.get_default_str());
    if (option.get_required()) text += "; needed";
    return roff(text);
}

std::string option_roff(const CLI::Option& option, bool is_positional) {
    const std::string value = roff(value_text(option));
    const std::string names = is_positional ? "" : flag_names(option);
    return fmt::format(".TP\n{}{}\\fI{}\\fR\n{}\n", names,
                       names.empty() || value.empty() ? "" : " ", value, meaning_of(option));
}

bool is_help(const CLI::Option& option) {
    return option.check_lname("help");
}

/// Without those of `but`.
std::string options_roff(const CLI::App& command, const std::vector<const CLI::Option*>& but = {}) {
    std::string text;
    const auto is_said = [&](const CLI::Option& option) {
        return (is_help(option) && command.get_parent() != nullptr) ||
               std::ranges::any_of(but, [&](const CLI::Option* one) {
                   return one->get_name() == option.get_name();
               });
    };
    for (const bool is_positional : {true, false}) {
        for (const CLI::Option* const one : shown_options(command, is_positional)) {
            if (is_said(*one)) continue;
            text += option_roff(*one, is_positional);
        }
    }
    return text;
}

/// The flags that all of several commands have, with one meaning and one default.
std::vector<const CLI::Option*> common_options(const std::vector<const CLI::App*>& commands) {
    std::vector<const CLI::Option*> common;
    if (commands.size() < 2) return common;
    for (const CLI::Option* const one : shown_options(*commands.front(), false)) {
        const bool is_common = std::ranges::all_of(commands, [&](const CLI::App* command) {
            const CLI::Option* const same = command->get_option_no_throw(one->get_name());
            return same != nullptr && same->get_description() == one->get_description() &&
                   same->get_default_str() == one->get_default_str();
        });
        if (is_common && !is_help(*one)) common.push_back(one);
    }
    return common;
}

/// Lines that belong together are filled; a line behind the end of a sentence begins a paragraph, and lines
/// that are set in stay as they are.
std::string paragraphs_roff(const std::string& text) {
    std::string out = ".PP\n";
    bool is_set_in = false;
    bool ended = false;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const bool sets_in = line.starts_with("  ");
        if (sets_in != is_set_in) out += sets_in ? ".PP\n.nf\n" : ".fi\n.PP\n";
        if (!sets_in && !is_set_in && ended) out += ".PP\n";
        is_set_in = sets_in;
        ended = line.ends_with('.') || line.ends_with(".)") || line.empty();
        if (!line.empty()) out += roff(line) + "\n";
    }
    return is_set_in ? out + ".fi\n" : out;
}

std::string long_flag_roff(const CLI::Option& option) {
    const std::string names = flag_names(option);
    return fmt::format(" {} \\fI{}\\fR", names.substr(names.rfind("\\fB")),
                       roff(value_text(option)));
}

/// With a flag that is needed but with another one, also the form that has that one.
std::string synopsis_roff(const CLI::App& command, const std::string& name) {
    std::string text = fmt::format("\\fB{}\\fR", roff(name));
    if (command.get_parent() == nullptr) return text + " \\fICOMMAND\\fR [\\fIFLAGS\\fR]\n";
    const std::vector<const CLI::App*> commands = shown_commands(command);
    if (!commands.empty()) {
        std::string all;
        for (const CLI::App* const one : commands)
            all += (all.empty() ? "" : ".br\n") + synopsis_roff(*one, name + " " + one->get_name());
        return all;
    }
    constexpr std::string_view kBut = "; needed, but with --";
    std::string other_form;
    for (const CLI::Option* const one : shown_options(command, false)) {
        const std::string said = one->get_description();
        const size_t but = said.find(kBut);
        if (one->get_required() || but != std::string::npos) text += long_flag_roff(*one);
        if (but == std::string::npos) continue;
        const CLI::Option* const in_its_place =
            command.get_option_no_throw("--" + said.substr(but + kBut.size()));
        WEIR_CHECK(in_its_place != nullptr);
        other_form = fmt::format(".br\n\\fB{}\\fR{} [\\fIFLAGS\\fR]\n", roff(name),
                                 long_flag_roff(*in_its_place));
    }
    text += " [\\fIFLAGS\\fR]";
    for (const CLI::Option* const one : shown_options(command, true)) {
        const std::string value = value_text(*one);
        const bool is_many = one->get_expected_max() > 1 && !value.ends_with("...");
        const bool says_it = value.starts_with('-') || value.starts_with('[');
        const bool is_optional = !one->get_required() && !says_it;
        text += fmt::format(" {}\\fI{}{}\\fR{}", is_optional ? "[" : "", roff(value),
                            is_many ? "..." : "", is_optional ? "]" : "");
    }
    return text + "\n" + other_form;
}

std::string title_roff(const std::string& file, std::string_view meaning) {
    std::string upper = file;
    std::ranges::transform(upper, upper.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    // No words are cut, and none are stretched to an even right edge.
    return fmt::format(".TH {} 1 \"\" \"weir {}\" \"Weir\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n",
                       roff(upper), WEIR_VERSION, roff(file), roff(meaning));
}

std::string exit_codes_roff(std::string_view command) {
    return ".SH EXIT STATUS\n" + roff(exit_codes(command)) + "\n";
}

Page main_page(const CLI::App& app) {
    std::string text = title_roff("weir", "a parameter server for RDMA clusters");
    text += ".SH SYNOPSIS\n" + synopsis_roff(app, "weir");
    text +=
        ".SH DESCRIPTION\nServers hold the parameters of a model as tables of keys and values; "
        "workers "
        "push updates and pull values. \\fBweir\\fR starts jobs, looks after them, trains linear "
        "regression, and measures.\n.SH COMMANDS\n";
    for (const CLI::App* const one : shown_commands(app))
        text += fmt::format(".TP\n\\fBweir\\-{}\\fR(1)\n{}\n", roff(one->get_name()),
                            roff(one->get_description()));
    text += ".SH OPTIONS\n" + options_roff(app) + ".SH SUBJECTS\n" +
            roff("`weir help SUBJECT` tells of:") + "\n";
    for (const Subject& one : subjects())
        text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", one.name, roff(one.meaning));
    text += ".SH ENVIRONMENT\n";
    for (const ConfigVariable& one : kConfigVariables)
        text += fmt::format(
            ".TP\n\\fB{}\\fR\n{}; {}{}{}\n", one.name, roff(one.meaning), roff(allowed_values(one)),
            one.default_value.empty() ? "" : "; default: ", roff(one.default_value));
    text += exit_codes_roff("") + ".SH SEE ALSO\n";
    for (const CLI::App* const one : shown_commands(app))
        text += fmt::format("{}\\fBweir\\-{}\\fR(1)",
                            one == shown_commands(app).front() ? "" : ",\n", roff(one->get_name()));
    return {"weir.1", text + "\n"};
}

Page command_page(const CLI::App& command) {
    const std::string file = "weir-" + command.get_name();
    const std::string name = "weir " + command.get_name();
    std::string text = title_roff(file, command.get_description());
    text += ".SH SYNOPSIS\n" + synopsis_roff(command, name);
    if (!command.get_footer().empty())
        text += ".SH DESCRIPTION\n" + paragraphs_roff(command.get_footer());
    const std::vector<const CLI::App*> commands = shown_commands(command);
    const std::vector<const CLI::Option*> common = common_options(commands);
    if (commands.empty()) text += ".SH OPTIONS\n" + options_roff(command);
    if (!common.empty()) text += ".SH OPTIONS OF ALL COMMANDS\n";
    for (const CLI::Option* const one : common)
        text += option_roff(*one, false);
    for (const CLI::App* const one : commands) {
        const std::string whole = fmt::format("{} {}", name, one->get_name());
        text += fmt::format(".SH {}\n{}\n.PP\n{}", roff(whole), roff(one->get_description()),
                            synopsis_roff(*one, whole));
        text += options_roff(*one, common);
        const std::string footer = one->get_footer();  // or that of the command above it
        if (!footer.empty() && footer != command.get_footer())
            text += paragraphs_roff(one->get_footer());
    }
    return {file + ".1", text + exit_codes_roff(command.get_name()) +
                             ".SH SEE ALSO\n\\fBweir\\fR(1), \\fBweir help\\fR \\fISUBJECT\\fR\n"};
}

/// The words that may stand behind a command.
std::string words_behind(const CLI::App& app, bool is_help) {
    std::string words;
    const auto add = [&](std::string_view word) {
        words.append(words.empty() ? "" : " ").append(word);
    };
    for (const CLI::App* const one : shown_commands(app))
        add(one->get_name());
    if (is_help) {
        for (const CLI::App* const one : shown_commands(*app.get_parent()))
            add(one->get_name());
        for (const Subject& one : subjects())
            add(one.name);
    }
    for (const CLI::Option* const one : shown_options(app, false)) {
        for (const std::string& name : one->get_lnames())
            add("--" + name);
        for (const std::string& name : one->get_snames())
            add("-" + name);
    }
    return words;
}

void add_words(const CLI::App& app, const std::string& command, std::string& text) {
    text += fmt::format("        [\"{}\"]=\"{}\"\n", command, words_behind(app, command == "help"));
    for (const CLI::App* const one : shown_commands(app))
        add_words(*one, command.empty() ? one->get_name() : command + " " + one->get_name(), text);
}

/// Behind a command with commands, and of a word that begins with -, one of its words; else a file.
std::string bash_completion(const CLI::App& app) {
    std::string words;
    add_words(app, "", words);
    return "# Completion of weir(1) for bash, made from what `weir --help` shows.\n"
           "_weir() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} command='_' next i\n"
           "    local -A words=(\n" +
           [&] {  // an empty key is none: '_' stands for weir itself
               const size_t at = words.find("[\"\"]");
               return words.replace(at, 4, "[\"_\"]");
           }() +
           "    )\n"
           "    for ((i = 1; i < COMP_CWORD; ++i)); do\n"
           "        [[ ${COMP_WORDS[i]} == -- ]] && return\n"
           "        next=${COMP_WORDS[i]}\n"
           "        [[ $command != _ ]] && next=\"$command $next\"\n"
           "        [[ ${words[$next]+is} ]] && command=$next\n"
           "    done\n"
           "    [[ $current == -* || ${words[$command]} != -* ]] || return\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"${words[$command]}\" -- \"$current\")\n"
           "}\n"
           "complete -o bashdefault -o default -F _weir weir\n";
}

}  // namespace

Status write_manual(const CLI::App& app, const std::string& folder) {
    std::vector<Page> pages{main_page(app), {"weir.bash", bash_completion(app)}};
    for (const CLI::App* const one : shown_commands(app))
        pages.push_back(command_page(*one));
    for (const auto& [name, text] : pages)
        WEIR_TRY(data::write_whole_file(fmt::format("{}/{}", folder, name), text));
    return {};
}

}  // namespace weir::tools
