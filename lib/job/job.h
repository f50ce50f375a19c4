// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Job: this process's part in a job. It finds the other ranks, takes its roles (server, worker
/// or both), runs its shards in threads, and gives each worker its Client.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/on_worker_loss.h"
#include "lib/worker/client.h"

namespace weir {

class Config;
class RuleRegistry;

/// JobOptions::resume. (A folder of this name is ./auto.)
inline constexpr std::string_view kResumeAuto = "auto";

/// What a job is to be. A WEIR_ variable that is set counts more than what the program says here, so
/// one program runs in any shape: the comment names it. A program with a flag of its own for one gives
/// that to Config::set_flag(), which counts more than the variable. All ranks must say the same.
struct JobOptions {
    /// Servers, one on each of the first ranks; a single rank runs all. WEIR_SERVERS
    uint32_t servers = 1;
    uint32_t shards_per_server = 1;  ///< threads per server. WEIR_SHARDS
    uint32_t workers = 1;            ///< clients per worker process. WEIR_WORKERS
    /// Every rank is a worker; the first `servers` are servers too. WEIR_COLOCATE
    bool colocate = false;
    /// Registers the user's own update rules; must do the same on every rank.
    std::function<void(RuleRegistry&)> add_rules{};
    /// Files with update rules (weir_plugin.h) that this process loads, and whose code it runs: at most 16.
    /// Processes with servers must have the same files; others need none. WEIR_PLUGINS
    std::vector<std::string> plugins{};
    OnWorkerLoss on_worker_loss = OnWorkerLoss::kStop;  ///< WEIR_ON_WORKER_LOSS
    /// With OnWorkerLoss::kReassign: the part of the work that a worker has is given to the others once
    /// its process has shown no sign of life for so long, and a quarter more, because it is stopped or
    /// its host hangs. Such a worker is lost. 5 s to a day; 0: it is waited for without end. Signs of
    /// life come from a thread of Weir's own: the worker may compute for as long as it likes.
    /// WEIR_WORK_LEASE_S
    std::chrono::nanoseconds work_lease = std::chrono::seconds(30);
    /// Copies of every part of the parameters on other servers, on other hosts first: 0 to 2. With 1,
    /// no acknowledged push is lost when a server dies, and nobody sees an error; with 2, when two
    /// die at the same time. With 0, the death of a server ends the job. WEIR_REPLICAS
    uint32_t replicas = 0;
    /// Managers: 1, or 3, 5 or 7, of which most must live. With 1, it is in rank 0, and the job ends with that. Several
    /// are each in the process of a server, on different hosts as far as the servers are: with 3, any one of them may
    /// die, with its server if that has copies; and any host, if the servers are on 3 hosts at least. WEIR_MANAGERS
    uint32_t managers = 1;
    /// A file for Job::join() and for the commands `weir status`, `weir leave` and
    /// `weir server --join`: this process writes it at the start, for its user only, and removes
    /// it at the end. Empty: none. (A job whose ranks met at a rendezvous is found there, too.)
    /// WEIR_CONTACT_FILE
    std::string contact_file{};
    /// Asked on rank 0, or where the manager is that leads, in its thread: whether the whole job is being stopped, because
    /// this process was told to end. Then servers that leave() stay until the workers have ended:
    /// a launcher that stops a job signals all its ranks. Not asked any more once this process's server
    /// may leave(), or a worker of it has given its work back: so only this process is to end. Empty: never.
    std::function<bool()> is_being_stopped{};
    /// A folder that is there, and that all servers see: the job writes checkpoints to it, when
    /// Client::checkpoint() or wants_checkpoint asks for one, and as often as the next two say. The
    /// newest three are kept. Empty: none. WEIR_CHECKPOINT_DIR
    std::string checkpoint_folder{};
    std::chrono::nanoseconds checkpoint_every{};  ///< 0: not by time. WEIR_CHECKPOINT_EVERY_S
    /// When any table (but for those outside checkpoints) has closed so many iterations since the last one,
    /// or up to a sixteenth more; 0: not by their number.
    uint64_t checkpoint_every_iterations = 0;
    /// Asked where managers are, in their threads (rank 0; of several, where each of them is): true once for each
    /// checkpoint that is asked for. Empty: never.
    std::function<bool()> wants_checkpoint{};
    /// The job goes on from the newest checkpoint in this folder: its tables are there under their
    /// names, with values, rule state and iterations, whatever the numbers of servers, shards and
    /// workers were. If that one is damaged, or files of it are missing, the job does not start, and the
    /// error names the newest one that is whole. kResumeAuto: from the newest whole one in
    /// checkpoint_folder, with a warning for each newer one; from nothing if it has no checkpoint.
    /// Empty: from nothing. Rank 0 chooses, and the other ranks go on from the same one. WEIR_RESUME
    std::string resume{};
    /// Which checkpoint of the folder `resume`, by its number; 0: the newest. Not with kResumeAuto.
    uint64_t resume_number = 0;
};

/// How a process joins a running job: as a server, with workers, or both.
struct JoinOptions {
    /// How to reach the job: HOST:PORT of its rendezvous (with the WEIR_SECRET_FILE of the job, if
    /// it has one), or a contact file that one of its processes has written (./HOST:PORT if it has
    /// such a name).
    std::string contact;
    uint32_t shards = 0;         ///< threads of its server; 0: it has none
    uint32_t workers = 0;        ///< clients
    uint32_t weight = 1;         ///< of its server: its share in relation to other servers'
    bool has_iterations = true;  ///< its workers take part in iterations
    std::function<void(RuleRegistry&)> add_rules{};  ///< as in JobOptions
    std::vector<std::string> plugins{};              ///< the same
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
    bool has_manager = false;  ///< this process has the manager, or one of several
    std::string launcher;      ///< "PMIx", "PMI-1", "rendezvous" or "in-process"
    std::string transports;    ///< for example "shm", or "shm, verbs, tcp"
    /// CPUs that rank 0, the first server, may use; none if it runs on another host.
    std::vector<int> server_cpus;
};

/// The destructor ends this process's part. Clients, and what came from them (tables, buffers,
/// tasks, registrations), must be destroyed before.
///
/// Thread: its creator's, except where another one is named
class Job {
public:
    /// Joins the job, as `config` says (the launcher's variables and WEIR_*). Returns once this
    /// process's shards run; shards of other ranks may still be starting.
    /// Errors:  kInvalidArgument (more servers than ranks, a wrong option or variable), kDeadline
    ///          (a rank did not show up), kUnavailable (a transport cannot be used; a checkpoint of a
    ///          newer version), kNoMemory; kNotFound, kParse for the checkpoint to go on from
    [[nodiscard]] static Result<std::unique_ptr<Job>> start(const JobOptions& options,
                                                            const Config& config);
    /// The same, configured by the environment of the process (Config::of_process()).
    [[nodiscard]] static Result<std::unique_ptr<Job>> start(const JobOptions& options);

