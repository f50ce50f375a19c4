// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/quiescence.h"

#include <thread>

#include "lib/base/clock.h"

namespace weir::transport::shm {

namespace {

/// An address that no other living thread has.
const void* this_thread() noexcept {
    static thread_local const char mark = 0;
    return &mark;
}

}  // namespace

void Quiescence::Reader::enter() noexcept {
    thread_.store(this_thread(), std::memory_order_relaxed);  // seen with turn_
    turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
}

std::shared_ptr<Quiescence::Reader> Quiescence::join() {
    auto reader = std::make_shared<Reader>();
    const std::lock_guard lock(mutex_);
    readers_.push_back(reader);
    return reader;
}

void Quiescence::part(const std::shared_ptr<Reader>& reader) {
    if (reader->entered()) reader->leave();
    const std::lock_guard lock(mutex_);
    std::erase(readers_, reader);
}

bool Quiescence::wait(uint64_t timeout_ns) {
    std::vector<std::shared_ptr<Reader>> readers;
    {
        const std::lock_guard lock(mutex_);
        readers = readers_;
    }
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + timeout_ns;
    for (const auto& reader : readers) {
        const uint64_t turn = reader->turn_.load(std::memory_order_seq_cst);
        if (turn % 2 == 0 || reader->thread_.load(std::memory_order_relaxed) == this_thread()) {
            continue;
        }
        // acquire: pairs with leave()
        while (reader->turn_.load(std::memory_order_acquire) == turn) {
            if (clock.now_ns() > end_ns) return false;
            std::this_thread::yield();
        }
    }
    return true;
}

}  // namespace weir::transport::shm
