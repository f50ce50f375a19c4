// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// DiskQueue: what threads that must not wait for the disk want done there, by one thread that may.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "lib/checkpoint/disk.h"

namespace weir::checkpoint {

/// Thread: any
class DiskQueue {
public:
    explicit DiskQueue(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}

    /// Has `work(Disk&)` done, in its turn. The future has what it returned; it does not wait when it
    /// is destroyed. After close() nothing is done: the future then has an exception.
    template <class Work>
    [[nodiscard]] auto add(Work work) -> std::future<std::invoke_result_t<Work, Disk&>> {
        using Made = std::invoke_result_t<Work, Disk&>;
        const auto task = std::make_shared<std::packaged_task<Made(Disk&)>>(std::move(work));
        std::future<Made> future = task->get_future();
        const std::lock_guard lock(mutex_);
        if (!is_closed_) waiting_.emplace_back([task](Disk& disk) { (*task)(disk); });
        added_.notify_one();
        return future;
    }

    /// Does what was added first. False: there was nothing.
    bool run_one();

    /// For a thread of its own: does all that is added, until close(), and what waits then.
    void run();

    /// Nothing is taken any more.
    void close();

private:
    [[nodiscard]] std::function<void(Disk&)> take();

    std::shared_ptr<Disk> disk_;
    std::mutex mutex_;
    std::condition_variable added_;
    std::deque<std::function<void(Disk&)>> waiting_;
    bool is_closed_ = false;
};

/// Whether the result of what was added is there. Not for a future that was taken.
template <class Made>
[[nodiscard]] bool is_done(const std::future<Made>& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace weir::checkpoint
