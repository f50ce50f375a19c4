// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RuleThrew: the code of a rule has thrown an exception, maybe in the middle of a row.

#include <stdexcept>
#include <string>

namespace weir {

/// Goes through the table and all that has called it, to the poll() of its shard: nothing of what the
/// rule was to change may be answered or recorded. what() names rule, table, the key where it is known,
/// and says what was thrown.
class RuleThrew final : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// What the exception that is being handled says, as one line of printable text that is not too long.
[[nodiscard]] std::string text_of_exception();

}  // namespace weir
