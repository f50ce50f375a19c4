// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/disk_queue.h"

#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir::checkpoint {

uint64_t DiskQueue::stalled_ns() const {
    const std::lock_guard lock(mutex_);
    return waiting_.empty() && !is_busy_ ? 0 : moves_->since_ns();
}

std::string DiskQueue::disk_name() const {
    const std::string folder = moves_->folder();
    return folder.empty() ? "the disk for checkpoints" : fmt::format("the disk of {}", folder);
}

Status DiskQueue::check_moves(uint64_t hang_ns) const {
    const uint64_t stalled = stalled_ns();
    if (stalled < hang_ns) return {};
    return Error(Errc::kDeadline,
                 fmt::format("{}, or the network to it, hangs: what it was given earlier has not "
                             "moved for {} s",
                             disk_name(), stalled / kSecond));
}

/// What was added first. False: there is nothing.
bool DiskQueue::do_next(std::unique_lock<std::mutex>& lock) {
    if (waiting_.empty() || is_abandoned_) return false;
    std::function<void(Disk&)> work = std::move(waiting_.front());
    waiting_.pop_front();
    WEIR_CHECK(!std::exchange(is_busy_, true));  // one thread works at the disk
    lock.unlock();
    work(disk_);
    work = nullptr;  // it may have files that are closed now, which takes the disk, too
    lock.lock();
    is_busy_ = false;
    moves_->note();
    changed_.notify_all();
    return true;
}

bool DiskQueue::run_one() {
    std::unique_lock lock(mutex_);
    return do_next(lock);
}

void DiskQueue::run() {
    std::unique_lock lock(mutex_);
    do {
        changed_.wait(lock, [&] { return is_closed_ || !waiting_.empty(); });
    } while (do_next(lock));
}

void DiskQueue::close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
}

bool DiskQueue::is_over_within(std::chrono::nanoseconds at_most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, at_most, [&] { return waiting_.empty() && !is_busy_; });
}

void DiskQueue::abandon() {
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
}

}  // namespace weir::checkpoint
