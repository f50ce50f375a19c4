// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FunctionOptions: with what a function is called on servers, and where its result goes.

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "lib/key/value_type.h"
#include "lib/store/functions/function.h"
#include "lib/task/task_id.h"

namespace weir {

class ClientState;
struct TableInfo;
template <Value T>
class Table;

/// What a function that reads has found.
struct CallResult : FunctionResult {
    /// Of a table with iterations: the last one that had ended, at the server that had seen least and at the one that
    /// had seen most; 0: none. The result shows these, and maybe some of later pushes: it is of no one instant.
    uint64_t first_iteration = 0;
    uint64_t last_iteration = 0;
};

/// Some tables of one client, of any type.
class OtherTables {
public:
    /// One of them, as a list in braces has it.
    class One {
    public:
        template <Value T>
        One(const Table<T>& table)  // NOLINT: implicit on purpose
            : state_(table.state_), info_(table.info_) {}

    private:
        friend class OtherTables;
        std::shared_ptr<const ClientState> state_;
        std::shared_ptr<const TableInfo> info_;
    };

    OtherTables() = default;

    template <Value T>
    OtherTables(const Table<T>& table)  // NOLINT: implicit on purpose
        : tables_{One(table)} {}

    OtherTables(std::initializer_list<One> tables) : tables_(tables) {}

    [[nodiscard]] size_t size() const noexcept { return tables_.size(); }

    [[nodiscard]] const TableInfo& operator[](size_t i) const noexcept { return *tables_[i].info_; }

    [[nodiscard]] bool is_of(const ClientState& state, size_t i) const noexcept {
        return tables_[i].state_.get() == &state;
    }

private:
    std::vector<One> tables_;
};

/// Options of Table::call().
struct FunctionOptions {
    /// As many as the function takes, in its order; those left out at the end are as it says.
    std::vector<double> numbers = {};
    /// The tables that it reads beside the one that is called: `.with = other`, or `.with = {a, b}`.
    OtherTables with = {};
    /// Of a function that reads: where its result goes once the task has ended well. Must stay valid until then.
    CallResult* result = nullptr;
    /// As PushOptions::deadline. 0: a function that reads goes on for as long as servers answer, each within
    /// WEIR_DEADLINE_MS.
    std::chrono::nanoseconds deadline{0};
    std::vector<TaskId> after = {};  ///< as PushOptions::after
    std::optional<uint32_t> stamp =
        std::nullopt;  ///< as PushOptions::stamp, of a function that changes
};

}  // namespace weir
