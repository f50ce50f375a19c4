// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LogStorage: keeps the LogState of a replica, in memory or on a disk.

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/consensus/log_state.h"

namespace weir::consensus {

/// What was stored is kept, as surely as the storage can, when a call returns without an error. After
/// an error the storage takes nothing more, and its replica ends.
///
/// Thread: that of the replica; a call may wait for the disk
/// Errors: kIo, naming the file
class LogStorage {
public:
    LogStorage() = default;
    LogStorage(const LogStorage&) = delete;
    LogStorage& operator=(const LogStorage&) = delete;
    virtual ~LogStorage() = default;

    [[nodiscard]] virtual const LogState& state() const noexcept = 0;

    [[nodiscard]] virtual Status promise(const Promise& promise) = 0;
    /// Stores entries behind the last one.
    [[nodiscard]] virtual Status append(std::vector<Entry> entries) = 0;
    /// As LogState::truncate().
    [[nodiscard]] virtual Status truncate(uint64_t index) = 0;
    /// As LogState::put_snapshot().
    [[nodiscard]] virtual Status put_snapshot(Snapshot snapshot, uint64_t kept) = 0;
};

/// Lives as long as its process. Its replica must never come back under its number: it could vote a second
/// time in a term, or let entries be lost that it had stored.
class MemoryStorage final : public LogStorage {
public:
    [[nodiscard]] const LogState& state() const noexcept override { return state_; }

    [[nodiscard]] Status promise(const Promise& promise) override {
        state_.promise = promise;
        return {};
    }

    [[nodiscard]] Status append(std::vector<Entry> entries) override {
        for (Entry& entry : entries)
            state_.entries.push_back(std::move(entry));
        return {};
    }

    [[nodiscard]] Status truncate(uint64_t index) override {
        state_.truncate(index);
        return {};
    }

    [[nodiscard]] Status put_snapshot(Snapshot snapshot, uint64_t kept) override {
        state_.put_snapshot(std::move(snapshot), kept);
        return {};
    }

private:
    LogState state_;
};

}  // namespace weir::consensus
