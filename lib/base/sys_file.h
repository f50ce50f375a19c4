// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Small text files of /proc and /sys: read whole, or answered as absent. Never an error: what a
/// kernel does not tell is not known.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// The file's text without the newline at its end.
[[nodiscard]] std::optional<std::string> read_sys_text(const std::string& path);

/// The number that the file starts with.
[[nodiscard]] std::optional<uint64_t> read_sys_number(const std::string& path);

/// The number after `name:` or `name ` at the start of a line of files such as /proc/meminfo; in
/// bytes where the unit is kB.
[[nodiscard]] std::optional<uint64_t> sys_field(std::string_view text, std::string_view name);

/// The numbers of a list such as "0-3,8,10-11"; what cannot be read ends it.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view text);

/// The opposite: "0-3,8,10-11" of sorted numbers.
[[nodiscard]] std::string cpu_list_text(const std::vector<int>& cpus);

}  // namespace weir
