// SPDX-License-Identifier: Apache-2.0
/// \file
/// What `weir help SUBJECT` says: the pages of tools/weir in short.
#include "lib/base/config.h"
#include "tools/weir/help/help.h"

namespace weir::tools {
namespace {

constexpr std::string_view kLaunchers =
    "The first --servers ranks serve, the others work; with --colocate all work. Only the "
    "launcher\n"
    "changes:\n"
    "\n"
    "  weir run -n 4 -- weir lr --servers 2 --train data.svm       one host, no launcher\n"
    "  mpirun -n 4 weir lr --servers 2 --train data.svm            Open MPI: PMIx\n"
    "  srun --mpi=pmix -n 4 weir lr --servers 2 --train data.svm   Slurm: PMIx; pmi2 works, too\n"
    "  mpiexec.hydra -n 4 weir lr --servers 2 --train data.svm     MPICH: PMI-1\n"
    "\n"
    "By hand, on any hosts, each rank gets\n"
    "\n"
    "  WEIR_RENDEZVOUS=HOST:PORT WEIR_SIZE=N WEIR_RANK=0 (to N-1)\n"
    "\n"
    "or --rendezvous, --size, --rank, and the same WEIR_SECRET_FILE:\n"
    "\n"
    "  umask 077; head -c 32 /dev/urandom | base64 > job.secret\n"
    "\n"
    "Launchers end all ranks when one is killed. Where a job is to survive that: srun --no-kill\n"
    "--kill-on-bad-exit=0, mpirun --enable-recovery, weir run --keep-going.\n"
    "`weir doctor` says what would stop a job on this host.\n";

constexpr std::string_view kMemory =
    "A process with shards has a pool of registered memory for its tables, one with workers a "
    "pool\n"
    "for what they push and pull. A pool begins with a region of WEIR_POOL_MIB (1 GiB, or what "
    "the\n"
    "machine or its limits allow), and adds others as it fills. A region takes memory as it is "
    "used;\n"
    "all at once where an RDMA device locks it, where it consists of huge pages, or with\n"
    "WEIR_PREFAULT=yes.\n"
    "\n"
    "Where RDMA devices lock the pools, 8 ranks of 1 GiB need 8 GiB of locked memory on a host: "
    "set\n"
    "a smaller WEIR_POOL_MIB, or start fewer ranks with more --workers. `weir info` shows the "
    "limits,\n"
    "`weir status JOB` what each server holds. --replicas 1 takes twice the memory.\n";

constexpr std::string_view kTransports =
    "Ranks of one host communicate over shared memory (shm), ranks of different hosts over RDMA "
    "verbs\n"
    "if both have a device, else over TCP. A way that fails to connect is followed by the next.\n"
    "\n"
    "  WEIR_TRANSPORT         shm, verbs or tcp alone\n"
    "  WEIR_BIND              the network by which hosts reach each other: 10.1.0.0/16, eth0\n"
    "  WEIR_PORT              fixed ports, for a firewall\n"
    "  WEIR_RDMA_DEVICE       another RDMA device than the first with an active port\n"
    "  WEIR_RDMA_GID_INDEX    another GID than the RoCE v2 one of an IPv4 address\n"
    "\n"
    "`weir info` shows what this host has, `weir doctor` what is wrong with it.\n";

constexpr std::string_view kJobs =
    "Commands find a running job (JOB) at HOST:PORT of its --rendezvous, with the WEIR_SECRET_FILE "
    "of\n"
    "its ranks, or by the file that --contact FILE made it write, which has the secret.\n"
    "\n"
    "  weir status JOB [--watch]       what it looks like\n"
    "  weir get JOB TABLE KEY...       values of some keys\n"
    "  weir checkpoint now JOB         it writes one\n"
    "  weir server --join JOB          one more server\n"
    "  weir leave JOB --server N       a server hands over what it holds, and ends\n"
    "  weir lr --join JOB              more workers of a `weir lr --on-worker-loss reassign`\n"
    "  weir stop JOB                   it ends in order\n"
    "\n"
    "They connect to the manager as the ranks do: over shared memory they must run on its host and "
    "as\n"
    "its user.\n";

constexpr std::string_view kFailures =
    "  flags                      may die\n"
    "  none                       nothing: the job ends, and says which keys are lost\n"
    "  --replicas 1               any one server but that of rank 0; then, when its copies are "
    "made\n"
    "                             again, the next one\n"
    "  --replicas 2               any two of these servers at the same time\n"
    "  --replicas 1 --managers 3  any one server, rank 0 included; any host of three\n"
    "  --on-worker-loss reassign  any worker of `weir lr`: the others do its work\n"
    "  --checkpoint DIR           all of it: --resume DIR goes on from the newest checkpoint\n"
    "\n"
    "A server that is silent for 1.25 times WEIR_LEASE_MS counts as lost. Calls end after\n"
    "WEIR_DEADLINE_MS with an error that names who did not answer. Those that wait for other "
    "workers'\n"
    "computing (iterations, barriers) wait for as long as these compute, and end when one of them "
    "dies\n"
    "or a server is silent for WEIR_DEADLINE_MS.\n";

constexpr std::string_view kCheckpoints =
    "--checkpoint DIR gives a job a folder that all servers see. One is written\n"
    "\n"
    "  --checkpoint-every 10m          by time (30s, 10m, 2h), or every N iterations\n"
    "  weir checkpoint now JOB         at once; also at SIGUSR1 to rank 0\n"
    "  at SIGTERM, and `weir stop`     then, and of where the training ended\n"
    "\n"
    "The newest three are kept. --resume DIR goes on from the newest one, with any numbers of "
    "servers,\n"
    "shards and workers; --resume auto from the newest whole one of --checkpoint, if there is "
    "any.\n"
    "`weir checkpoint list DIR` and its like look at them.\n";

constexpr std::string_view kPlugins =
    "A plugin is a shared object with update rules, written in C (weir_plugin.h). Servers run its\n"
    "code: give them only files that you trust. All servers must have the same ones, byte for\n"
    "byte; workers need none.\n"
    "\n"
    "  weir run --plugin FILE -n 4 -- trainer   all ranks; the same as WEIR_PLUGINS=FILE\n"
    "  weir server --join JOB --plugin FILE     one more server\n"
    "  weir info --plugin FILE                  what is in it, or why it cannot be loaded\n"
    "\n"
    "--plugin may be given several times; WEIR_PLUGINS has colons between the files. Nothing of\n"
    "a plugin travels: each host has its own copy of the file, in any folder.\n";

constexpr std::string_view kSignals =
    "  SIGTERM to all ranks     the training ends after this pass, the results are written; 143\n"
    "  SIGINT to all ranks      the same; 130. Twice: at once\n"
    "  SIGTERM to one server    it hands over what it holds, and ends with 0\n"
    "  SIGTERM to one worker    with --on-worker-loss reassign it leaves; else as to all ranks\n"
    "  SIGUSR1 to rank 0        a checkpoint is written\n"
    "\n"
    "--grace seconds after SIGTERM a process ends, whatever is under way.\n";

}  // namespace

const std::vector<Subject>& subjects() {
    static const std::vector<Subject> kSubjects{
        {"launchers", "how the ranks of a job are started", kLaunchers},
        {"jobs", "commands for a running job, and how they find it", kJobs},
        {"failures", "what may die, and what that costs", kFailures},
        {"checkpoints", "going on after a job has ended", kCheckpoints},
        {"signals", "what SIGTERM, SIGINT and SIGUSR1 do", kSignals},
        {"memory", "pools, limits, huge pages", kMemory},
        {"transports", "shared memory, RDMA, TCP, and addresses", kTransports},
        {"plugins", "update rules in files that servers load", kPlugins},
        {"variables", "every WEIR_ variable", ""},
    };
    return kSubjects;
}

}  // namespace weir::tools
