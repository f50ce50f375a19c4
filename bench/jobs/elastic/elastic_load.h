// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ElasticLoad: what a worker pushes while servers come and go, such that every push that was lost
/// or counted twice is seen in the sums.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/base/result.h"
#include "lib/worker/table.h"

namespace weir::bench {

enum class PushKind : uint8_t { kKey, kList, kPage, kBulk, kIteration };

struct PushKindInfo {
    PushKind kind;
    std::string_view name;
    uint32_t in_flight;
    uint32_t per_turn;
};

inline constexpr std::array<PushKindInfo, 5> kPushKinds = {{
    {PushKind::kKey, "1 key", 1, 32},
    {PushKind::kList, "list of 1000 keys", 1, 4},
    {PushKind::kPage, "4 KiB", 16, 32},
    {PushKind::kBulk, "256 KiB", 2, 4},
    {PushKind::kIteration, "4 KiB, iteration", 1, 4},
}};

/// Pushes random numbers, which are added modulo 2^64, and keeps the sums of what was acknowledged.
/// All workers of the job have one, and call its functions at the same points.
///
/// Thread: the client's
class ElasticLoad {
public:
    /// `table_mib`: size of the dense table.
    ElasticLoad(Client& client, uint64_t table_mib, uint64_t key_count);

    /// Makes the tables, and puts all keys into the sparse one.
    [[nodiscard]] Status prepare();

    /// Pushes PushKindInfo::per_turn times; appends how long each push took.
    /// Errors: of the push that failed
    [[nodiscard]] Status push(const PushKindInfo& kind, std::vector<uint32_t>& times_ns);

    /// Changes all values of the dense and of the sparse table.
    [[nodiscard]] Status push_all();

    /// Ends a turn, in which each kind was pushed. Returns whether it was the last one.
    [[nodiscard]] Result<bool> end_turn();
    /// One worker says it, between two turns of its own. No worker has ended the next turn before,
    /// because its iterations need this worker's parts; so the next turn is the last one of all.
    [[nodiscard]] Status stop();

    /// After the last turn, all workers take back what they have pushed. Returns how many values
    /// of the tables are not 0 then; only the first worker looks.
    [[nodiscard]] Result<uint64_t> count_wrong_values();

    [[nodiscard]] uint64_t push_count() const noexcept { return push_count_; }

private:
    using Numbers = std::vector<uint64_t>;

    [[nodiscard]] Task start(PushKind kind, size_t slot);
    [[nodiscard]] Task push_list(size_t slot);
    [[nodiscard]] Task push_range(Table<uint64_t>& table, Numbers& sums, uint64_t first,
                                  std::span<uint64_t> values, const PushOptions& options = {});
    /// Random numbers, which are added to `sums`, too.
    void fill(std::span<uint64_t> values, std::span<uint64_t> sums);
    [[nodiscard]] size_t list_key(size_t list, size_t i) const;
    [[nodiscard]] Status take_back();
    /// How many values of the tables are not 0.
    [[nodiscard]] Result<uint64_t> look_at_values();
    /// Calls `work` for parts of `count` keys, each with where it begins and room for its values.
    template <class Work>
    [[nodiscard]] Status in_parts(size_t count, Work&& work);

    static constexpr size_t kListCount = 64;
    static constexpr size_t kListKeys = 1000;
    static constexpr size_t kPageValues = 512;        // 4 KiB
    static constexpr size_t kBulkValues = 32 * 1024;  // 256 KiB
    static constexpr size_t kInFlightMax = 16;

    Client& client_;
    SteadyClock clock_;
    Random random_;
    Numbers keys_;  ///< of the sparse table
    std::array<Numbers, kListCount> lists_;
    Numbers sparse_sums_;  ///< of what this worker has pushed, for keys_
    Numbers dense_sums_;
    Numbers iteration_sums_;
    std::optional<Table<uint64_t>> sparse_;
    std::optional<Table<uint64_t>> dense_;
    std::optional<Table<uint64_t>> iterations_;
    std::optional<Table<uint64_t>> last_turn_;
    std::array<Buffer<uint64_t>, kInFlightMax> values_;
    uint64_t iteration_ = 0;
    uint64_t turn_ = 0;
    uint64_t push_count_ = 0;
};

}  // namespace weir::bench
