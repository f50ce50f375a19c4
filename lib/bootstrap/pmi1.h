// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bootstrap over PMI-1: text lines on the descriptor that hydra and srun --mpi=pmi2 pass to
/// each rank.

#include <memory>

#include "lib/base/clock.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/pmi1_text.h"

namespace weir::boot {

/// What to do where the launcher's connection, of which each process has one, has another user already.
inline constexpr std::string_view kPmi1HasOneUser =
    "PMI-1 has one user in each process: give this job --rendezvous HOST:PORT of rank 0's host, "
    "the "
    "same on all ranks (in a program: Config::set_flag(\"WEIR_RENDEZVOUS\", \"--rendezvous\", "
    "\"HOST:PORT\")), or start the ranks by a launcher with PMIx, such as Open MPI's mpirun or "
    "srun "
    "--mpi=pmix";

/// The values of PMI_FD, PMI_RANK and PMI_SIZE.
struct Pmi1Options {
    int fd = -1;
    uint32_t rank = 0;
    uint32_t size = 1;
};

/// Sends one request at a time and waits for its answer. If the socket closes before the rank has
/// sent "finalize", the launcher takes the rank for dead and kills the whole job. So only
/// finish() closes the socket. After a failure it stays open until the process ends, so that the
/// process can report the error first.
class Pmi1Bootstrap final : public Bootstrap {
public:
    /// Greets the launcher on the descriptor, which nothing else may use.
    /// Errors:  kInvalidArgument if it is no socket; kProtocol, kDeadline, kPeerLost: what the
    ///          launcher did wrong
    [[nodiscard]] static Result<std::unique_ptr<Bootstrap>> open(const Pmi1Options& options,
                                                                 const Clock& clock,
                                                                 uint64_t deadline_ns);

    [[nodiscard]] uint32_t rank() const noexcept override { return options_.rank; }

    [[nodiscard]] uint32_t size() const noexcept override { return options_.size; }

    [[nodiscard]] std::string_view name() const noexcept override { return "PMI-1"; }

    Status put(std::string_view key, std::string_view value) override;
    Status exchange(uint64_t deadline_ns) override;
    Result<std::string> get(uint32_t rank, std::string_view key) override;
    Status finish() override;

private:
    Pmi1Bootstrap(const Pmi1Options& options, const Clock& clock);
    Status greet(uint64_t deadline_ns);
    /// Sends `request` and waits for the answer, which must be `expected`.
    Result<Pmi1Line> call(const std::string& request, std::string_view expected,
                          uint64_t deadline_ns);
    Status send_line(const std::string& line, uint64_t deadline_ns);
    Result<std::string> receive_line(uint64_t deadline_ns);
    /// Waits for POLLIN or POLLOUT. Errors: kDeadline
    Status wait_for(short events, uint64_t deadline_ns);
    /// "cmd=put kvsname=K key=weir-3-name-0" for a command, a rank, a key and the number of a
    /// chunk.
    [[nodiscard]] std::string request(std::string_view command, uint32_t rank, std::string_view key,
                                      size_t chunk) const;
    [[nodiscard]] uint64_t reply_deadline_ns() const;

    const Clock& clock_;
    Pmi1Options options_;
    bool usable_ = true;    // false after finish() or a failed call
    std::string received_;  // bytes after the last whole line
    std::string space_;     // the launcher's name for our key-value space
    size_t value_bytes_max_ = 0;
};

}  // namespace weir::boot
