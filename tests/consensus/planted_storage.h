// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PlantedStorage: a storage with a fault that random histories must find. What it tells its replica is right,
/// and so is all that it does until the replica starts anew.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lib/consensus/log_storage.h"

namespace weir::testing {

enum class Plant : uint8_t {
    kVoteForgotten,      ///< whom it has voted for is not stored
    kTermForgotten,      ///< nor is the term
    kAppendTooEarly,     ///< entries are stored only when the next thing is
    kLastEntryLost,      ///< of several entries, the last one is not stored
    kTruncateForgotten,  ///< entries of another leader stay
    kSnapshotTooFar,     ///< the entries behind a snapshot are dropped with those before it
};

class PlantedStorage final : public consensus::LogStorage {
public:
    PlantedStorage(std::unique_ptr<LogStorage> inner, Plant plant)
        : inner_(std::move(inner)), plant_(plant), state_(inner_->state()) {}

    [[nodiscard]] const consensus::LogState& state() const noexcept override { return state_; }

    [[nodiscard]] Status promise(const consensus::Promise& promise) override {
        state_.promise = promise;
        WEIR_TRY(store_late());
        if (plant_ == Plant::kTermForgotten && promise.term > 1) return {};
        if (plant_ == Plant::kVoteForgotten) return inner_->promise({promise.term, 0});
        return inner_->promise(promise);
    }

    [[nodiscard]] Status append(std::vector<consensus::Entry> entries) override {
        state_.entries.insert(state_.entries.end(), entries.begin(), entries.end());
        WEIR_TRY(store_late());
        if (plant_ == Plant::kAppendTooEarly && inner_->state().last() > 0) {
            late_ = std::move(entries);
            return {};
        }
        if (plant_ == Plant::kLastEntryLost && entries.size() > 1) entries.pop_back();
        if (plant_ == Plant::kTruncateForgotten) {
            const uint64_t first = state_.last() - entries.size() + 1;
            const uint64_t known = inner_->state().last() + 1 - first;
            entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(
                                                                 std::min(known, entries.size())));
        }
        return inner_->append(std::move(entries));
    }

    [[nodiscard]] Status truncate(uint64_t index) override {
        state_.truncate(index);
        WEIR_TRY(store_late());
        if (plant_ == Plant::kTruncateForgotten) return {};
        return inner_->truncate(index);
    }

    [[nodiscard]] Status put_snapshot(consensus::Snapshot snapshot, uint64_t kept) override {
        state_.put_snapshot(snapshot, kept);
        WEIR_TRY(store_late());
        return inner_->put_snapshot(std::move(snapshot),
                                    plant_ == Plant::kSnapshotTooFar ? 0 : kept);
    }

private:
    [[nodiscard]] Status store_late() {
        return late_.empty() ? Status() : inner_->append(std::exchange(late_, {}));
    }

    std::unique_ptr<LogStorage> inner_;
    Plant plant_;
    consensus::LogState state_;
    std::vector<consensus::Entry> late_;
};

}  // namespace weir::testing
