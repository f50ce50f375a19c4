// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Parting: what a worker of `weir lr` does when SIGINT or SIGTERM comes. Who stops a whole job signals
/// all of its ranks: then the training ends. A rank that gets SIGTERM alone gives its work to the
/// others, if the job has --on-worker-loss reassign.

#include <atomic>
#include <thread>

#include "lib/weir.h"

namespace weir::tools {

/// Thread: the client's
class Parting {
public:
    /// `is_possible`: the others take over what a worker has.
    Parting(Job& job, Client& client, bool is_possible) noexcept
        : job_(job), client_(client), is_possible_(is_possible) {}

    /// As apps::LrOptions::stop. The error: the others have this worker's work.
    [[nodiscard]] Result<int> decide();

    [[nodiscard]] bool has_given_back() const noexcept { return has_given_back_; }

    /// It may not leave, because no other process can take its work: the others may have left before it.
    [[nodiscard]] bool is_last() const noexcept { return is_last_; }

    /// As apps::LrRunOptions::stops_reading: decide() knows then what happens. Only the client's thread, which
    /// reads as the others do, hears of `weir stop`, and tells them. Thread: any
    [[nodiscard]] bool stops_reading();

private:
    [[nodiscard]] Status may_give_back();

    Job& job_;
    Client& client_;
    const std::thread::id thread_ = std::this_thread::get_id();  ///< the client's
    std::atomic<bool> is_possible_;  ///< other threads read it; it guards no other data
    bool is_last_ = false;
    bool has_given_back_ = false;
};

}  // namespace weir::tools
