// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/core.h>

#include "lib/key/finite.h"
#include "lib/store/rules/named_number.h"
#include "lib/worker/client.h"
#include "lib/worker/client_state.h"
#include "lib/worker/table_access.h"

namespace weir {

namespace {

using rules::Collective;

/// For people.
std::string text_of(const Collectives::Call& call) {
    const std::string values = fmt::format("{} {} values", call.count(), to_string(call.type));
    switch (call.operation) {
        case Collective::kSum: return fmt::format("allreduce (sum of {})", values);
        case Collective::kMax: return fmt::format("allreduce (greatest of {})", values);
        case Collective::kMin: return fmt::format("allreduce (least of {})", values);
        case Collective::kMean: return fmt::format("allreduce (mean of {})", values);
        case Collective::kBroadcast: break;
    }
    return fmt::format("broadcast ({} from worker {})", values, call.from);
}

Status check_call(const Collectives::Call& call) {
    if (call.count() > Collectives::kCountMax) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("at most {} values go into one call; make several, or use a table "
                                 "with the rule `sum`",
                                 Collectives::kCountMax));
    }
    if (call.operation == Collective::kMean && !is_floating(call.type)) {
        return Error(Errc::kTypeMismatch,
                     "a mean of integers would be rounded; take their sum, or use a floating type");
    }
    return {};
}

Status check_finite(const Collectives::Call& call) {
    if (all_finite(call.type, call.values.data(), call.count())) return {};
    size_t i = 0;
    while (all_finite(call.type, call.values.data() + i * size_of(call.type), 1))
        ++i;
    return Error(
        Errc::kNotFinite,
        fmt::format("value {} of this worker is a NaN or an infinity; reduce finite values", i));
}

/// Calls use(value, slot, mark) for each value of the call, its place in `rows`, and the mark of that row.
template <class Use>
void for_values(const Collectives::Call& call, std::byte* rows, Use&& use) {
    with_value_type(call.type, [&]<class T>() {
        const std::span values(reinterpret_cast<T*>(call.values.data()), call.count());
        with_value_type(Collective::slot_type(call.type), [&]<class Slot>() {
            auto* mark = reinterpret_cast<Slot*>(rows);
            for (size_t begin = 0; begin < values.size(); begin += Collectives::kPerRow) {
                const size_t count = std::min(values.size() - begin, Collectives::kPerRow);
                for (size_t i = 0; i < count; ++i)
                    use(values[begin + i], mark[1 + i], *mark);
                mark += Collectives::kWidth;
            }
        });
    });
}

}  // namespace

Status Collectives::run(const std::shared_ptr<ClientState>& state, const Call& call) {
    const access::Turn turn(*state);
    if (!turn) return turn.error();
    Status done = run_in_turn(state, call);
    const Errc code = done.code();
    // These are no fault of the call, and name what is lost themselves.
    if (done || code == Errc::kPeerLost || code == Errc::kReassigned || was_stopped(code))
        return done;
    return Error(done.code(), fmt::format("{}: {}", text_of(call), done.error().text()),
                 done.error().os_error());
}

