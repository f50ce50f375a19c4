// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// BlockReader: the blocks of a column cache in memory, never more than a limit. A thread of its
/// own reads those that are needed next. As long as there is room, blocks stay: a sweep over all
/// blocks finds those of the last one. If there is none, the block that was used last goes first,
/// because in sweeps it is the one that is needed again last.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/cache/cache_format.h"
#include "lib/data/cache/page_memory.h"

namespace weir::data {

/// Thread: one; the lists that open() returns may be read by any.
class BlockReader {
public:
    /// blocks: must outlive it
    /// memory_bytes: for blocks; two of the largest let it read ahead
    /// Errors: kNoMemory if the thread cannot start
    BlockReader(CacheFile file, std::span<const BlockPlace> blocks, uint64_t row_count,
                uint64_t memory_bytes);
    ~BlockReader();
    BlockReader(const BlockReader&) = delete;
    BlockReader& operator=(const BlockReader&) = delete;

    /// Begins to read the block, behind those asked for before, as soon as there is room.
    void will_need(uint32_t block);

    /// Waits until the block is in memory, and keeps it there until as many calls of done().
    ///
    /// Errors: kNoMemory if blocks that are open leave no room for it; kParse for a damaged block;
    ///     kIo
    [[nodiscard]] Result<std::span<const std::byte>> open(uint32_t block);

    void done(uint32_t block);

    struct Counts {
        uint64_t read_bytes = 0;      ///< from the file
        uint64_t held_bytes = 0;      ///< in memory now, spare memory included
        uint64_t held_bytes_max = 0;  ///< the most that ever were
        uint64_t waits = 0;           ///< calls of open() that had to wait
        double wait_seconds = 0;      ///< in open()
    };

    [[nodiscard]] Counts counts() const;

private:
    enum class Stage : uint8_t { kAbsent, kQueued, kReading, kHeld };

    struct Held {
        Stage stage = Stage::kAbsent;
        bool is_ahead = false;  // will_need() was called, and not open() since
        uint32_t open_count = 0;
        uint64_t last_use = 0;  // orders those that may go
        PageMemory pages;
        Status failure;  // of the last reading, until open() returns it
    };

    using Lock = std::unique_lock<std::mutex>;

    void run();
    [[nodiscard]] std::optional<uint32_t> next_to_read(Lock& lock);
    [[nodiscard]] bool make_room(uint64_t bytes, bool is_urgent);
    void read(uint32_t block, Lock& lock);
    [[nodiscard]] Status fill(uint32_t block, PageMemory& pages) const;
    void free_spare();

    CacheFile file_;
    std::span<const BlockPlace> places_;
    uint64_t row_count_;
    uint64_t memory_bytes_;

    mutable std::mutex mutex_;  // of all below
    std::condition_variable work_;
    std::condition_variable arrived_;
    std::vector<Held> blocks_;
    std::deque<uint32_t> queue_;
    std::optional<uint32_t> urgent_;  // the block that open() waits for
    uint64_t use_count_ = 0;
    PageMemory spare_;  // of the last block that went: the system need not zero it again
    Counts counts_;
    bool stops_ = false;
    std::thread thread_;
};

}  // namespace weir::data
