// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CheckpointHistory: one random history of jobs that write checkpoints and go on from them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "tests/cluster/checkpoint_folder.h"
#include "tests/cluster/pushing_job.h"
#include "tests/histories/machinery/checkpoint_troubles.h"
#include "tests/histories/machinery/history_log.h"

namespace weir::test {

/// One history by its seed: jobs that push, write checkpoints and end at any instant, one after the
/// other, each from the last checkpoint of the one before.
///
/// Thread: one
class CheckpointHistory {
public:
    explicit CheckpointHistory(uint64_t seed, Troubles troubles = {})
        : random_(seed),
          troubles_(troubles),
          layout_(random_.below(2) == 0 ? Layout::kDense : Layout::kSparse),
          max_delay_(static_cast<uint32_t>(random_.below(4))) {}

    /// Chunks of earlier checkpoints that checkpoints have named.
    [[nodiscard]] uint64_t named_again() const { return named_again_; }

    /// Changes of rows that end with which jobs went on.
    [[nodiscard]] uint64_t changes_of_endings() const { return changes_of_endings_; }

    /// Checkpoints that the disk has made fail.
    [[nodiscard]] uint64_t failed_count() const { return failed_count_; }

    /// What happened to its processes while checkpoints were written.
    [[nodiscard]] const HistoryCounts& counts() const { return counts_; }

    /// Checkpoints that were given up because another manager led, though they may have been written.
    [[nodiscard]] uint64_t given_up_count() const { return given_up_count_; }

    void run();

private:
    /// What a checkpoint has at least, and at most.
    struct Bounds {
        LogCounts logged;   ///< acknowledged before it was asked for
        LogCounts started;  ///< when it had ended
        std::vector<uint64_t> endings_changed =
            std::vector<uint64_t>(kWorkersMax);  ///< as `logged`
        std::vector<uint64_t> endings_started = std::vector<uint64_t>(kWorkersMax);
        uint64_t closed = 0;  ///< the last iteration that all workers had acknowledged
        uint64_t begun = 0;
    };

    [[nodiscard]] SimShape make_shape();
    void run_job(PushingJob& job, CheckpointTroubles& happening);
    void end_amid_checkpoint(PushingJob& job, CheckpointTroubles& happening);
    [[nodiscard]] bool write_checkpoint(PushingJob& job, CheckpointTroubles& happening);
    [[nodiscard]] Bounds bounds_now(PushingJob& job) const;
    void fail_disk();
    void check_failure(const Error& why, uint64_t before);
    static void note_started(PushingJob& job, Bounds& bounds);
    [[nodiscard]] uint64_t newest() const;
    void note(PushingJob& job, const checkpoint::Manifest& manifest);
    void check_iterations(const checkpoint::Manifest& manifest, uint32_t table,
                          uint64_t closed) const;
    void check_times(PushingJob& job, const checkpoint::Manifest& manifest, size_t log) const;
    void check(PushingJob& job);
    void check_log(PushingJob& job, size_t log, uint32_t worker);
    void check_endings(PushingJob& job, uint32_t worker);

    Random random_;
    Troubles troubles_;
    Layout layout_;
    uint32_t max_delay_;
    CheckpointFolder folder_;
    HistoryCounts counts_;
    uint64_t disk_steps_ = 20;  ///< of the last checkpoint
    Bounds bounds_;
    LogCounts log_counts_ = {std::vector<uint64_t>(kWorkersMax),
                             std::vector<uint64_t>(kWorkersMax)};  ///< at the job's start
    std::vector<uint64_t> ending_counts_ = std::vector<uint64_t>(kWorkersMax);  ///< the same
    uint64_t changes_of_endings_ = 0;
    uint64_t named_again_ = 0;
    uint64_t failed_count_ = 0;
    uint64_t given_up_count_ = 0;
    uint64_t closed_ = 0;  ///< of the last checkpoint
    std::vector<uint64_t> sums_ = std::vector<uint64_t>(kRoundKeys);
    uint64_t closed_at_start_ = 0;  ///< of the job
    std::vector<uint64_t> sums_at_start_ = std::vector<uint64_t>(kRoundKeys);
};

}  // namespace weir::test
