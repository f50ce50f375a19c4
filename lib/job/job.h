// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Job: this process's part in a job. It finds the other ranks, takes its roles (server, worker
/// or both), runs its shards in threads, and gives each worker its Client.

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
    uint32_t servers = 1;  ///< servers, one on each of the first ranks; a single rank runs all
    uint32_t shards_per_server = 1;  ///< threads per server
    uint32_t workers = 1;            ///< clients per worker process
    bool colocate = false;  ///< every rank is a worker; the first `servers` are servers too
    /// Registers the user's own update rules; must do the same on every rank.
    std::function<void(RuleRegistry&)> add_rules{};
};

/// The size of the job, and this process's part of it.
struct JobShape {
    uint32_t rank = 0;  ///< of this process
    uint32_t size = 1;  ///< ranks in the job
    uint32_t server_count = 1;
    uint32_t worker_count = 1;   ///< in the whole job
    uint32_t first_worker = 0;   ///< number of this process's first worker
    uint32_t local_workers = 1;  ///< in this process
    bool is_server = true;
    std::string launcher;    ///< "PMIx", "PMI-1", "rendezvous" or "in-process"
    std::string transports;  ///< for example "shm", or "shm, verbs"
    /// CPUs that rank 0, the first server, may use; none if it runs on another host.
    std::vector<int> server_cpus;
};

/// The destructor ends this process's part. Clients, and what came from them (tables, buffers,
/// tasks, registrations), must be destroyed before.
///
/// Thread: its creator's, except for make_client()
class Job {
public:
    /// Joins the job, as `config` says (the launcher's variables and WEIR_*). Returns once this
    /// process's shards run; shards of other ranks may still be starting.
    /// Errors:  kInvalidArgument (more servers than ranks, a wrong option or variable), kDeadline
    ///          (a rank did not show up), kUnavailable (a transport cannot be used), kNoMemory
    [[nodiscard]] static Result<std::unique_ptr<Job>> start(const JobOptions& options,
                                                            const Config& config);
    /// The same, configured by the environment of the process.
    [[nodiscard]] static Result<std::unique_ptr<Job>> start(const JobOptions& options);
    ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    [[nodiscard]] const JobShape& shape() const noexcept;
    /// Makes the client of this process's i-th worker, 0 <= i < local_workers; call it once for
    /// each. Waits until the whole job has joined.
    ///
    /// Errors: kDeadline naming the rank that is missing, kPeerLost, kInvalidArgument
    /// Thread: any; the client belongs to the calling thread
    [[nodiscard]] Result<Client> make_client(uint32_t i);
    /// Runs `work(i)` for every worker of this process, each in its own thread, and waits for
    /// them.
    void run_workers(const std::function<void(uint32_t i)>& work);
    /// The same, with a client that is made here for each worker. Calls leave() with what `work`
    /// returned, so that the other workers learn why one of them gave up.
    /// Errors: the first error of this process's workers; kPeerLost only if they have no other
    ///         error
    [[nodiscard]] Status run_workers(const std::function<Status(Client& client)>& work);
    /// Waits until the job is over; for a server process.
    /// Errors: what ended the job early
    [[nodiscard]] Status serve();

private:
    class Part;
    explicit Job(std::unique_ptr<Part> part);
    std::unique_ptr<Part> part_;
};

}  // namespace weir
