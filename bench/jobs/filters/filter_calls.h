// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FilterCalls: the same pushes again and again, by one kind of call, through one list of filters.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/jobs/filters/payloads.h"
#include "lib/base/random.h"
#include "lib/worker/client.h"

namespace weir::bench {

enum class FilterCall : uint8_t { kKnownList, kUnseenList, kRange, kIteration };

inline constexpr FilterCall kFilterCalls[] = {FilterCall::kKnownList, FilterCall::kUnseenList,
                                              FilterCall::kRange, FilterCall::kIteration};

[[nodiscard]] std::string_view to_string(FilterCall call) noexcept;

/// Has a table of its own.
///
/// Thread: the client's
class FilterCalls {
public:
    /// `table`: a name that no other table has.
    /// Errors: those of Client::create_table(), kInvalidArgument if the rows cannot have the filters
    [[nodiscard]] static Result<FilterCalls> make(Client& client, const std::string& table,
                                                  const Payloads& payloads, FilterCall call,
                                                  const Filters& filters);

    /// Pushes for about so long, several at a time, or one iteration after the other. Returns calls per second;
    /// an iteration is a push of its part and a pull of what came of it.
    [[nodiscard]] Result<double> run(uint64_t ns);

    /// Pushes everything some times, one after the other, and compares what the servers then have with the sums
    /// of what was pushed, rounded as they round. What is held back counts as missing.
    /// Returns: the length of the difference, as a share of the length of the sums
    [[nodiscard]] Result<double> error();

    [[nodiscard]] uint64_t call_count() const noexcept { return call_count_; }

    /// The table is there no more.
    [[nodiscard]] Status drop();

private:
    static constexpr uint32_t kInFlight = 4;

    FilterCalls(Client& client, const Payloads& payloads, FilterCall call, Table<float> table)
        : client_(&client), payloads_(&payloads), call_(call), table_(std::move(table)) {}

    [[nodiscard]] Status make_buffers();
    void draw_list(std::span<uint64_t> list);
    [[nodiscard]] std::span<uint64_t> list_of(uint64_t number);
    [[nodiscard]] std::span<const float> values_of(uint64_t number) const;
    [[nodiscard]] Task push(uint64_t number, std::span<const uint64_t> list);
    [[nodiscard]] Status run_batch();
    [[nodiscard]] Status iterate();
    [[nodiscard]] Result<std::vector<float>> pull_all();

    Client* client_;
    const Payloads* payloads_;
    FilterCall call_;
    Table<float> table_;
    std::vector<Buffer<float>> values_;
    Buffer<uint64_t> lists_;  ///< of a batch, if they are all different; else the only one
    Buffer<float> pulled_;
    Random random_{7};
    uint64_t call_count_ = 0;
    uint64_t iteration_ = 0;
};

}  // namespace weir::bench
