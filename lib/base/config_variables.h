// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The table of the WEIR_* variables: name, default and meaning. tools/weir/variables.md is made from
/// it.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

enum class VariableKind : uint8_t { kText, kNumber, kChoice };

struct ConfigVariable {
    std::string_view name;
    VariableKind kind = VariableKind::kText;
    std::string_view default_value = {};  ///< empty: no default
    std::string_view unit = {};           ///< empty: a count or a text
    std::string_view choices = {};        ///< kChoice: the allowed words, "a|b|c"
    uint64_t least = 0;                   ///< kNumber
    uint64_t most = 0;                    ///< kNumber
    /// Its name in the version before, still read if the new one is not set; empty: it had none.
    std::string_view old_name = {};
    std::string_view meaning;
};

inline constexpr auto kConfigVariables = std::to_array<ConfigVariable>({
    {.name = "WEIR_TRANSPORT",
     .kind = VariableKind::kChoice,
     .default_value = "auto",
     .choices = "auto|shm|verbs|tcp",
     .meaning = "transport between ranks: shared memory, RDMA verbs, TCP, or for each pair of them "
                "the first of these that reaches the peer"},
    {.name = "WEIR_RENDEZVOUS",
     .meaning =
         "HOST:PORT of rank 0, where ranks started by hand find each other, and where others "
         "find the job while it runs: to join it, or to ask for its state"},
    {.name = "WEIR_RANK",
     .kind = VariableKind::kNumber,
     .most = 999'999,
     .meaning = "number of this process in a job started by hand, from 0"},
    {.name = "WEIR_SIZE",
     .kind = VariableKind::kNumber,
     .least = 1,
     .most = 1'000'000,
     .meaning = "number of processes of a job started by hand"},
    {.name = "WEIR_SERVERS",
     .kind = VariableKind::kNumber,
     .least = 1,
     .most = 4096,
     .meaning =
         "servers of the job, one on each of the first ranks (JobOptions::servers); as those "
         "below, the same on all ranks"},
    {.name = "WEIR_SHARDS",
     .kind = VariableKind::kNumber,
     .least = 1,
     .most = 4096,
     .meaning = "shards of each server, each a thread (JobOptions::shards_per_server)"},
    {.name = "WEIR_WORKERS",
     .kind = VariableKind::kNumber,
     .least = 1,
     .most = 4096,
     .meaning = "workers of each process that has some (JobOptions::workers)"},
    {.name = "WEIR_COLOCATE",
     .kind = VariableKind::kChoice,
     .choices = "no|yes",
     .meaning = "workers on every rank, also on those of servers (JobOptions::colocate)"},
    {.name = "WEIR_REPLICAS",
     .kind = VariableKind::kNumber,
     .most = 2,
     .meaning = "backups of everything on other servers (JobOptions::replicas)"},
    {.name = "WEIR_MANAGERS",
     .kind = VariableKind::kNumber,
     .least = 1,
     .most = 7,
     .meaning = "managers, 1, 3, 5 or 7, each in a server's process (JobOptions::managers)"},
    {.name = "WEIR_ON_WORKER_LOSS",
     .kind = VariableKind::kChoice,
     .choices = "stop|continue|reassign",
     .meaning = "what the others do when a worker dies (JobOptions::on_worker_loss)"},
    {.name = "WEIR_WORK_LEASE_S",
     .kind = VariableKind::kNumber,
     .unit = "s",
     .most = 86'400,
     .meaning =
         "with reassign: how long a worker may show no sign of life, 5 or more; 0: as long as "
         "it likes (JobOptions::work_lease)"},
    {.name = "WEIR_PLUGINS",
     .meaning =
         "files with update rules to load, with : between them (JobOptions::plugins); the same "
         "files for all processes with servers"},
    {.name = "WEIR_CONTACT_FILE",
     .meaning = "file to write for those who look after the job or join it "
                "(JobOptions::contact_file)"},
    {.name = "WEIR_CHECKPOINT_DIR",
     .meaning = "folder for checkpoints (JobOptions::checkpoint_folder)"},
    {.name = "WEIR_CHECKPOINT_EVERY_S",
     .kind = VariableKind::kNumber,
     .unit = "s",
     .most = 1'000'000'000,
     .meaning = "how often a checkpoint is written; 0: not by time (JobOptions::checkpoint_every)"},
    {.name = "WEIR_RESUME",
     .meaning =
         "folder with the checkpoint to go on from; auto: WEIR_CHECKPOINT_DIR, if it has one "
         "(JobOptions::resume)"},
    {.name = "WEIR_SECRET_FILE",
     .meaning =
         "file with the job's secret (mode 0600, same content on all ranks); without it rank "
         "0 makes a secret"},
    {.name = "WEIR_JOIN_TIMEOUT_S",
     .kind = VariableKind::kNumber,
     .default_value = "30",
     .unit = "s",
     .least = 1,
     .most = 86'400,
     .meaning = "how long to wait at the start for all ranks"},
    {.name = "WEIR_LEASE_MS",
     .kind = VariableKind::kNumber,
     .default_value = "1000",
     .unit = "ms",
     .least = 50,
     .most = 60'000,
     .meaning = "how long a process may be out of the manager's reach before it counts as lost; a "
                "server whose parameters have copies answers no longer than that without hearing "
                "from the manager, and is replaced after about 1.25 times that, or once it is "
                "known to be dead; counts where the manager is; of several managers, all must have "
                "the same"},
    {.name = "WEIR_DEADLINE_MS",
     .kind = VariableKind::kNumber,
     .default_value = "30000",
     .unit = "ms",
     .least = 1,
     .most = 86'400'000,
     .meaning = "how long a push, a pull or another request may take; calls that wait for other "
                "workers' computing (iterations, barriers) take longer, and end when a server "
                "gives no sign of life for so long"},
    {.name = "WEIR_POOL_MIB",
     .kind = VariableKind::kNumber,
     .default_value = "1024",
     .unit = "MiB",
     .least = 1,
     .most = 1ULL << 24,
     .meaning =
         "size of one region of registered memory, or less if there is no room for it: a pool "
         "starts with one and adds others as it fills; up to a quarter of the first is for "
         "remembered key lists"},
    {.name = "WEIR_PREFAULT",
     .kind = VariableKind::kChoice,
     .default_value = "no",
     .choices = "no|yes",
     .meaning = "take all memory of a pool's first region and touch every page when it is made: "
                "tables grow faster, jobs start later; where a device locks the pool, that does it "
                "anyway"},
    {.name = "WEIR_HUGE_PAGES",
     .kind = VariableKind::kChoice,
     .default_value = "auto",
     .choices = "auto|never|always",
     .meaning = "memory pools from huge pages: if some are free (auto), never, or always, which "
                "fails without"},
    {.name = "WEIR_RDMA_DEVICE",
     .old_name = "WEIR_DEVICE",
     .meaning = "name of the RDMA device, such as mlx5_0; default: the first with an active port"},
    {.name = "WEIR_RDMA_GID_INDEX",
     .kind = VariableKind::kNumber,
     .most = 65'535,
     .old_name = "WEIR_GID_INDEX",
     .meaning = "entry of the RDMA port's GID table; default: the RoCEv2 one of an IPv4 address"},
    {.name = "WEIR_RDMA_SERVICE_LEVEL",
     .kind = VariableKind::kNumber,
     .default_value = "0",
     .most = 15,
     .old_name = "WEIR_SERVICE_LEVEL",
     .meaning = "service level of the queue pairs; on Ethernet their priority, 0 to 7, which a "
                "lossless fabric maps to a class without drops"},
    {.name = "WEIR_RDMA_TRAFFIC_CLASS",
     .kind = VariableKind::kNumber,
     .default_value = "0",
     .most = 255,
     .old_name = "WEIR_TRAFFIC_CLASS",
     .meaning = "traffic class of the queue pairs; with RoCEv2 the TOS byte of their IP packets: "
                "4 x DSCP + ECN"},
    {.name = "WEIR_RDMA_PKEY_INDEX",
     .kind = VariableKind::kNumber,
     .default_value = "0",
     .most = 65'535,
     .old_name = "WEIR_PKEY_INDEX",
     .meaning = "entry of the RDMA port's table of partition keys; not together with "
                "WEIR_RDMA_CONNECT=rdmacm, which takes the partition from the network interface"},
    {.name = "WEIR_PORT",
     .kind = VariableKind::kNumber,
     .default_value = "0",
     .most = 65'535,
     .meaning =
         "TCP port of the first shard, client or manager of the process, for tcp and for the "
         "side channel of verbs; each further one takes the next port; where both are in "
         "use, tcp begins 1000 above; 0: any free ports"},
    {.name = "WEIR_BIND",
     .meaning = "where to listen and to be reached by other ranks: an address of this host, the "
                "name of an interface, or a network such as 10.1.0.0/16, which may be the same on "
                "all hosts; default: the address at which the ranks meet"},
    {.name = "WEIR_RDMA_CONNECT",
     .kind = VariableKind::kChoice,
     .default_value = "tcp",
     .choices = "tcp|rdmacm",
     .old_name = "WEIR_CONNECT",
     .meaning = "how queue pairs are connected: by the TCP side channel of Weir or by rdma_cm"},
    {.name = "WEIR_EAGER_BYTES",
     .kind = VariableKind::kNumber,
     .default_value = "4096",
     .unit = "bytes",
     .most = 1ULL << 20,
     .meaning =
         "pushed values up to this size travel inside the message; the server reads larger ones "
         "(over shm from 256 bytes on, where it can read them without a copy; over tcp all that "
         "fits travels inside, pulled values too)"},
    {.name = "WEIR_SPIN_US",
     .kind = VariableKind::kNumber,
     .default_value = "50",
     .unit = "us",
     .most = 1'000'000'000,
     .meaning = "how long an idle shard or a waiting client polls before it gives way to other "
                "threads; 0 where the job has more threads on a host than CPUs"},
    {.name = "WEIR_PIN",
     .kind = VariableKind::kChoice,
     .default_value = "auto",
     .choices = "auto|always|never",
     .meaning =
         "pin each shard's thread to a core that the launcher left to this process: auto does "
         "so if the host has a CPU for every thread of the job (shards, workers, manager) and "
         "the process is not bound to one CPU already; never is right where several jobs "
         "share a host"},
    {.name = "WEIR_LOG",
     .kind = VariableKind::kChoice,
     .default_value = "info",
     .choices = "debug|info|warning|error",
     .meaning = "the least important lines that the program weir logs"},
});

/// What a variable accepts, for people: "one of auto, never", "a whole number from 0 to 65535".
[[nodiscard]] std::string allowed_values(const ConfigVariable& variable);

/// Refers to an entry of kConfigVariables; a name that is not there does not compile.
class VariableRef {
public:
    consteval VariableRef(std::string_view name) : variable_(find(name)) {}  // NOLINT: implicit

    consteval VariableRef(const char* name)
        : VariableRef(std::string_view(name)) {}  // NOLINT: implicit

    constexpr VariableRef(const ConfigVariable& variable)
        : variable_(&variable) {}  // NOLINT: implicit

    [[nodiscard]] constexpr const ConfigVariable& operator*() const noexcept { return *variable_; }

    [[nodiscard]] constexpr const ConfigVariable* operator->() const noexcept { return variable_; }

private:
    static consteval const ConfigVariable* find(std::string_view name) {
        for (const ConfigVariable& variable : kConfigVariables) {
            if (variable.name == name) return &variable;
        }
        not_a_known_variable();
        return nullptr;
    }

    static void not_a_known_variable();  ///< undefined: ends the compilation

    const ConfigVariable* variable_;
};

}  // namespace weir