    /// Joins a running job. Returns once this process's shards run; serve() and make_client() say
    /// whether the job takes them. Its shape has rank 0 and knows nothing of other processes.
    ///
    /// Errors:  those of start(); kNotFound, kRefused, kParse naming the contact file;
    ///          kUnavailable if nobody listens at HOST:PORT, kRefused (another secret, a job that
    ///          has not begun), kProtocol (another version, or no job)
    [[nodiscard]] static Result<std::unique_ptr<Job>> join(const JoinOptions& options,
                                                           const Config& config);
    [[nodiscard]] static Result<std::unique_ptr<Job>> join(const JoinOptions& options);
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
    /// Once. Runs `work` for every worker of this process, each in its own thread with a client that is made
    /// here, and waits for them. Calls leave() with what `work` returned, so that the other workers
    /// learn why one of them gave up; if `work` has called that itself, that counts.
    /// Errors: the first error of this process's workers; kPeerLost only if they have no other
    ///         error. kException if `work` threw one, kNoMemory if that was std::bad_alloc
    [[nodiscard]] Status run_workers(const std::function<Status(Client& client)>& work);
    /// Waits until the job is over; for a server process. One that has joined ends with the first error of
    /// any of its shards.
    /// Errors: what ended the job early
    [[nodiscard]] Status serve();

    /// The same; looks at `wants_to_leave` several times a second. Once that is true, calls
    /// leave(), and goes on until the server has handed over all. If it cannot leave, the reason
    /// is logged, and it serves on until the job is over, or, if other servers are missing, asks again
    /// every second.
    ///
    /// Looks at `must_end`, which may be empty, as often. Once that is true, it returns, whatever is under
    /// way, and the process is to end: what its server holds is lost if nobody has a copy. If that holds
    /// nothing any more, and only a manager is in this process, there is no error.
    /// Errors: as well kDeadline: what was not handed over, and why not
    [[nodiscard]] Status serve(const std::function<bool()>& wants_to_leave,
                               const std::function<bool()>& must_end = {});

    /// Makes this process's server hand over all that it holds, while the job goes on; serve()
    /// returns when it has. Does not wait for that. Of several managers, another one leads first, if the one
    /// of this process does.
    ///
    /// Errors: kUnavailable if no other server would be left, or, while JobOptions::is_being_stopped, if the
    ///         manager of this process leads and no other one can; kCancelled if the whole job is being
    ///         stopped (JobOptions::is_being_stopped where the manager is that leads); kInvalidArgument if
    ///         this process does not have one server; kDeadline, kPeerLost
    [[nodiscard]] Status leave();

    /// Client::give_back_work(), for a worker of this process that leaves. Of several managers, another one
    /// leads first, if the one of this process does.
    ///
    /// Errors: as well kUnavailable, while JobOptions::is_being_stopped, if the manager of this process leads
    ///         and no other one can, and kDeadline, if it does not answer: nothing was given back
    /// Thread: the client's
    [[nodiscard]] Status give_back_work(Client& client);

    /// Whether the manager of this process leads, of several. What it says of JobOptions::is_being_stopped
    /// is then what this process was told. Thread: any
    [[nodiscard]] bool leads() const;

private:
    class Part;
    explicit Job(std::unique_ptr<Part> part);
    std::unique_ptr<Part> part_;
};

/// This process's whole part in a job: starts it, runs `train` for each of its workers, each in a
/// thread of its own, and serves until the job is over. A process without workers only serves, and one
/// without servers only works. A program calls it in main() of every rank.
///
/// Errors: the first one of Job::start(), Job::run_workers() and Job::serve()
[[nodiscard]] Status run(const JobOptions& options,
                         const std::function<Status(Client& client)>& train);
[[nodiscard]] Status run(const JobOptions& options, const Config& config,
                         const std::function<Status(Client& client)>& train);

}  // namespace weir
