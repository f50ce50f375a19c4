// SPDX-License-Identifier: Apache-2.0
#include "lib/manager/work_rounds.h"

#include <algorithm>
#include <utility>

#include "lib/base/check.h"
#include "lib/wire/messages.h"
#include "lib/wire/work_share.h"

namespace weir {

Pieces deal_pieces(uint32_t piece_count, std::span<const uint32_t> workers, const Pieces& before) {
    WEIR_CHECK(!workers.empty());
    const auto held = [&](uint32_t worker) {
        const auto had = before.find(worker);
        return had == before.end() ? size_t{0} : had->second.size();
    };
    // One piece more goes to those that have most of them already.
    std::vector<uint32_t> order(workers.begin(), workers.end());
    std::ranges::stable_sort(order, std::ranges::greater(), held);
    const auto count = static_cast<uint32_t>(workers.size());
    Pieces pieces;
    std::vector<bool> is_dealt(piece_count);
    std::map<uint32_t, size_t> quota;
    for (uint32_t i = 0; i < count; ++i) {
        std::vector<uint32_t>& kept = pieces[order[i]];
        quota[order[i]] = piece_count / count + (i < piece_count % count ? 1 : 0);
        if (held(order[i]) == 0) continue;
        kept = before.at(order[i]);
        kept.resize(std::min(kept.size(), quota[order[i]]));
        for (const uint32_t piece : kept) {
            WEIR_CHECK(piece < piece_count && !is_dealt[piece]);
            is_dealt[piece] = true;
        }
    }
    uint32_t next = 0;
    for (auto& [worker, mine] : pieces) {
        while (mine.size() < quota[worker]) {
            while (next < piece_count && is_dealt[next])
                ++next;
            WEIR_CHECK(next < piece_count);  // the quotas add up
            mine.push_back(next++);
        }
        std::ranges::sort(mine);
    }
    return pieces;
}

bool WorkRounds::remove(uint32_t worker) {
    const auto at = workers_.find(worker);
    if (at == workers_.end()) return false;
    if (at->second)
        answer(outbox_, *at->second, Errc::kCancelled, encode_text("this worker's call has ended"));
    workers_.erase(at);
    return has_share(worker);
}

bool WorkRounds::arrive(const Asker& asker, uint32_t piece_count, std::string_view description) {
    const auto at = workers_.find(asker.worker);
    if (at == workers_.end()) {
        answer(outbox_, asker, Errc::kUnavailable,
               encode_text("this worker has left the job, or given its work back"));
        return false;
    }
    if (state_ == State::kDone) {
        refuse_as_done(asker);
        return false;
    }
    if (at->second) {
        answer(outbox_, asker, Errc::kInvalidArgument,
               encode_text("this worker asks already; wait for that call first"));
        return false;
    }
    at->second = asker;
    if (piece_count_ == 0) {
        piece_count_ = piece_count;
        description_ = description;
    }
    return state_ == State::kGoingOn;
}

void WorkRounds::refuse_as_done(const Asker& asker) {
    answer(outbox_, asker, Errc::kNotFound,
           encode_text("the work of this job is done; there is nothing left to take"));
}

bool WorkRounds::withdraw(uint32_t worker, uint64_t request) {
    const auto at = workers_.find(worker);
    if (at == workers_.end()) return false;
    if (at->second && at->second->request == request) {
        answer(outbox_, *std::exchange(at->second, std::nullopt), Errc::kCancelled,
               encode_text("this worker's call has ended"));
        return false;
    }
    const auto dealt = dealt_.find(worker);
    return state_ == State::kGoingOn && dealt != dealt_.end() && dealt->second == request;
}

bool WorkRounds::end() noexcept {
    if (state_ != State::kGoingOn) return false;
    state_ = State::kOver;
    return true;
}

Status WorkRounds::finish(uint32_t worker) {
    if (!workers_.contains(worker) || !pieces_.contains(worker)) {
        return Error(Errc::kInvalidArgument,
                     "only a worker that has a share of the work knows that it is done");
    }
    state_ = State::kDone;
    for (auto& [number, asker] : workers_) {
        if (asker) refuse_as_done(*std::exchange(asker, std::nullopt));
    }
    return {};
}

void WorkRounds::settle(const Status& broken) {
    const bool all_ask =
        std::ranges::all_of(workers_, [](const auto& entry) { return entry.second.has_value(); });
    if (broken && (!all_ask || workers_.empty())) return;
    if (!broken) {
        for (auto& [worker, asker] : workers_) {
            if (!asker) continue;
            answer(outbox_, *std::exchange(asker, std::nullopt), broken.code(),
                   encode_text(broken.error().text()));
        }
        return;
    }
    std::vector<uint32_t> workers;
    for (const auto& [worker, asker] : workers_)
        workers.push_back(worker);
    pieces_ = deal_pieces(piece_count_, workers, pieces_);
    WEIR_CHECK(pieces_.size() == workers.size());
    ++round_;
    state_ = State::kGoingOn;
    dealt_.clear();
    WorkShare share;
    share.round = round_;
    share.worker_count = static_cast<uint32_t>(workers.size());
    share.piece_count = piece_count_;
    for (auto& [worker, asker] : workers_) {
        share.pieces = pieces_.at(worker);
        dealt_[worker] = asker->request;
        answer(outbox_, *std::exchange(asker, std::nullopt), Errc::kOk, share.encode());
        ++share.index;
    }
    WEIR_CHECK(share.index == share.worker_count && dealt_.size() == workers.size());
}

}  // namespace weir
