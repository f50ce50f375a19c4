// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// JobStatus: what a running job looks like, for people and their programs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/wire/filter_traffic.h"
#include "lib/wire/on_worker_loss.h"

namespace weir {

/// How far a server is with the segments that it learns. A segment has come when its learner has all of it: no part of one counts.
struct LearningProgress {
    uint32_t copies = 0;   ///< segments that are yet to come, and of which it is to be a backup
    uint32_t moves = 0;    ///< those of which it is to be primary
    uint32_t sources = 0;  ///< shards from which all these come
    uint32_t waiting = 0;  ///< have come, and wait until a view makes it their primary or backup
    uint32_t taken = 0;    ///< have come in this round, and a view did so
    uint64_t since = 0;    ///< the view with which the round began

    [[nodiscard]] uint64_t to_come() const noexcept { return uint64_t{copies} + moves; }

    [[nodiscard]] uint64_t come() const noexcept { return uint64_t{waiting} + taken; }

    /// The server learns in view `epoch`, and the numbers fit each other.
    [[nodiscard]] bool is_sound(uint64_t epoch) const noexcept;

    friend bool operator==(const LearningProgress&, const LearningProgress&) = default;
};

struct JobStatus {
    static constexpr uint64_t kUnknown = ~uint64_t{0};

    struct Shard {
        uint32_t number = 0;
        uint32_t segments = 0;  ///< that it is primary of
        uint32_t backups = 0;   ///< segments that it has a copy of
        double share = 0;       ///< of the ring
        bool answered = false;  ///< the following are known
        uint64_t keys = 0;
        uint64_t bytes = 0;  ///< of tables
        uint64_t pushes = 0;
        uint64_t pulls = 0;
        friend bool operator==(const Shard&, const Shard&) = default;
    };

    struct Server {
        uint32_t number = 0;
        uint32_t rank = 0;
        uint32_t weight = 1;
        bool is_leaving = false;
        uint64_t silent_ms = 0;        ///< nothing was heard of it for so long; 0: it is in reach
        uint64_t heard_ms = kUnknown;  ///< since it was heard of last, when it asked for its lease
        uint64_t lease_left_ms =
            0;  ///< for which it may answer, as the manager counts; 0: it has no lease
        std::vector<Shard> shards = {};
        std::string host = {};  ///< its name
        uint64_t joiner = 0;    ///< of one that has joined: its own number (JoinMessage::joiner)
        std::optional<LearningProgress> learning = {};  ///< nothing: it learns no segments
        friend bool operator==(const Server&, const Server&) = default;
    };

    struct Worker {
        uint32_t number = 0;
        uint32_t rank = 0;
        bool has_work = false;              ///< a share of it, in the round that goes on
        std::vector<uint32_t> pieces = {};  ///< that share, ascending
        uint64_t heard_ms = kUnknown;       ///< since its process was heard of last
        /// After which it counts as lost, if its process is not heard of; kUnknown: it has no lease.
        uint64_t lease_left_ms = kUnknown;
        /// Rows that its filters hold back; kUnknown: it computes, and has not answered, or
        /// was not asked, because nothing goes through filters that hold back.
        uint64_t rows_held = kUnknown;
        friend bool operator==(const Worker&, const Worker&) = default;
    };

    /// What Client::take_work() gives out.
    struct Work {
        OnWorkerLoss on_worker_loss = OnWorkerLoss::kStop;  ///< of the job
        uint64_t round = 0;            ///< the last one; 0: it has not been given out
        uint32_t piece_count = 0;      ///< of the whole work; 0: nobody has asked yet
        std::string description = {};  ///< for those that want to join
        friend bool operator==(const Work&, const Work&) = default;
    };

    /// A server that died, or was of no use.
    struct DeadServer {
        uint32_t number = 0;
        uint32_t rank = 0;
        bool held_parameters = false;  ///< parameters are lost with it
        friend bool operator==(const DeadServer&, const DeadServer&) = default;
    };

    /// An iteration that has begun at some shard and is not closed there.
    struct OpenIteration {
        std::string table = {};
        uint64_t iteration = 0;
        uint32_t late_count = 0;          ///< workers of which parts are missing, at least
        std::vector<uint32_t> late = {};  ///< some of them
        friend bool operator==(const OpenIteration&, const OpenIteration&) = default;
    };

    /// What the job writes to disk.
    struct Checkpoints {
        bool is_on = false;             ///< it has a folder for them
        bool is_under_way = false;      ///< one is being written
        uint64_t last_number = 0;       ///< the last one that was completed; 0: none
        uint64_t last_age_ms = 0;       ///< since that was begun
        uint64_t last_duration_ms = 0;  ///< from its begin to its end
        uint64_t resumed_from = 0;      ///< the one from which the job goes on; 0: none
        std::string last_failure = {};  ///< of the one after the last one; empty: it did not fail
        /// One is due for so long, and waits until copies are made and segments have moved; 0: none does.
        uint64_t rest_wait_ms = 0;
        friend bool operator==(const Checkpoints&, const Checkpoints&) = default;
    };

    /// Who decides.
    struct Managers {
        uint32_t count = 1;      ///< that the job has begun with
        uint32_t rank = 0;       ///< of the one that leads
        uint32_t heard = 1;      ///< that were heard of within a second, with that one
        uint64_t term = 0;       ///< of several, in which it does
        uint64_t log_bytes = 0;  ///< of several, what they have agreed on
        friend bool operator==(const Managers&, const Managers&) = default;
    };

    static constexpr size_t kFailureBytesMax = 600;

    uint64_t epoch = 0;
    Managers managers = {};
    Checkpoints checkpoints = {};
    std::vector<Server> servers = {};
    std::vector<Worker> workers = {};
    Work work = {};
    uint32_t joining_servers = 0;
    uint32_t joining_workers = 0;
    uint32_t tables = 0;
    uint64_t segments_to_move = 0;   ///< moves that are under way
    uint64_t segments_complete = 0;  ///< of those, are copied, and wait for others of their server
    uint64_t segments_moved = 0;     ///< and what was moved since the ring was last at rest
    double share_to_move = 0;
    double share_complete = 0;
    double share_moved = 0;
    double share_lost = 0;  ///< of the ring. More than 0: calls fail, and the job is to end
    std::vector<DeadServer> dead = {};
    uint32_t replicas = 0;              ///< copies that each segment is to have on other servers
    uint64_t segments = 0;              ///< of the ring
    uint64_t segments_to_copy = 0;      ///< those that have fewer
    uint64_t segments_copying = 0;      ///< and those of them whose copy is being made
    uint64_t copies_made = 0;           ///< since the ring was last at rest
    uint64_t lease_ms = 0;              ///< WEIR_LEASE_MS of the manager
    std::vector<uint32_t> losers = {};  ///< shards that have yet to hand over what they lose
    std::vector<OpenIteration> open = {};
    FilterTraffic filters = {};  ///< as all shards that have answered have counted

    [[nodiscard]] std::vector<std::byte> encode() const;
    [[nodiscard]] static std::optional<JobStatus> decode(std::span<const std::byte> body);
    friend bool operator==(const JobStatus&, const JobStatus&) = default;
};

}  // namespace weir
