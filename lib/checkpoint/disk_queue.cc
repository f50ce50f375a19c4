// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/disk_queue.h"

namespace weir::checkpoint {

std::function<void(Disk&)> DiskQueue::take() {
    if (waiting_.empty()) return {};
    std::function<void(Disk&)> work = std::move(waiting_.front());
    waiting_.pop_front();
    return work;
}

bool DiskQueue::run_one() {
    std::unique_lock lock(mutex_);
    const std::function<void(Disk&)> work = take();
    lock.unlock();
    if (work) work(*disk_);
    return work != nullptr;
}

void DiskQueue::run() {
    for (;;) {
        std::unique_lock lock(mutex_);
        added_.wait(lock, [&] { return is_closed_ || !waiting_.empty(); });
        const std::function<void(Disk&)> work = take();
        if (!work) return;
        lock.unlock();
        work(*disk_);
    }
}

void DiskQueue::close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    added_.notify_all();
}

}  // namespace weir::checkpoint
