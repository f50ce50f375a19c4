// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Small text files of /proc and /sys. A missing file or field is no error: kernels differ in
/// what they tell.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

/// The file's text without the newline at its end.
[[nodiscard]] std::optional<std::string> read_sys_text(const std::string& path);

/// The number that the file starts with; nullopt if there is none.
[[nodiscard]] std::optional<uint64_t> read_sys_number(const std::string& path);

/// The number after `name:` or `name ` at the start of a line of files such as /proc/meminfo; in
/// bytes where the unit is kB.
[[nodiscard]] std::optional<uint64_t> sys_field(std::string_view text, std::string_view name);

/// The numbers of a list such as "0-3,8,10-11"; it ends before the first malformed item.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view text);

/// The list of sorted numbers as text: "0-3,8,10-11".
[[nodiscard]] std::string cpu_list_text(const std::vector<int>& cpus);

}  // namespace weir
