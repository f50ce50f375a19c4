// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DiskQueue: what threads that must not wait for the disk want done there, by one thread that may.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/checkpoint/disk.h"
#include "lib/checkpoint/watched_disk.h"

namespace weir::checkpoint {

/// Thread: any
class DiskQueue {
public:
    /// A disk hangs that has done nothing for so long: no work has ended, and within it no file was
    /// written, synced, read or closed.
    static constexpr uint64_t kHangNs = 20 * kSecond;

    explicit DiskQueue(std::shared_ptr<Disk> disk,
                       std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>())
        : moves_(std::make_shared<DiskMoves>(std::move(clock))), disk_(std::move(disk), moves_) {}

    /// Has `work(Disk&)` done, in its turn. The future has what it returned; it does not wait when it
    /// is destroyed. After close() nothing is done: the future then has an exception.
    template <class Work>
    [[nodiscard]] auto add(Work work) -> std::future<std::invoke_result_t<Work, Disk&>> {
        using Made = std::invoke_result_t<Work, Disk&>;
        const auto task = std::make_shared<std::packaged_task<Made(Disk&)>>(std::move(work));
        std::future<Made> future = task->get_future();
        const std::lock_guard lock(mutex_);
        if (is_closed_) return future;
        if (waiting_.empty() && !is_busy_) moves_->note();
        waiting_.emplace_back([task](Disk& disk) { (*task)(disk); });
        changed_.notify_all();
        return future;
    }

    /// For how long there has been something to do of which nothing was done.
    [[nodiscard]] uint64_t stalled_ns() const;

    /// "the disk of FOLDER": that which it was asked for last, and hangs in if it does.
    [[nodiscard]] std::string disk_name() const;

    /// Whoever is to begin much more looks first: what a disk that hangs was given stays in memory.
    /// Errors: Errc::kDeadline if it has done nothing of what it was given for `hang_ns`, with its name
    [[nodiscard]] Status check_moves(uint64_t hang_ns = kHangNs) const;

    /// Does what was added first. False: there was nothing.
    bool run_one();

    /// For a thread of its own: does all that is added, until close(), and what waits then.
    void run();

    /// Nothing is taken any more.
    void close();

    /// After close(): waits for so long, if need be, until run() has done all. Returns whether it has.
    [[nodiscard]] bool is_over_within(std::chrono::nanoseconds at_most);

    /// Of what waits nothing is done any more: run() ends after what it is at.
    void abandon();

private:
    bool do_next(std::unique_lock<std::mutex>& lock);

    std::shared_ptr<DiskMoves> moves_;
    WatchedDisk disk_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void(Disk&)>> waiting_;
    bool is_busy_ = false;  ///< with what waits no more
    bool is_closed_ = false;
    bool is_abandoned_ = false;
};

/// Whether the result of what was added is there. Not for a future that was taken.
template <class Made>
[[nodiscard]] bool is_done(const std::future<Made>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace weir::checkpoint
