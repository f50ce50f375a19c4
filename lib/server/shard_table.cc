// SPDX-License-Identifier: Apache-2.0
#include "lib/server/shard_table.h"

#include <array>
#include <cstring>

namespace weir {

using wire::Kind;

OfPositions judge_positions(const ShardTable& table, const Request& request) {
    const wire::FrameHeader& h = request.header;
    const ClosedIterations& closed = table.iterations.state().closed();
    bool has_open = false;
    bool has_closed = false;
    const auto look_at = [&](uint64_t last) {
        (last < h.iteration ? has_open : has_closed) = true;
    };
    if ((h.flags & wire::kKeysKnown) != 0) return OfPositions::kUnknown;
    if ((h.flags & wire::kKeysRange) != 0) {
        const PositionRange range{table.positions.position(h.first),
                                  table.positions.position(h.first + h.count - 1)};
        for (const ClosedRun& run : closed.runs(range))
            look_at(run.state.last);
    } else {
        for (const uint64_t key : keys_of(request)) {
            const ClosedState* const state = closed.find(table.positions.position(key));
            look_at(state == nullptr ? 0 : state->last);
        }
    }
    if (has_open && has_closed) return OfPositions::kBoth;
    return has_closed ? OfPositions::kClosed : OfPositions::kOpen;
}

std::optional<uint64_t> first_position(const ShardTable& table, const Request& request) {
    const bool is_list = (request.has(wire::kKeysInline) || request.has(wire::kKeysRemote)) &&
                         !request.has_keys_in_body();
    if (request.header.count == 0 || (is_list && request.keys.empty())) return std::nullopt;
    return table.positions.position(first_key_of(request));
}

std::optional<IterationFailure> failure_at(const ShardTable& table, uint64_t iteration,
                                           std::optional<uint64_t> position) {
    const ClosedIterations& closed = table.iterations.state().closed();
    if (closed.has_no_failure()) return std::nullopt;
    const ClosedState* const state = position ? closed.find(*position) : nullptr;
    return state != nullptr ? state->failure_of(iteration) : closed.failure_of(iteration);
}

Result<RuleArguments> arguments_of(const ShardTable& table, const Request& request) {
    std::array<double, wire::kArgumentsMax> given{};
    if (!request.arguments.empty())
        std::memcpy(given.data(), request.arguments.data(), request.arguments.size());
    return table.rows->arguments(
        std::span<const double>(given).first(request.arguments.size() / sizeof(double)));
}

Result<Entries> resolve(ShardTable& table, const Request& request, const SegmentList* held) {
    const wire::FrameHeader& h = request.header;
    Entries entries;
    entries.kept = request.kept;
    if (request.has(wire::kKeysRange)) {
        entries.is_range = true;
        entries.range = range_of(request);
        return entries;
    }
    if (request.has(wire::kKeysKnown)) {
        WEIR_ASSIGN(entries.list, table.rows->known_rows(known_list(request), held));
        return entries;
    }
    entries.keys = keys_of(request);
    if (request.erases()) [[unlikely]] {
        WEIR_ASSIGN(entries.list, table.rows->rows_to_erase(entries.keys, held));
        return entries;
    }
    WEIR_ASSIGN(entries.list, h.kind == Kind::kPush ? table.rows->rows_for_push(entries.keys, held)
                                                    : table.rows->rows_for_pull(entries.keys));
    return entries;
}

}  // namespace weir
