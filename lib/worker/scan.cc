// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan.h"

#include <algorithm>
#include <atomic>

#include <fmt/core.h>
#include <pthread.h>

#include "lib/worker/client_state.h"
#include "lib/worker/scan_walk.h"
#include "lib/worker/table_access.h"

namespace weir {

/// Never 0.
static uint64_t number_of_this_thread() noexcept {
    return static_cast<uint64_t>(::pthread_self());
}

TableScan::TableScan(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info,
                     const ScanOptions& options)
    : state_(std::move(state)), info_(std::move(info)), options_(options) {
    const access::Turn turn(*state_);
    if (!turn) {
        status_ = turn.error();
        return;
    }
    deadline_ns_ = options_.deadline.count() == 0
                       ? state_->core().default_deadline_ns()
                       : static_cast<uint64_t>(options_.deadline.count());
    if (options_.keys && !options_.keys->well_formed()) {
        status_ = Error(Errc::kInvalidArgument,
                        fmt::format("table '{}': a scan of keys from {} to {}, before it begins",
                                    info_->schema.name, options_.keys->begin, options_.keys->end));
    } else if (options_.deadline.count() < 0) {
        status_ = Error(Errc::kDeadline, fmt::format("table '{}': the deadline of the scan was "
                                                     "over when it began",
                                                     info_->schema.name));
    } else {
        walk_ = std::make_unique<ScanWalk>(*info_, options_.keys);
        is_due_ = options_.after.empty();
        if (is_due_) {
            ask(deadline_ns_);
        } else {
            const auto at_most = static_cast<uint64_t>(options_.deadline.count());
            call_ = state_->core().wait_for(at_most, options_.after);
        }
    }
}

TableScan::~TableScan() {
    const bool is_open = is_asked_ || !is_due_;
    const bool is_lost = !status_ && !is_status_seen_ &&
                         status_.code() != Errc::kTwoThreads;  // which is logged where it arises
    if (!is_open && !is_lost) return;
    const access::TurnInTheEnd turn(*state_);
    const Status last = is_open ? outcome() : Status();
    const Status& ended = is_lost ? status_ : last;
    if (ended) return;
    state_->core().lose_error(Error(
        ended.code(),
        fmt::format("a scan of table '{}' failed: {}", info_->schema.name, ended.error().text())));
}

/// Of the call that is open, if it has ended: nobody will ask for its piece.
Status TableScan::outcome() {
    ClientCore& core = state_->core();
    const Status ended = core.done(call_) ? core.take(call_) : Status();
    core.drop(call_);
    return ended.code() == Errc::kStaleEpoch ? Status() : ended;  // the scan would go on elsewhere
}

/// Waits for the tasks after which it comes.
Status TableScan::begin() {
    WEIR_TRY(state_->may_wait());
    is_due_ = true;
    WEIR_TRY(state_->finish(call_));
    ask(deadline_ns_);
    return {};
}

/// Asks for the next piece while the caller uses the one before.
void TableScan::ask(uint64_t deadline_ns) {
    ClientCore& core = state_->core();
    const auto question = walk_->next(core.view());
    if (question && !*question) return;
    is_asked_ = true;
    if (!question) {
        call_ = core.failed_call(question.error());
        return;
    }
    shard_ = (*question)->shard;
    call_ = core.scan(shard_, (*question)->message, deadline_ns);
}

/// Without a turn it touches nothing that the other thread uses.
bool TableScan::next() {
    const access::Turn turn(*state_);
    const std::atomic_ref<uint64_t> refused(refused_);
    if (!turn) {
        (void)turn.error();  // logs it
        refused = number_of_this_thread();
        return false;
    }
    if (refused == number_of_this_thread()) refused = 0;
    keys_.clear();
    values_.clear();
    if (!status_) return false;
    if (status_ && !is_due_) status_ = begin();
    if (status_ && is_asked_) status_ = state_->may_wait();
    const uint64_t now_ns = SteadyClock().now_ns();
    const uint64_t end_ns = now_ns + std::min(deadline_ns_, ~uint64_t{0} - now_ns);
    while (status_ && is_asked_ && keys_.empty())
        status_ = take_piece(end_ns);
    if (status_) return !keys_.empty();
    keys_.clear();
    values_.clear();
    is_status_seen_ = false;
    return false;
}

std::span<const uint64_t> TableScan::keys() const noexcept {
    return keys_;
}

std::span<const std::byte> TableScan::values() const noexcept {
    return values_;
}

const Status& TableScan::status() const noexcept {
    static const Status refused_by_turn = access::no_turn();
    if (std::atomic_ref<uint64_t>(refused_) == number_of_this_thread()) return refused_by_turn;
    is_status_seen_ = true;
    return status_;
}

Status TableScan::take_piece(uint64_t end_ns) {
    ClientCore& core = state_->core();
    is_asked_ = false;
    state_->wait_until([&] { return core.done(call_); });
    const Result<std::vector<std::byte>> body = core.take_scan(call_);
    if (body.code() == Errc::kStaleEpoch) {  // some of what was asked for is elsewhere now
        const uint64_t now_ns = SteadyClock().now_ns();
        ask(end_ns > now_ns ? end_ns - now_ns : 1);
        return {};
    }
    if (!body) return body.error();
    Result<ScanPiece> piece = walk_->take(*body);
    if (!piece) {
        return Error(piece.code(), fmt::format("table '{}': {} from {}", info_->schema.name,
                                               piece.error().message(), core.peer_name(shard_)));
    }
    keys_ = std::move(piece->keys);
    values_ = std::move(piece->values);
    ask(deadline_ns_);
    return piece->keys_only ? pull_values() : Status();
}

/// Rows that are longer than a message.
Status TableScan::pull_values() {
    values_.resize(keys_.size() * info_->row_bytes);
    CallOptions options;
    options.deadline_ns = deadline_ns_;
    return state_->finish(state_->core().pull(*info_, keys_, values_, options));
}

}  // namespace weir
