// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The bootstrap over PMI-1: text lines on the descriptor that hydra and srun --mpi=pmi2 leave us.

#include <memory>

#include "lib/base/clock.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/pmi1_text.h"
#include "lib/bootstrap/socket.h"

namespace weir::boot {

/// What PMI_FD, PMI_RANK, PMI_SIZE and the launcher's variable for the local rank say.
struct Pmi1Options {
    int fd = -1;
    uint32_t rank = 0;
    uint32_t size = 1;
    uint32_t local_rank = 0;
};

/// One request at a time, each with its answer. A launcher takes the end of its socket for the
/// death of the rank, unless the rank has said "finalize", and kills the whole job: so only
/// finish() closes it, and after a failure the end of the process does, when it has told a person
/// what is wrong.
class Pmi1Bootstrap final : public Bootstrap {
public:
    /// Greets the launcher on the descriptor, which must be nobody else's.
    /// Errors:  kProtocol, kDeadline, kPeerLost: what the launcher did wrong
    [[nodiscard]] static Result<std::unique_ptr<Bootstrap>> open(const Pmi1Options& options,
                                                                 const Clock& clock,
                                                                 uint64_t deadline_ns);

    [[nodiscard]] uint32_t rank() const noexcept override { return options_.rank; }

    [[nodiscard]] uint32_t size() const noexcept override { return options_.size; }

    [[nodiscard]] uint32_t local_rank() const noexcept override { return options_.local_rank; }

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
    /// "cmd=put kvsname=K key=weir-3-name-0 value=", with the command's name and the chunk's
    /// number.
    [[nodiscard]] std::string request(std::string_view command, uint32_t rank, std::string_view key,
                                      size_t chunk) const;
    [[nodiscard]] uint64_t reply_deadline_ns() const;

    const Clock& clock_;
    Pmi1Options options_;
    bool usable_ = true;    // false after finish(), or once an answer failed to come
    std::string received_;  // beyond the last line
    std::string space_;     // the launcher's name for our key-value space
    size_t value_bytes_max_ = 0;
};

}  // namespace weir::boot
