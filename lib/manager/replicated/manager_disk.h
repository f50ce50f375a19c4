// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerDisk: what a manager has done on a disk, one thing at a time. Several managers that agree on what
/// happens must agree on how it ended, too, and one of them does it: AgreedDisk.

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "lib/checkpoint/disk_queue.h"
#include "lib/manager/replicated/manager_input.h"

namespace weir {

/// Thread: the manager's
class ManagerDisk {
public:
    using Work = std::function<DiskAnswer(checkpoint::Disk&)>;

    ManagerDisk() = default;
    ManagerDisk(const ManagerDisk&) = delete;
    ManagerDisk& operator=(const ManagerDisk&) = delete;
    virtual ~ManagerDisk() = default;

    /// Nobody waits any more for what was started before.
    virtual void start(Work work, uint64_t hang_ns) = 0;
    /// How it ended, once it has; Errc::kDeadline if the disk has done nothing at all for `hang_ns`: it may
    /// still do it.
    [[nodiscard]] virtual std::optional<DiskAnswer> take() = 0;
};

/// That of a manager that is alone.
class OwnDisk final : public ManagerDisk {
public:
    explicit OwnDisk(std::shared_ptr<checkpoint::DiskQueue> queue) : queue_(std::move(queue)) {}

    /// While the disk hangs, it is not asked for more.
    void start(Work work, uint64_t hang_ns) override {
        const Status moves = queue_->check_moves();
        hang_ns_ = hang_ns;
        if (moves) {
            answer_ = queue_->add(std::move(work));
            return;
        }
        std::promise<DiskAnswer> failed;
        answer_ = failed.get_future();
        failed.set_value(hangs(moves.error()));
    }

    [[nodiscard]] std::optional<DiskAnswer> take() override {
        if (!answer_.valid()) return std::nullopt;
        if (checkpoint::is_done(answer_)) return answer_.get();
        const Status moves = queue_->check_moves(hang_ns_);
        if (moves) return std::nullopt;
        answer_ = {};
        return hangs(moves.error());
    }

private:
    [[nodiscard]] static DiskAnswer hangs(const Error& why) {
        return {.status = why.code(), .why = why.message()};
    }

    std::shared_ptr<checkpoint::DiskQueue> queue_;
    std::future<DiskAnswer> answer_;
    uint64_t hang_ns_ = 0;
};

/// That of one of several managers. All of them start the same; the one that leads does it, and all learn how
/// it ended when the log says so.
class AgreedDisk final : public ManagerDisk {
public:
    explicit AgreedDisk(std::shared_ptr<checkpoint::DiskQueue> queue) : own_(std::move(queue)) {}

    void start(Work work, uint64_t hang_ns) override {
        ++started_;
        work_ = std::move(work);
        hang_ns_ = hang_ns;
        answer_.reset();
    }

    [[nodiscard]] std::optional<DiskAnswer> take() override {
        return std::exchange(answer_, std::nullopt);
    }

    /// The log says how that ended which was started `number`-th.
    void answered(uint64_t number, DiskAnswer answer) {
        if (number != started_ || answered_ == started_) return;
        answered_ = started_;
        work_ = nullptr;
        answer_ = std::move(answer);
    }

    /// Another manager leads from here on. Whether the one before has done it, nobody knows.
    void change_leader() {
        answered(started_, {Errc::kPeerLost, "the manager that led meanwhile leads no more"});
    }

    /// Something was started and has not ended.
    [[nodiscard]] bool is_busy() const noexcept { return answered_ != started_; }

    /// At the manager that leads: does what was started. How that ended, and its number, once.
    [[nodiscard]] std::optional<std::pair<uint64_t, DiskAnswer>> lead() {
        if (work_ != nullptr) {
            begun_ = started_;
            own_.start(std::exchange(work_, nullptr), hang_ns_);
        }
        std::optional<DiskAnswer> answer = own_.take();
        if (!answer) return std::nullopt;
        return std::pair{begun_, *std::move(answer)};
    }

private:
    OwnDisk own_;
    Work work_;
    uint64_t hang_ns_ = 0;
    uint64_t started_ = 0;  ///< number of the last one
    uint64_t answered_ = 0;
    uint64_t begun_ = 0;  ///< number of the last one that this manager does itself
    std::optional<DiskAnswer> answer_;
};

}  // namespace weir
