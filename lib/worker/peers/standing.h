// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Standing: where a client stands in its job: joining, ready, gone, failed.

#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/wire/messages.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/client_options.h"

namespace weir {

/// Thread: the client's
class Standing {
public:
    /// In this order; kFailed may follow any.
    enum class Phase : uint8_t {
        kConnectingToManager,
        kJoining,
        kConnectingToShards,
        kReady,
        kLeft,  ///< the manager has confirmed leave(): open calls continue, none can be started
        kAway,  ///< the same; none is open, and the connections to the shards are closed
        kFailed
    };

    Standing(ClientCoreOptions options, const Clock& clock, Calls& calls)
        : options_(std::move(options)), started_ns_(clock.now_ns()), calls_(calls) {}

    [[nodiscard]] const ClientCoreOptions& options() const noexcept { return options_; }

    [[nodiscard]] std::string name() const;

    [[nodiscard]] Phase phase() const noexcept { return phase_; }

    [[nodiscard]] bool is_ready() const noexcept { return phase_ == Phase::kReady; }

    [[nodiscard]] bool has_failed() const noexcept { return phase_ == Phase::kFailed; }

    /// All shards were reached once.
    [[nodiscard]] bool has_begun() const noexcept { return phase_ >= Phase::kReady; }

    /// Why the client cannot be used any more, or ok.
    [[nodiscard]] const Status& failure() const noexcept { return failure_; }

    [[nodiscard]] uint64_t started_ns() const noexcept { return started_ns_; }

    /// Whether calls may start.
    [[nodiscard]] Status check_ready() const;

    /// The phase after this one.
    void enter(Phase next);
    /// The manager has confirmed leave().
    void leave();
    /// kFailed: no call may start, and all have failed. Does nothing if it has failed already.
    void fail(Status why);
    /// The same, but calls are left to the caller.
    void end(Status why);

    /// The numbers of a worker that joins a running job.
    void admit(const AdmitMessage& numbers);

    [[nodiscard]] bool is_admitted() const noexcept { return is_admitted_; }

    /// The user gives up: errors that others get because of it are not searched for a cause.
    void give_up() noexcept { gave_up_ = true; }

    [[nodiscard]] bool gave_up() const noexcept { return gave_up_; }

    /// The manager says that the workers are to end.
    void stop() noexcept { is_stopping_ = true; }

    [[nodiscard]] bool is_stopping() const noexcept { return is_stopping_; }

private:
    ClientCoreOptions options_;
    uint64_t started_ns_;
    Calls& calls_;
    Phase phase_ = Phase::kConnectingToManager;
    Status failure_;            ///< not ok from kLeft on
    bool is_admitted_ = false;  ///< a worker that joins has its number
    bool gave_up_ = false;      ///< leave() was called with an error
    bool is_stopping_ = false;
};

}  // namespace weir
