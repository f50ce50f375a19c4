// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FailoverKills: starts servers that join a running job, and kills or stops one after the other at a
/// random instant, as soon as all parameters have their copies again.

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/random.h"
#include "lib/base/result.h"
#include "lib/node/job_status.h"
#include "tools/weir/child_process.h"
#include "tools/weir/operator_connection.h"

namespace weir::tools {

struct FailoverPlan {
    std::string contact_file;
    uint32_t rounds = 10;
    uint32_t servers = 2;                     ///< that join, of which one is killed in each round
    uint32_t shards = 1;                      ///< of each
    std::vector<std::string> variables = {};  ///< of their environment
    double pause_seconds = 1;                 ///< at most, before the next one
    uint64_t seed = 1;
    bool stops = false;  ///< SIGSTOP, and later SIGCONT, in place of SIGKILL
    int cpu = -1;        ///< for the servers; -1: any
};

/// Works in a thread of its own. The destructor stops that, and kills the servers that still run.
///
/// Thread: failed_ns(), recovered() and is_over(): the load's; the others: the creator's, once it is
///         over
class FailoverKills {
public:
    FailoverKills(FailoverPlan plan, const Config& config);
    FailoverKills(const FailoverKills&) = delete;
    FailoverKills& operator=(const FailoverKills&) = delete;

    ~FailoverKills() { is_cancelled_.store(true, std::memory_order_relaxed); }

    /// When the last server was killed, by `SteadyClock`; 0: that is over.
    [[nodiscard]] uint64_t failed_ns() const noexcept {
        return failed_ns_.load(std::memory_order_relaxed);  // nothing else is read because of it
    }

    /// A push to all servers that began after that was acknowledged.
    void recovered(uint64_t now_ns) noexcept {
        recovered_ns_.store(now_ns, std::memory_order_relaxed);
        failed_ns_.store(0, std::memory_order_relaxed);
    }

    /// Whether all rounds have ended, or one has failed.
    [[nodiscard]] bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }

    /// Errors: what a round has failed of, naming the round
    [[nodiscard]] const Status& outcome() const noexcept { return outcome_; }

    /// From the kill to the first push to all servers that began after it and was acknowledged.
    [[nodiscard]] const std::vector<double>& times_ms() const noexcept { return times_ms_; }

    /// Kills each server that joined once more, and waits for copies in between: then all parameters
    /// that they held come from what were copies.
    [[nodiscard]] Status kill_the_rest();

private:
    [[nodiscard]] Status run();
    [[nodiscard]] Status round();
    [[nodiscard]] Status start_server();
    [[nodiscard]] Status until_all_have_copies();
    [[nodiscard]] Status until_recovered();
    [[nodiscard]] Status until_ended(ChildProcess& server);
    template <class Holds>
    [[nodiscard]] Status until(const char* what, Holds&& holds);

    FailoverPlan plan_;
    Config config_;
    SteadyClock clock_;
    Random random_;
    OperatorConnection connection_;
    std::vector<ChildProcess> servers_;
    size_t servers_of_start_ = 0;
    std::vector<double> times_ms_;
    Status outcome_;
    std::atomic<uint64_t> failed_ns_{0};
    std::atomic<uint64_t> recovered_ns_{0};
    std::atomic<bool> is_over_{false};  ///< release: everything above is read after it
    std::atomic<bool> is_cancelled_{false};
    std::jthread thread_;  // last, because it uses everything above
};

}  // namespace weir::tools
