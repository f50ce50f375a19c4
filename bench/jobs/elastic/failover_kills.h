// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FailoverKills: starts servers that join a running job, and kills, stops or cuts off one after the
/// other, or several at once, at a random instant, as soon as all parameters have their copies again.

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/jobs/child_process.h"
#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/random.h"
#include "lib/base/result.h"
#include "lib/job/operator_connection.h"

namespace weir::bench {

/// What happens to servers.
enum class FailoverFault : uint8_t {
    kKill,  ///< SIGKILL
    kStop,  ///< SIGSTOP, and SIGCONT when the job goes on without them
    kCut,   ///< nothing comes to them or from them, or neither; that is healed later
};

struct FailoverPlan {
    std::string contact_file;
    uint32_t rounds = 10;
    uint32_t at_once = 1;                     ///< servers of a round
    uint32_t servers = 2;                     ///< that join, of which some fail in each round
    uint32_t shards = 1;                      ///< of each
    std::vector<std::string> variables = {};  ///< of their environment
    double pause_seconds = 1;                 ///< at most, before the next one
    uint64_t seed = 1;
    FailoverFault fault = FailoverFault::kKill;
    std::vector<std::string> within = {};  ///< commands that run the servers; empty: none
    std::string cut = {};  ///< command that cuts the server of `within[i]` off: "COMMAND cut i"
    uint32_t heal_ms = 0;  ///< a cut heals within that, at random; 0: when the job goes on
    int cpu = -1;          ///< for the servers; -1: any
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

    /// Of the servers that were cut off: those that are still members.
    [[nodiscard]] uint32_t kept() const noexcept { return kept_; }

    /// Kills each server that joined once more, and waits for copies in between: then all parameters
    /// that they held come from what were copies.
    [[nodiscard]] Status kill_the_rest();

private:
    struct Server {
        ChildProcess process;
        size_t place = 0;  ///< in FailoverPlan::within
    };

    [[nodiscard]] Status run();
    [[nodiscard]] Status round();
    void take_victims();
    /// Behind it, the victims serve nobody.
    [[nodiscard]] Status fail();
    [[nodiscard]] Status mend();
    [[nodiscard]] Status start_server();
    [[nodiscard]] Status until_all_have_copies();
    [[nodiscard]] Status until_recovered();
    [[nodiscard]] Status until_ended(Server& server);
    [[nodiscard]] Status until_ended_or_back(Server& server);
    [[nodiscard]] Status ended_as_it_should(int status) const;
    template <class Holds>
    [[nodiscard]] Status until(const char* what, Holds&& holds);

    FailoverPlan plan_;
    Config config_;
    SteadyClock clock_;
    Random random_;
    OperatorConnection connection_;
    std::vector<Server> servers_;
    /// Of the round. Where it fails they live on: one that has become the last copy of something would
    /// end the load with another error.
    std::vector<Server> victims_;
    size_t servers_of_start_ = 0;
    std::vector<double> times_ms_;
    uint32_t kept_ = 0;
    Status outcome_;
    std::atomic<uint64_t> failed_ns_{0};
    std::atomic<uint64_t> recovered_ns_{0};
    std::atomic<bool> is_over_{false};  ///< release: everything above is read after it
    std::atomic<bool> is_cancelled_{false};
    std::jthread thread_;  // last, because it uses everything above
};

}  // namespace weir::bench
