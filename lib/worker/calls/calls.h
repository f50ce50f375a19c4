// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Calls: what a client has begun and not forgotten yet, and when each of these calls has ended.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/store/memory.h"
#include "lib/worker/calls/call_rows.h"
#include "lib/worker/calls/slots.h"

namespace weir {

/// What a call that has a task tells: see Call::reports.
struct CallReport {
    uint64_t task = 0;
    bool has_ended = false;  ///< with `outcome`; else: nobody asks for its outcome any more
    Status outcome;
};

struct Call {
    enum class State : uint8_t {
        kStarting,   ///< its requests are still being made
        kOpen,       ///< it waits for its requests
        kUnwatched,  ///< the same, but no caller asks for its outcome
        kEnded,      ///< the outcome is final; requests may still be open, the caller's memory is
                     ///< free
        kTaken       ///< the same, and the caller has taken the outcome
    };
    State state = State::kStarting;
    uint32_t open_requests = 1;  ///< and one more while it is kStarting
    static constexpr uint64_t kNoDeadline = ~uint64_t{0};
    uint64_t begun_ns = 0;                 ///< when it was sent off
    uint64_t deadline_ns = kNoDeadline;    ///< on the clock; set when it is sent off at the latest
    uint64_t next_sign_ns = ~uint64_t{0};  ///< when its servers are asked for a sign of life
    Status status;                         ///< the first error of its requests
    std::vector<std::byte> body;           ///< of the manager's or a shard's reply
    Block memory;                          ///< scan: what the shard has written to
    uint64_t shown = ~uint64_t{0};         ///< pull: the oldest iteration that a shard showed
    uint64_t task = 0;                     ///< its number in the task graph; 0: it has none
    /// Its deadline has come. Nothing more of it is sent, and it ends once no server reaches the
    /// caller's memory.
    bool is_withdrawn = false;
    bool is_memory_in_doubt = false;  ///< a server may still reach it, and `status` says so
    bool has_handler = false;         ///< its handlers, or subtasks, have not finished
    bool is_push = false;             ///< of `table`; else a pull
    static constexpr uint32_t kNoTable = ~uint32_t{0};
    uint32_t table = kNoTable;                    ///< of a push or pull
    std::vector<CallReport>* reports = nullptr;   ///< where it tells its end, if it has a task
    std::vector<std::shared_ptr<CallRows>> rows;  ///< of batches, until it has ended

    [[nodiscard]] bool has_ended() const noexcept {
        return state == State::kEnded || state == State::kTaken;
    }

    [[nodiscard]] bool is_unwatched() const noexcept {
        return state == State::kUnwatched || state == State::kTaken;
    }

    /// The call will end with this error, unless it has another one already.
    void note_error(Status error) {
        if (!has_ended() && status) status = std::move(error);
    }

    /// The call ends at its deadline, but a server may still reach its memory: the error says so.
    void note_memory_in_doubt(std::string_view text) {
        if (has_ended() || status || std::exchange(is_memory_in_doubt, true)) return;
        status = Error(status.code(), status.error().text() + std::string(text));
    }

    /// Ends the call at once, even if requests are still open.
    void fail(Status error) {
        note_error(std::move(error));
        end();
    }

    void end() noexcept {
        if (has_ended()) return;
        state = state == State::kUnwatched ? State::kTaken : State::kEnded;
        if (!rows.empty()) [[unlikely]]
            end_rows();
        if (task != 0) reports->push_back({task, true, status});
    }

    void end_rows() noexcept {
        for (const std::shared_ptr<CallRows>& its : rows)
            its->end(static_cast<bool>(status));
        rows.clear();
    }

    void stop_watching() noexcept {
        state = has_ended() ? State::kTaken : State::kUnwatched;
        if (task != 0) reports->push_back({task, false, {}});
    }
};

/// A call that has no open request and is not watched any more is released.
///
/// Thread: the client's
class Calls {
public:
    using Id = uint64_t;
    static constexpr uint32_t kCountMax = Slots<Call>::kCountMax;

