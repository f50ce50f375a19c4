// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ElasticMoves: makes servers join a running job and leave it, as a person with `weir server` and
/// `weir leave` would, and kills some if there are copies of what they hold.

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/jobs/child_process.h"
#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/result.h"
#include "lib/job/operator_connection.h"

namespace weir::bench {

/// What is going on with servers.
enum class ElasticPhase : uint8_t {
    kBefore,   ///< nothing: as many servers as at the start
    kStarts,   ///< a process of one more starts, or the process of one that has left ends
    kJoins,    ///< it gets its share of the parameters
    kBetween,  ///< nothing: with one more server
    kLeaves,   ///< the server that has been there longest hands over what it holds
    kLost,     ///< one that joined was killed; others take over, and copies are made again
};

struct ElasticPlan {
    std::string contact_file;
    uint32_t rounds = 10;
    uint32_t shards = 1;                      ///< of a server that joins
    std::vector<std::string> variables = {};  ///< of its environment
    double pause_seconds = 1;
    bool kills = false;  ///< another one joins in each round, and is killed; needs copies
    int cpu = -1;        ///< for the servers that join; -1: any
};

/// Works in a thread of its own. The destructor stops that, and kills the servers that still run.
///
/// Thread: phase() and is_over(): any; the others: the creator's
class ElasticMoves {
public:
    ElasticMoves(ElasticPlan plan, const Config& config);
    ElasticMoves(const ElasticMoves&) = delete;
    ElasticMoves& operator=(const ElasticMoves&) = delete;

    ~ElasticMoves() { is_cancelled_.store(true, std::memory_order_relaxed); }

    [[nodiscard]] ElasticPhase phase() const noexcept {
        return phase_.load(std::memory_order_relaxed);  // nothing else is read because of it
    }

    /// Whether all rounds have ended, or one has failed.
    [[nodiscard]] bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }

    // Once it is over:

    /// Errors: what a round has failed of, naming the round
    [[nodiscard]] const Status& outcome() const noexcept { return outcome_; }

    /// From the begin of the first move to the end of the last one, of each round.
    [[nodiscard]] const std::vector<double>& joins_seconds() const noexcept { return joins_; }

    [[nodiscard]] const std::vector<double>& leaves_seconds() const noexcept { return leaves_; }

    /// From the kill until all parameters have their copies again.
    [[nodiscard]] const std::vector<double>& losses_seconds() const noexcept { return losses_; }

    /// Waits for the servers that joined; call it when the job is over.
    /// Errors: kIo: one of them has failed
    [[nodiscard]] Status wait_for_servers();

private:
    [[nodiscard]] Status run();
    [[nodiscard]] Status round();
    [[nodiscard]] Status join();
    [[nodiscard]] Status leave();
    [[nodiscard]] Status lose();
    /// Asks for the job's status until `holds` says that it is reached.
    template <class Holds>
    [[nodiscard]] Status until(Holds&& holds);
    [[nodiscard]] Status look_at_servers();

    void enter(ElasticPhase phase) { phase_.store(phase, std::memory_order_relaxed); }

    ElasticPlan plan_;
    Config config_;
    SteadyClock clock_;
    OperatorConnection connection_;
    std::vector<ChildProcess> running_;
    std::vector<double> joins_;
    std::vector<double> leaves_;
    std::vector<double> losses_;
    Status outcome_;
    std::atomic<ElasticPhase> phase_{ElasticPhase::kBefore};
    std::atomic<bool> is_over_{false};  ///< release: everything above is read after it
    std::atomic<bool> is_cancelled_{false};
    std::jthread thread_;  // last, because it uses everything above
};

}  // namespace weir::bench
