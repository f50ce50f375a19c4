// SPDX-License-Identifier: Apache-2.0
#include "lib/linalg/threads.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace weir::linalg {

/// All threads but the caller's. They sleep between two pieces of work.
class Threads::Pool {
public:
    explicit Pool(uint32_t count) {
        try {
            for (uint32_t part = 1; part < count; ++part)
                threads_.emplace_back([this, part] { serve(part); });
        } catch (...) {
            end();
            throw;
        }
    }

    ~Pool() { end(); }

    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    void run(const std::function<void(uint32_t)>& work) {
        {
            const std::lock_guard lock(mutex_);
            work_ = &work;
            open_ = threads_.size();
            ++number_;
        }
        wake_.notify_all();
        work(0);
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return open_ == 0; });
        work_ = nullptr;
    }

private:
    void end() {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        wake_.notify_all();
        threads_.clear();  // joins them
    }

    void serve(uint32_t part) {
        uint64_t last = 0;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return is_over_ || number_ != last; });
            if (is_over_) return;
            last = number_;
            const std::function<void(uint32_t)>& work = *work_;
            lock.unlock();
            work(part);
            lock.lock();
            if (--open_ == 0) done_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    const std::function<void(uint32_t)>* work_ = nullptr;
    uint64_t number_ = 0;  ///< of the work
    size_t open_ = 0;      ///< threads that have not ended it
    bool is_over_ = false;
    std::vector<std::jthread> threads_;
};

Threads::Threads(uint32_t count) : count_(std::max<uint32_t>(1, count)) {
    if (count_ > 1) pool_ = std::make_unique<Pool>(count_);
}

Threads::~Threads() = default;

void Threads::run(const std::function<void(uint32_t part)>& work) {
    pool_ == nullptr ? work(0) : pool_->run(work);
}

}  // namespace weir::linalg
