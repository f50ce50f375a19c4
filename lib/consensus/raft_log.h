// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RaftLog: the ReplicatedLog that libraft makes.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/consensus/libraft.h"
#include "lib/consensus/messages.h"
#include "lib/consensus/peers.h"
#include "lib/consensus/raft_io.h"
#include "lib/consensus/replicated_log.h"

namespace weir::consensus {

/// Thread: one
class RaftLog final : public ReplicatedLog {
public:
    /// Call start() next, once.
    RaftLog(const ReplicatedLogOptions& options, std::unique_ptr<transport::Endpoint> endpoint,
            const Clock& clock, Replicated& replicated);
    RaftLog(const RaftLog&) = delete;
    RaftLog& operator=(const RaftLog&) = delete;
    ~RaftLog() override;

    void start();

    size_t poll() override;
    [[nodiscard]] int arm() override;
    [[nodiscard]] uint64_t sleep_ns_max() const noexcept override;
    [[nodiscard]] std::optional<uint64_t> propose(std::vector<std::byte> entry) override;
    [[nodiscard]] Leadership leadership() const noexcept override;
    [[nodiscard]] bool hand_over(uint64_t replica) override;

    [[nodiscard]] bool is_handing_over() const noexcept override { return is_handing_over_; }

    [[nodiscard]] size_t heard_count() const override;

    [[nodiscard]] bool finished() const noexcept override { return is_finished_; }

    [[nodiscard]] Status outcome() const override { return outcome_; }

private:
    /// A raft_apply or raft_barrier under way. libraft holds its address.
    struct Request {
        RaftLog* log = nullptr;
        struct raft_apply apply = {};
        struct raft_barrier barrier = {};
        uint64_t term = 0;
    };

    [[nodiscard]] bool take(uint64_t sender, std::span<const std::byte> bytes);
    void tick_if_due(uint64_t now_ns);
    /// To be called after each call of libraft that may do anything: everything that it has started ends, and a
    /// change of its state is noticed.
    void settle();
    void notice_leadership();
    void begin_to_lead();
    void stop_leading();
    /// Gives libraft what was proposed, in one batch, once the batch before is committed: libraft commits
    /// nothing before all that its leader has stored is with a majority.
    void submit();
    [[nodiscard]] bool may_submit() const noexcept;
    void fail(Status why);

    [[nodiscard]] int apply(const raft_buffer& entry);
    [[nodiscard]] int take_snapshot(raft_buffer** buffers, unsigned* count);
    [[nodiscard]] int restore(raft_buffer& snapshot);
    void barrier_passed(uint64_t term);

    const Clock& clock_;
    ReplicatedLogOptions options_;
    Replicated& replicated_;
    Peers peers_;
    RaftIo io_;
    raft_fsm machine_{};
    raft raft_{};
    bool is_open_ = false;              ///< raft_ is to be closed
    bool is_within_ = false;            ///< a call of Replicated
    raft_buffer* forgotten_ = nullptr;  ///< of a leader's snapshot that restore() refused
    uint64_t next_tick_ns_ = 0;

    uint64_t leads_in_term_ = 0;                  ///< libraft leads in it; 0: it does not
    bool has_barrier_ = false;                    ///< of that term, under way
    bool is_ready_ = false;                       ///< lead() was called for that term
    std::deque<std::vector<std::byte>> waiting_;  ///< proposals that libraft does not have yet
    size_t waiting_bytes_ = 0;
    uint64_t submitted_ = 0;  ///< index of the last entry that libraft was given as a batch

    struct raft_transfer transfer_ {};  ///< of hand_over(); libraft has it while is_handing_over_

    bool is_handing_over_ = false;  ///< libraft takes no entries

    std::unordered_map<uint64_t, uint64_t> heard_ns_;  ///< by replica: when it sent something last

    bool is_finished_ = false;
    Status outcome_;
};

}  // namespace weir::consensus
