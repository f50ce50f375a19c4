// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/scan.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include <fmt/core.h>
#include <pthread.h>

#include "lib/key/narrow_values.h"
#include "lib/worker/client_state.h"
#include "lib/worker/scan/dense_scan.h"
#include "lib/worker/scan/sparse_scan.h"
#include "lib/worker/table_access.h"

namespace weir {

/// Never 0.
static uint64_t number_of_this_thread() noexcept {
    return static_cast<uint64_t>(::pthread_self());
}

TableScan::TableScan(std::shared_ptr<ClientState> state, std::shared_ptr<const TableInfo> info,
                     const ScanOptions& options)
    : state_(std::move(state)), info_(std::move(info)) {
    const access::Turn turn(*state_);
    if (!turn) {
        status_ = turn.error();
        return;
    }
    deadline_ns_ = options.deadline.count() == 0 ? state_->core().default_deadline_ns()
                                                 : static_cast<uint64_t>(options.deadline.count());
    status_ = check(options);
    if (!status_) return;
    const ScanExtent extent{options.keys,      options.share,      options.shares,
                            options.has_state, options.has_values, options.has_stamps};
    if (info_->positions.is_dense()) {
        source_ = std::make_unique<DenseScan>(
            state_->core(),
            [state = state_](size_t bytes) { return access::allocate(state, bytes, 1); }, *info_,
            extent);
    } else {
        source_ = std::make_unique<SparseScan>(state_->core(), *info_, extent);
    }
    is_due_ = options.after.empty();
    if (is_due_) {
        status_ = source_->ask(SteadyClock().now_ns(), deadline_ns_);
    } else {
        const auto at_most = static_cast<uint64_t>(options.deadline.count());
        call_ = state_->core().wait_for(at_most, options.after);
    }
}

Status TableScan::check(const ScanOptions& options) {
    const std::string& name = info_->schema.name;
    if (options.keys && !options.keys->well_formed()) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a scan of keys from {} to {}, before it begins", name,
                                 options.keys->begin, options.keys->end));
    }
    if (options.share >= options.shares) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a scan of share {} of {}; shares count from 0", name,
                                 options.share, options.shares));
    }
    if (options.has_stamps && !info_->schema.erasable) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("table '{}': a scan of stamps: its rows have none; create it with "
                                 "TableOptions::erasable",
                                 name));
    }
    if (options.deadline.count() >= 0) return {};
    return Error(Errc::kDeadline,
                 fmt::format("table '{}': the deadline of the scan was over when it began", name));
}

TableScan::~TableScan() {
    const bool is_lost = !status_ && !is_status_seen_ &&
                         status_.code() != Errc::kTwoThreads;  // which is logged where it arises
    if (source_ == nullptr && !is_lost) return;
    const access::TurnInTheEnd turn(*state_);
    Status last;
    if (!is_due_) {
        ClientCore& core = state_->core();
        if (core.done(call_)) last = core.take(call_);
        core.drop(call_);
    } else if (source_ != nullptr) {
        last = source_->drop();
    }
    source_.reset();
    const Status& ended = is_lost ? status_ : last;
    if (ended) return;
    state_->core().lose_error(Error(
        ended.code(),
        fmt::format("a scan of table '{}' failed: {}", info_->schema.name, ended.error().text())));
}

/// Waits for the tasks after which it comes.
Status TableScan::begin() {
    WEIR_TRY(state_->may_wait());
    is_due_ = true;
    return state_->finish(call_);
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
    forget_piece();
    if (!status_) return false;
    if (!is_due_) status_ = begin();
    if (status_) status_ = fetch();
    if (status_) return !keys_.empty() || !range_.empty();
    forget_piece();
    (void)source_->drop();
    is_status_seen_ = false;
    return false;
}

std::span<const std::byte> TableScan::values() const noexcept {
    return values_;
}

void TableScan::forget_piece() noexcept {
    range_ = {};
    keys_ = {};
    values_ = {};
    row_state_ = {};
    stamps_ = {};
}

/// The next piece that has rows, if there is one.
Status TableScan::fetch() {
    const SteadyClock clock;
    ScanTime time{clock.now_ns(), 0};
    time.end_ns = time.begun_ns + std::min(deadline_ns_, ~uint64_t{0} - time.begun_ns);
    source_->release();
    ScanRows rows;
    for (uint64_t now_ns = time.begun_ns; rows.empty(); now_ns = clock.now_ns()) {
        if (source_->is_over()) return {};
        const bool is_first = now_ns == time.begun_ns;
        WEIR_TRY(source_->ask(now_ns, is_first ? deadline_ns_ : time.left_ns(now_ns)));
        WEIR_TRY(state_->may_wait());
        state_->wait_until([&] { return source_->is_ready(); });
        WEIR_ASSIGN(rows, source_->take(time, clock.now_ns()));
    }
    // What is wrong is found again when the next piece is wanted.
    (void)source_->ask(clock.now_ns(), deadline_ns_);
    range_ = rows.range;
    keys_ = rows.keys;
    values_ = is_narrow(info_->schema.value_type) ? widened(rows.values) : rows.values;
    row_state_ = rows.state;
    stamps_ = rows.stamps;
    return {};
}

std::span<const std::byte> TableScan::widened(std::span<const std::byte> kept) {
    const ValueType type = info_->schema.value_type;
    widened_.resize(kept.size() / size_of(type));
    widen(type, kept, widened_.data());
    return std::as_bytes(std::span(widened_));
}

std::span<const uint64_t> TableScan::keys() {
    if (!keys_.empty() || range_.empty()) return keys_;
    range_keys_.resize(range_.key_count());
    std::iota(range_keys_.begin(), range_keys_.end(), range_.begin);
    return keys_ = range_keys_;
}

const Status& TableScan::status() const noexcept {
    static const Status refused_by_turn = access::no_turn();
    if (std::atomic_ref<uint64_t>(refused_) == number_of_this_thread()) return refused_by_turn;
    is_status_seen_ = true;
    return status_;
}

}  // namespace weir
