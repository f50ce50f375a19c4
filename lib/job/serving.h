// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Serving: from when the shards and the manager of this process run to when they have ended. A server
/// may leave before the job is over, or have to end before it has left.

#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/job/devices.h"
#include "lib/job/managers.h"
#include "lib/worker/client.h"

namespace weir {

struct ServingOptions {
    uint32_t first_server = 0;  ///< number of this process's first server
    uint32_t local_servers = 0;
    uint64_t joiner = 0;                          ///< of a process that has joined; else 0
    std::vector<ManagerPlace> managers = {};      ///< of the job
    std::function<bool()> is_being_stopped = {};  ///< JobOptions::is_being_stopped
};

/// Thread: one, but for give_back_work()
class Serving {
public:
    /// `devices`, `managers` and `clock` must outlive it.
    Serving(ServingOptions options, Devices& devices, Managers& managers, const Clock& clock)
        : options_(std::move(options)), devices_(devices), managers_(managers), clock_(clock) {}

    /// A shard that runs in this process, as Runtime::run() returns it.
    void add_shard(std::future<Status> ended) { shards_ended_.push_back(std::move(ended)); }

    /// The manager that does.
    void set_manager(std::future<Status> ended) { manager_ended_ = std::move(ended); }

    /// Whether this process has a manager of which serve() does not know that it has ended.
    [[nodiscard]] bool has_manager() const noexcept { return manager_ended_.valid(); }

    /// The program ends this process's part of the job. If serve() was never called, and the job is not over
    /// soon, says so here and to the manager, from which the others hear it.
    void end(uint32_t rank);

    /// Job::serve()
    [[nodiscard]] Status serve(const std::function<bool()>& wants_to_leave,
                               const std::function<bool()>& must_end);
    /// Job::leave()
    [[nodiscard]] Status leave(uint64_t timeout_ns = 10 * kSecond);
    /// Job::give_back_work(). Thread: the client's
    [[nodiscard]] Status give_back_work(Client& client);

private:
    void take_ended_shards(Status& first);
    [[nodiscard]] Status let_another_lead();
    [[nodiscard]] Status wait_for_manager(Status outcome, const std::function<bool()>& must_end);
    void ask_to_leave(const std::future<Status>& ended);
    [[nodiscard]] Error did_not_leave();
    [[nodiscard]] std::string what_it_holds();
    [[nodiscard]] Status end_before_the_job(Status outcome);

    ServingOptions options_;
    Devices& devices_;
    Managers& managers_;
    const Clock& clock_;
    std::vector<std::future<Status>> shards_ended_;
    std::future<Status> manager_ended_;  ///< that of this process, if it has one
    bool was_served_ = false;            ///< serve() was called
    bool is_decided_ = false;            ///< whether it leaves: it asks no more
    uint64_t ask_again_ns_ = 0;          ///< not before, whether it may leave
    std::string why_it_stays_;           ///< the last answer; empty: it leaves
};

}  // namespace weir
