// SPDX-License-Identifier: Apache-2.0
#include "lib/data/cache/block_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "lib/data/shortage.h"

namespace weir::data {

BlockReader::BlockReader(CacheFile file, std::span<const BlockPlace> blocks, uint64_t row_count,
                         uint64_t memory_bytes)
    : file_(std::move(file)),
      places_(blocks),
      row_count_(row_count),
      memory_bytes_(memory_bytes),
      blocks_(blocks.size()),
      thread_([this] { run(); }) {}

BlockReader::~BlockReader() {
    {
        const Lock lock(mutex_);
        stops_ = true;
    }
    work_.notify_one();
    thread_.join();
}

void BlockReader::will_need(uint32_t block) {
    const Lock lock(mutex_);
    Held& held = blocks_[block];
    held.is_ahead = true;
    if (held.stage != Stage::kAbsent) return;
    held.stage = Stage::kQueued;
    queue_.push_back(block);
    work_.notify_one();
}

Result<std::span<const std::byte>> BlockReader::open(uint32_t block) {
    Lock lock(mutex_);
    Held& held = blocks_[block];
    if (held.stage != Stage::kHeld) {
        const auto begin = std::chrono::steady_clock::now();
        ++counts_.waits;
        if (held.stage == Stage::kQueued) std::erase(queue_, block);
        held.is_ahead = true;  // it stays until this thread has woken up
        if (held.stage != Stage::kReading) {
            held.stage = Stage::kQueued;
            urgent_ = block;
            work_.notify_one();
        }
        arrived_.wait(lock,
                      [&] { return held.stage == Stage::kHeld || held.stage == Stage::kAbsent; });
        counts_.wait_seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    held.is_ahead = false;
    WEIR_TRY(std::exchange(held.failure, {}));
    ++held.open_count;
    return std::span<const std::byte>(held.pages.bytes());
}

void BlockReader::done(uint32_t block) {
    const Lock lock(mutex_);
    Held& held = blocks_[block];
    WEIR_CHECK(held.open_count > 0);
    --held.open_count;
    held.last_use = ++use_count_;
    work_.notify_one();
}

BlockReader::Counts BlockReader::counts() const {
    const Lock lock(mutex_);
    return counts_;
}

/// Frees blocks until so many bytes fit. Only a block that open() waits for takes the room of
/// those that were read ahead.
bool BlockReader::make_room(uint64_t bytes, bool is_urgent) {
    while (counts_.held_bytes - spare_.bytes().size() + bytes > memory_bytes_) {
        Held* last = nullptr;
        for (Held& held : blocks_) {
            if (held.stage != Stage::kHeld || held.open_count > 0) continue;
            if (held.is_ahead && !is_urgent) continue;
            const auto order = [](const Held& of) { return std::pair(!of.is_ahead, of.last_use); };
            if (last == nullptr || order(*last) < order(held)) last = &held;
        }
        if (last == nullptr) return false;
        free_spare();
        spare_ = std::exchange(last->pages, {});
        last->stage = Stage::kAbsent;
        last->is_ahead = false;
    }
    return true;
}

void BlockReader::free_spare() {
    counts_.held_bytes -= spare_.bytes().size();
    spare_ = {};
}

/// The block to read now, for which there is room; nullopt at the end.
std::optional<uint32_t> BlockReader::next_to_read(Lock& lock) {
    while (!stops_) {
        if (const auto urgent = std::exchange(urgent_, std::nullopt)) {
            const uint64_t bytes = places_[*urgent].shape.bytes();
            if (make_room(bytes, true)) return urgent;
            blocks_[*urgent].stage = Stage::kAbsent;
            blocks_[*urgent].failure = Error(
                Errc::kNoMemory,
                fmt::format("{} is too small: a block of {} bytes does not fit beside those in "
                            "use, with {} bytes for all; give more, or more blocks",
                            file_.names().memory, bytes, memory_bytes_));
            arrived_.notify_all();
        } else if (!queue_.empty() && make_room(places_[queue_.front()].shape.bytes(), false)) {
            const uint32_t next = queue_.front();
            queue_.pop_front();
            return next;
        } else {
            work_.wait(lock);
        }
    }
    return std::nullopt;
}

Status BlockReader::fill(uint32_t block, PageMemory& pages) const {
    const BlockPlace& from = places_[block];
    pages.resize(from.shape.bytes());
    WEIR_TRY(file_.read(from.place, pages.bytes()));
    if (const auto damage = block_damage(pages.bytes(), from, block, row_count_))
        return damaged_cache(file_, fmt::format("block {}: {}", block, *damage));
    return {};
}

void BlockReader::read(uint32_t block, Lock& lock) {
    const uint64_t bytes = places_[block].shape.bytes();
    Held& held = blocks_[block];
    held.stage = Stage::kReading;
    PageMemory pages = std::exchange(spare_, {});
    counts_.held_bytes += bytes - pages.bytes().size();
    counts_.held_bytes_max = std::max(counts_.held_bytes_max, counts_.held_bytes);
    lock.unlock();
    Status status = or_shortage([&] { return fill(block, pages); });
    if (!status) pages = {};
    lock.lock();
    counts_.read_bytes += bytes;
    if (!status) counts_.held_bytes -= bytes;
    held.stage = status ? Stage::kHeld : Stage::kAbsent;
    held.pages = std::move(pages);
    held.failure = std::move(status);
    arrived_.notify_all();
}

void BlockReader::run() {
    Lock lock(mutex_);
    while (const auto block = next_to_read(lock))
        read(*block, lock);
}

}  // namespace weir::data
