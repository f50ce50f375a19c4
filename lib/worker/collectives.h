// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Collectives: Client::allreduce() and broadcast(), over a table of Weir's own.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "lib/base/result.h"
#include "lib/key/value_type.h"
#include "lib/store/rules/collective.h"
#include "lib/worker/calls/table_info.h"

namespace weir {

class ClientState;

/// A call is one iteration of the table, so workers that come, leave or die are its members, or not, as
/// those of any iteration. Rows are narrow, and each begins with a mark: of a broadcast the iteration, so
/// that values from before are not taken for those of a worker that is gone; else how many workers' parts
/// have the row, by which a mean is divided. A row lies on one shard, so it has all of a part or nothing.
///
/// Thread: the client's
class Collectives {
public:
    using Operation = rules::Collective::Operation;

    static constexpr uint64_t kCountMax = 65536;   ///< values of a call
    static constexpr uint32_t kWidth = 16;         ///< slots of a row, the mark first
    static constexpr size_t kPerRow = kWidth - 1;  ///< values of it

    struct Call {
        Operation operation = Operation::kSum;
        ValueType type = ValueType::kFloat64;
        std::span<std::byte> values;
        uint32_t from = 0;  ///< of a broadcast
        std::chrono::nanoseconds at_most{0};

        [[nodiscard]] size_t count() const noexcept { return values.size() / size_of(type); }
    };

    /// Errors: as Client::allreduce()
    [[nodiscard]] Status run(const std::shared_ptr<ClientState>& state, const Call& call);

    /// The worker has taken work of this round: tables made before take no more parts of iterations.
    void set_round(uint64_t round) noexcept {
        if (round != round_) is_outdated_ = true;
        round_ = round;
    }

private:
    static constexpr size_t kRowBytes = kWidth * sizeof(uint64_t);
    static constexpr uint64_t kRowsMax = (kCountMax + kPerRow - 1) / kPerRow;

    [[nodiscard]] Status run_in_turn(const std::shared_ptr<ClientState>& state, const Call& call);
    [[nodiscard]] Status prepare(const std::shared_ptr<ClientState>& state, uint64_t rows);
    [[nodiscard]] Status take(const Call& call, uint64_t rows, uint64_t iteration) const;

    uint64_t round_ = 0;  ///< of work; 0: none was taken
    bool is_outdated_ = false;
    std::shared_ptr<const TableInfo> table_;
    std::shared_ptr<std::byte> pushed_;  ///< registered; of rows_
    std::shared_ptr<std::byte> pulled_;
    uint64_t rows_ = 0;
};

}  // namespace weir
