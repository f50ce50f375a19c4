// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Config: the values of the WEIR_* variables (config_variables.h). A flag overrides the variable, the
/// variable overrides what the program says (JobOptions) and the default.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/config_variables.h"
#include "lib/base/result.h"

namespace weir {

/// A copy of a process's environment, taken once. Weir reads this copy and never calls getenv().
class Environment {
public:
    using Map = std::map<std::string, std::string, std::less<>>;

    Environment() = default;

    explicit Environment(Map values) : values_(std::move(values)) {}

    /// Copies a null-terminated array of NAME=VALUE, such as `environ`.
    [[nodiscard]] static Environment snapshot(const char* const* variables);

    /// The value, or "" if the variable is unset. An empty variable counts as unset.
    [[nodiscard]] std::string_view get(std::string_view name) const noexcept;

    [[nodiscard]] const Map& values() const noexcept { return values_; }

private:
    Map values_;
};

enum class ConfigSource : uint8_t { kDefault, kVariable, kFlag };

/// A WEIR_* variable of the environment that Weir does not know.
struct UnknownVariable {
    std::string name;
    std::string_view nearest;  ///< the most similar known name; empty if none is similar
    /// One line for a person.
    [[nodiscard]] std::string message() const;
};

/// The settings of one program or one client. Thread: any number may read; none while set_flag()
/// runs.
class Config {
public:
    Config() = default;

    explicit Config(Environment environment) : environment_(std::move(environment)) {}

    /// Of the environment of this process.
    [[nodiscard]] static Config of_process();

    /// Records that the command line gave `value` by `flag` ("--rank"). It overrides the
    /// variable.
    void set_flag(VariableRef variable, std::string_view flag, std::string_view value);

    /// The value in force: of the flag, else of the variable, else the default; not checked. ""
    /// if there is none.
    [[nodiscard]] std::string_view text(VariableRef variable) const noexcept;
    [[nodiscard]] ConfigSource source(VariableRef variable) const noexcept;
    /// Where the value was given, for messages: "--rank" or "WEIR_RANK".
    [[nodiscard]] std::string_view place(VariableRef variable) const noexcept;

    /// The value of a kChoice variable.
    /// Errors:  kInvalidArgument naming the variable or flag, its value and the allowed values
    [[nodiscard]] Result<std::string> choice(VariableRef variable) const;
    /// "" if it is unset and has no default. Errors: as choice()
    [[nodiscard]] Result<std::string> optional_choice(VariableRef variable) const;
    /// The value of a kNumber variable that has a default. Errors: as choice().
    [[nodiscard]] Result<uint64_t> number(VariableRef variable) const;
    /// The value of a kNumber variable; nullopt if it is unset and has no default. Errors: as
    /// choice().
    [[nodiscard]] Result<std::optional<uint64_t>> optional_number(VariableRef variable) const;

    /// Checks the value of every variable; returns the first error.
    [[nodiscard]] Status check() const;
    /// The WEIR_* variables of the environment that are not in kConfigVariables, to warn about.
    [[nodiscard]] std::vector<UnknownVariable> unknown() const;
    /// Logs a warning for each unknown variable, and for each that is set by its old name, once in the life
    /// of the process.
    void warn_of_unknown() const;

    [[nodiscard]] const Environment& environment() const noexcept { return environment_; }

private:
    struct Flag {
        std::string flag;
        std::string value;
    };

    /// What the environment says of the variable, and by which of its names.
    [[nodiscard]] std::pair<std::string_view, std::string_view> in_environment(
        const ConfigVariable& variable) const noexcept;
    [[nodiscard]] Error bad_value(const ConfigVariable& variable) const;

    Environment environment_;
    std::map<std::string_view, Flag> flags_;  // by variable name
};

}  // namespace weir
