// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Job: this process's part in a job. It finds the other ranks, takes its roles (servers first,
/// then workers), runs its shards in threads, and gives each worker its Client.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/worker/client.h"

namespace weir {

class Config;
class RuleRegistry;

struct JobOptions {
    uint32_t servers = 1;  ///< server processes: the first ranks; all here if there is one rank
    uint32_t shards_per_server = 1;  ///< threads per server
    uint32_t workers = 1;            ///< clients per worker process
    bool colocate = false;  ///< every rank is a worker, the first `servers` are servers too
    /// Adds update rules of the user's own; the same on every rank.
    std::function<void(RuleRegistry&)> add_rules{};
};

/// What the job looks like.
struct JobShape {
    uint32_t rank = 0;
    uint32_t size = 1;
    uint32_t server_count = 1;
    uint32_t worker_count = 1;   ///< in the whole job
    uint32_t first_worker = 0;   ///< of this process
    uint32_t local_workers = 1;  ///< in this process
    bool is_server = true;
    std::string launcher;    ///< "PMIx", "PMI-1", "rendezvous", "in-process"
    std::string transports;  ///< "shm", "shm, verbs"
    /// CPUs that rank 0, the first server, may use; none if it runs on another host.
    std::vector<int> server_cpus;
};

/// Thread: its creator's. Destroying it ends this process's part; clients, and what came from them
/// (tables, buffers, tasks, registrations), must be gone before.
class Job {
public:
    /// Joins. Returns once this process's shards run; the other ranks may still be on their way.
    /// Errors:  kInvalidArgument (more servers than ranks), kDeadline (a rank did not show up),
    ///          kUnavailable (no transport reaches the others), kNoMemory
    /// Source:  launcher variables and WEIR_* of `config`
    [[nodiscard]] static Result<std::unique_ptr<Job>> start(const JobOptions& options,
                                                            const Config& config);
    /// The same with the process's environment.
    [[nodiscard]] static Result<std::unique_ptr<Job>> start(const JobOptions& options);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    [[nodiscard]] const JobShape& shape() const noexcept;
    /// The client of this process's i-th worker, 0 <= i < local_workers; once each. Waits until the
    /// whole job is there. Thread: any; the client then belongs to the caller's.
    /// Errors: kDeadline naming the rank that is missing, kPeerLost
    [[nodiscard]] Result<Client> make_client(uint32_t i);
    /// Runs `work(i)` for every worker of this process, each in a thread of its own, and waits.
    void run_workers(const std::function<void(uint32_t i)>& work);
    /// The same with each worker's client, made here. It leaves for the worker, with what `work`
    /// returned: so the other workers hear why one of them gave up.
    /// Errors: of the workers of this process; of several, one that is not a lost peer if there is
    [[nodiscard]] Status run_workers(const std::function<Status(Client& client)>& work);
    /// A server process: waits until the job is over.
    /// Errors: what ended the job before its time
    [[nodiscard]] Status serve();

private:
    class Part;
    explicit Job(std::unique_ptr<Part> part);
    std::unique_ptr<Part> part_;
};

}  // namespace weir