Status Collectives::run_in_turn(const std::shared_ptr<ClientState>& state, const Call& call) {
    WEIR_TRY(state->may_wait());
    WEIR_TRY(check_call(call));
    ClientCore& core = state->core();
    const uint64_t rows = (call.count() + kPerRow - 1) / kPerRow;
    WEIR_TRY(prepare(state, rows));
    const std::optional<uint64_t> iteration = core.next_iteration(table_->schema.id);
    if (!iteration) {
        return Error(
            Errc::kInvalidArgument,
            "this worker takes part in no iterations (JoinOptions::has_iterations), so the "
            "others do not wait for it here");
    }
    const bool is_broadcast = call.operation == Operation::kBroadcast;
    // A worker whose values cannot be reduced brings none, so that all are at the same call afterwards.
    Status finite = is_broadcast ? Status() : check_finite(call);
    const bool gives = finite && (!is_broadcast || call.from == core.worker());
    const bool takes = rows > 0 && (!is_broadcast || !gives);
    if (gives) {
        std::memset(pushed_.get(), 0, rows * kRowBytes);
        for_values(call, pushed_.get(), [&](auto value, auto& slot, auto& mark) {
            slot = static_cast<std::remove_reference_t<decltype(slot)>>(value);
            mark = 1;
            if (is_broadcast) std::memcpy(&mark, &*iteration, sizeof(mark));
        });
    }
    const std::array<NamedNumber, 5> arguments = {
        {{"operation", static_cast<double>(call.operation)},
         {"type", static_cast<double>(call.type)},
         {"count", static_cast<double>(call.count())},
         {"from", static_cast<double>(call.from)},
         {"not_finite", finite ? 0.0 : 1.0}}};
    CallOptions options{iteration, access::deadline_ns_of(call.at_most), {}, arguments};
    const KeyRange given{0, gives ? rows : 0};
    const ClientCore::CallId push =
        core.push(*table_, given, {pushed_.get(), given.key_count() * kRowBytes}, options);
    options.arguments = {};
    // It waits at the servers for the end of the iteration, which saves a round trip.
    std::optional<ClientCore::CallId> pull;
    if (takes)
        pull = core.pull(*table_, KeyRange{0, rows}, {pulled_.get(), rows * kRowBytes}, options);
    const Status pushed = state->finish(push);
    const Status pulled = pull ? state->finish(*pull) : Status();
    if (!finite && (pushed || pushed.code() == Errc::kDifferentArguments)) return finite;
    WEIR_TRY(pushed);
    WEIR_TRY(pulled);
    return takes ? take(call, rows, *iteration) : Status();
}

/// Makes the table and the buffers. All workers come here in the same call, but one that joins, which
/// finds the table.
Status Collectives::prepare(const std::shared_ptr<ClientState>& state, uint64_t rows) {
    if (std::exchange(is_outdated_, false) && table_ != nullptr) {
        // Nobody is in a call of the round before: the next round begins when all have asked for work.
        (void)state->finish(state->core().drop_table(std::exchange(table_, nullptr)->schema.name));
    }
    if (table_ == nullptr) {
        TableOptions options;
        options.layout = Layout::kDense;
        options.key_count = kRowsMax;
        options.width = kWidth;
        options.rule = "weir.collective";
        options.in_checkpoints = false;
        std::string name = "weir.collectives";
        if (round_ > 0) name += fmt::format(".{}", round_);
        WEIR_ASSIGN(table_, access::make_table(*state, name, ValueType::kUInt64, options, {}));
    }
    const auto is_in_use = [&](const std::shared_ptr<std::byte>& memory) {  // by a call that failed
        return state->core().is_referenced({memory.get(), rows_ * kRowBytes});
    };
    if (rows <= rows_ && !is_in_use(pushed_) && !is_in_use(pulled_)) return {};
    rows_ = std::max(rows_, rows);
    WEIR_ASSIGN(pushed_, access::allocate(state, rows_ * kWidth, sizeof(uint64_t)));
    WEIR_ASSIGN(pulled_, access::allocate(state, rows_ * kWidth, sizeof(uint64_t)));
    return {};
}

/// What was pulled becomes the caller's values.
Status Collectives::take(const Call& call, uint64_t rows, uint64_t iteration) const {
    const std::byte* const from = pulled_.get();
    const bool is_broadcast = call.operation == Operation::kBroadcast;
    for (uint64_t row = 0; is_broadcast && row < rows; ++row) {
        uint64_t mark = 0;
        std::memcpy(&mark, from + row * kRowBytes, sizeof(mark));
        if (mark != iteration) {
            return Error(Errc::kPeerLost,
                         fmt::format("{}: worker {} has not brought the values: it has left the "
                                     "job, died, or was never there",
                                     text_of(call), call.from));
        }
    }
    const bool is_mean = call.operation == Operation::kMean;
    for_values(call, pulled_.get(), [&](auto& value, auto slot, auto mark) {
        value = static_cast<std::remove_reference_t<decltype(value)>>(is_mean ? slot / mark : slot);
    });
    return {};
}

}  // namespace weir