    /// A new call that is kStarting, or nullptr if there are kCountMax.
    [[nodiscard]] Call* begin(Id& id) { return calls_.acquire(id); }

    /// A call that has ended with `error`. 0 if there is no room: take(0) says so.
    [[nodiscard]] Id failed(Status error) {
        Id id = 0;
        Call* const call = calls_.acquire(id);
        if (call == nullptr) return 0;
        call->open_requests = 0;
        call->fail(std::move(error));
        return id;
    }

    /// All requests of the call are made; what has kept it from ending so far is gone.
    /// `needs_caller`: as in request_ended().
    template <class NeedsCaller>
    void started(Id id, Call& call, NeedsCaller&& needs_caller) {
        if (call.state == Call::State::kStarting) call.state = Call::State::kOpen;
        request_ended(id, needs_caller);
    }

    /// The call has ended before any request was made.
    void never_started(Id id, Call& call) noexcept {
        call.open_requests = 0;
        release_if_over(id, call);
    }

    /// Its handlers and subtasks have finished, the first of their errors is `outcome`.
    void handlers_ended(Id id, Call& call, Status outcome) noexcept {
        if (call.status) call.status = std::move(outcome);
        call.has_handler = false;
        release_if_over(id, call);
    }

    /// One of its requests has ended. The call ends with the last one; after an error it ends as
    /// soon as no open request `needs_caller()`, that is, may use the caller's memory.
    template <class NeedsCaller>
    void request_ended(Id id, NeedsCaller&& needs_caller) {
        Call* const call = calls_.find(id);
        if (call == nullptr) return;
        const bool was_last = --call->open_requests == 0;
        const bool has_failed =
            !call->status && !call->has_ended() && call->state != Call::State::kStarting;
        if (was_last || (has_failed && !needs_caller(id))) call->end();
        release_if_over(id, *call);
    }

    /// nullptr if it was released.
    [[nodiscard]] Call* find(Id id) noexcept { return calls_.find(id); }

    /// True once the call has ended, with or without an error, and its handlers and subtasks too,
    /// or was taken.
    [[nodiscard]] bool done(Id id) noexcept {
        const Call* const call = calls_.find(id);
        return call == nullptr || (call->has_ended() && !call->has_handler);
    }

    /// True once its own requests have ended, or none matters any more.
    [[nodiscard]] bool has_ended(Id id) noexcept {
        const Call* const call = calls_.find(id);
        return call == nullptr || call->has_ended();
    }

    /// The outcome of an ended call, which is then forgotten.
    /// Errors: kBusy if there is no such call: there was no room for it
    [[nodiscard]] Status take(Id id);

    /// The iteration that the values of an ended pull show. Nothing if they may show none, if no
    /// shard was asked, or if it has failed.
    [[nodiscard]] std::optional<uint64_t> iteration_shown(Id id) noexcept {
        const Call* const call = calls_.find(id);
        const bool shows = call != nullptr && call->has_ended() && call->status &&
                           call->shown != 0 && call->shown != ~uint64_t{0};
        return shows ? std::optional(call->shown) : std::nullopt;
    }

    /// Forgets the call once its requests have ended. These continue.
    void drop(Id id) noexcept {
        Call* const call = calls_.find(id);
        if (call == nullptr) return;
        call->stop_watching();
        release_if_over(id, *call);
    }

    /// Whether an open call reads or writes this memory by itself.
    [[nodiscard]] bool is_referenced(std::span<const std::byte> memory) noexcept;

    template <class Function>
    void for_each(Function&& function) {
        calls_.for_each(std::forward<Function>(function));
    }

private:
    void release_if_over(Id id, const Call& call) {
        if (call.is_unwatched() && call.open_requests == 0 && !call.has_handler) calls_.release(id);
    }

    Slots<Call> calls_;
};

}  // namespace weir
