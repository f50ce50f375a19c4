// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FirstIterations: the question to all shards from which iteration on a new worker can take part.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/result.h"

namespace weir {

/// Each shard names, for each table, the first iteration above its window, and closes none from
/// there on until its next view. The largest answer for a table is the worker's first iteration:
/// no shard has closed it. A shard's next view ends its promise. So the answers count for one
/// epoch only, and the question is put again in the next one.
///
/// Thread: one
class FirstIterations {
public:
    /// The highest that a shard may name.
    static constexpr uint64_t kIterationMax = uint64_t{1} << 62;

    /// Asks anew. `shards` are in ascending order.
    void ask(uint64_t epoch, std::vector<uint32_t> shards, const std::vector<uint32_t>& tables);

    /// A table was made while the question is open: it is part of the question.
    void add_table(uint32_t table);

    /// No question is open; answers to the last one are late.
    void forget() noexcept { is_open_ = false; }

    /// Takes an answer. One to an earlier question, or one that was here already, has no effect.
    ///
    /// Errors: Errc::kProtocol naming what no shard can mean; nothing was taken
    [[nodiscard]] Status take(uint32_t shard, uint64_t epoch, uint32_t table, uint64_t first);

    [[nodiscard]] bool is_open() const noexcept { return is_open_; }

    /// Every shard has answered for every table.
    [[nodiscard]] bool is_complete() const noexcept { return is_open_ && missing_count_ == 0; }

    [[nodiscard]] const std::vector<uint32_t>& shards() const noexcept { return shards_; }

    /// Only once is_complete(). At least 1.
    [[nodiscard]] uint64_t first(uint32_t table) const { return answers_.at(table).first; }

private:
    struct Answers {
        uint64_t first = 1;
        std::vector<bool> is_here;  ///< by index in shards_
    };

    bool is_open_ = false;
    uint64_t epoch_ = 0;
    std::vector<uint32_t> shards_;
    std::map<uint32_t, Answers> answers_;  // by table
    size_t missing_count_ = 0;
};

}  // namespace weir
