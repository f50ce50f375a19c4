// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// TableSchema: the properties of a table, the same for all clients and servers.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/store/initial_rows.h"
#include "lib/store/rules/combine_as.h"
#include "lib/store/rules/rule_parameters.h"

namespace weir {

class RuleRegistry;
class ValueCodec;
struct RuleEntry;

enum class Layout : uint8_t { kDense = 0, kSparse = 1 };

struct TableSchema {
    static constexpr uint32_t kWidthMax = 1U << 20;
    /// Of a row. So a row fits into a chunk of a checkpoint.
    static constexpr size_t kStateBytesMax = size_t{1} << 30;
    /// Of a window: its failures are remembered (ClosedState::kRemembered).
    static constexpr uint32_t kMaxDelayMax = 63;

    uint32_t id = 0;
    std::string name{};
    Layout layout = Layout::kDense;
    ValueType value_type = ValueType::kFloat32;
    uint32_t width = 1;           ///< values per key
    uint64_t key_count = 0;       ///< dense: keys 0..key_count-1; sparse: how many to expect, or 0
    std::string rule = "add";     ///< update rule, by name
    uint32_t rule_version = 0;    ///< of the rule where the table was made; RuleEntry::version
    uint64_t rule_hash = 0;       ///< and its RuleEntry::hash(); 0: unknown, with that
    RuleParameters parameters{};  ///< of the rule
    Rounding rounding = Rounding::kNearest;  ///< of narrow values
    InitialValue initial_value{};            ///< what a key that was never written reads as
    bool allow_not_finite = false;  ///< else clients refuse NaN and infinity before sending
    uint32_t max_delay = 0;         ///< iterations that a worker may be ahead of the slowest
    bool in_checkpoints = true;  ///< false: a job that goes on from one begins with an empty table
    std::optional<Combine> combine{};  ///< the parts of an iteration; none: as the rule says
    bool erasable = false;             ///< sparse: rows have stamps, and may be erased
    std::string codec{};         ///< of values that travel, by name; empty: the table has none
    uint32_t codec_version = 0;  ///< where the table was made; CodecEntry::version

    /// How many iterations are open at a time.
    [[nodiscard]] uint32_t window() const noexcept { return max_delay + 1; }

    friend bool operator==(const TableSchema&, const TableSchema&) = default;
};

/// Whether functions may run on rows of both: they have the same keys, in the same servers, and values of one shape,
/// but for the width, if it may be `any_width`.
[[nodiscard]] inline bool are_alike(const TableSchema& a, const TableSchema& b,
                                    bool any_width) noexcept {
    return a.layout == b.layout && a.value_type == b.value_type &&
           (any_width || a.width == b.width) &&
           (a.layout == Layout::kSparse || a.key_count == b.key_count);
}

/// Checks a schema and returns its rule.
/// Errors: Errc::kInvalidArgument naming the field; Errc::kNotFound for the rule;
///         Errc::kTypeMismatch if the rule does not work on the value type, or is another one than
///         where the table was made; Errc::kException if the rule throws when it is asked
[[nodiscard]] Result<const RuleEntry*> check_schema(const TableSchema& schema,
                                                    const RuleRegistry& rules);

/// Says in the schema of a new table which rule and codec it has: those of this process, with version and
/// hash.
/// Errors: as check_schema() and find_codec()
[[nodiscard]] Status name_code(TableSchema& schema, const RuleRegistry& rules);

/// The codec that a table names; null if it names none. check_schema() does not ask for it: who only pushes
/// and pulls values as they are needs none.
/// Errors: Errc::kNotFound; Errc::kTypeMismatch if it takes no values of the table, or has another version than
///         where the table was made
[[nodiscard]] Result<const ValueCodec*> find_codec(const TableSchema& schema,
                                                   const RuleRegistry& rules);

/// The error with the name of the table before it, unless it has that.
[[nodiscard]] Error of_table(std::string_view name, const Error& error);

/// Whether `wanted` describes the table that exists as `is`; the numbers (`id`) are not compared.
/// `rules` is asked for the names of parameters.
/// Errors: Errc::kTypeMismatch for another value type or width; else Errc::kAlreadyExists, which
///         names the first field that differs, what it is and what was asked for
[[nodiscard]] Status check_same(const TableSchema& is, const TableSchema& wanted,
                                const RuleRegistry& rules);

}  // namespace weir
