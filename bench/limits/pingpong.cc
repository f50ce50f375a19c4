// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/pingpong.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bench/limits/socket_pair.h"
#include "lib/base/clock.h"
#include "transport/shm/byte_ring.h"

namespace weir::bench {

namespace {

using transport::shm::Record;
using transport::shm::RecordKind;
using transport::shm::RingControl;
using transport::shm::RingReader;
using transport::shm::RingWriter;
using transport::shm::Take;

constexpr uint32_t kMessageBytesMax = 64 << 10;
constexpr uint64_t kDataBytes = 1 << 20;
constexpr uint64_t kDirectionBytes = 4096 + kDataBytes;
/// After this many looks without an answer, the other thread is assumed to have no core, and this
/// thread yields its own.
constexpr uint32_t kLooksMax = 1 << 16;

/// Zeroed memory for both directions.
class SharedMemory {
public:
    SharedMemory()
        : memory_(mmap(nullptr, 2 * kDirectionBytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {}

    ~SharedMemory() {
        if (valid()) munmap(memory_, 2 * kDirectionBytes);
    }

    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    [[nodiscard]] bool valid() const noexcept { return memory_ != MAP_FAILED; }

    /// The first page of a direction.
    [[nodiscard]] std::byte* head(int direction) const noexcept {
        return static_cast<std::byte*>(memory_) + direction * kDirectionBytes;
    }

    [[nodiscard]] std::span<std::byte> data(int direction) const noexcept {
        return {head(direction) + 4096, kDataBytes};
    }

private:
    void* memory_;
};

bool pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/// Calls look() until it returns true. Returns false if `over` is set first.
template <class Look>
bool wait_until(const std::atomic<bool>& over, Look&& look) noexcept {
    for (uint32_t looks = 0; !look(); ++looks) {
        if (looks < kLooksMax) continue;
        if (over.load(std::memory_order_relaxed)) return false;  // relaxed: guards no other data
        sched_yield();
    }
    return true;
}

// The players: one thread calls send() and receive() in turn, the other receive() and send().
// They return false if the game is over or a ring is broken.

/// Passes a number through one cache line per direction.
class FlagPlayer {
public:
    using Ground = SharedMemory;

    FlagPlayer(const SharedMemory& memory, int side, const PingpongOptions& /*options*/,
               const std::atomic<bool>& over)
        : over_(over), ours_(flag(memory, side)), theirs_(flag(memory, 1 - side)) {}

    bool send() noexcept {
        // Release and acquire, as for a flag that guards data. They cost nothing on x86.
        ours_.store(++sent_, std::memory_order_release);
        return true;
    }

    bool receive() noexcept {
        const uint64_t next = ++received_;
        return wait_until(over_, [&] { return theirs_.load(std::memory_order_acquire) == next; });
    }

private:
    static std::atomic_ref<uint64_t> flag(const SharedMemory& memory, int side) noexcept {
        return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory.head(side)));
    }

    const std::atomic<bool>& over_;
    std::atomic_ref<uint64_t> ours_;
    std::atomic_ref<uint64_t> theirs_;
    uint64_t sent_ = 0;
    uint64_t received_ = 0;
};

/// Passes a record through one ring per direction.
class RingPlayer {
public:
    using Ground = SharedMemory;

    RingPlayer(const SharedMemory& memory, int side, const PingpongOptions& options,
               const std::atomic<bool>& over)
        : over_(over),
          out_(control(memory, side), memory.data(side), kMessageBytesMax),
          in_(control(memory, 1 - side), memory.data(1 - side), kMessageBytesMax),
          message_(options.message_bytes, std::byte{1}) {}

    bool send() noexcept {
        std::byte* const room = out_.begin(static_cast<uint32_t>(message_.size()));
        if (room == nullptr) return false;  // one record at a time always fits
        std::memcpy(room, message_.data(), message_.size());
        out_.end(RecordKind::kMessage, static_cast<uint32_t>(message_.size()));
        return out_.publish();
    }

    bool receive() noexcept {
        Record record;
        Take take = Take::kNothing;
        const auto look = [&] {
            take = in_.take(record);
            if (take == Take::kNothing) __builtin_ia32_pause();
            return take != Take::kNothing;
        };
        if (!wait_until(over_, look) || take != Take::kRecord) return false;
        std::memcpy(message_.data(), record.payload.data(), record.payload.size());
        in_.give_back();
        return true;
    }

private:
    static RingControl* control(const SharedMemory& memory, int side) noexcept {
        return reinterpret_cast<RingControl*>(memory.head(side));
    }

    const std::atomic<bool>& over_;
    RingWriter out_;
    RingReader in_;
    std::vector<std::byte> message_;
};

/// Passes a message over a connection.
class SocketPlayer {
public:
    using Ground = SocketPair;

    SocketPlayer(const SocketPair& pair, int side, const PingpongOptions& options,
                 const std::atomic<bool>& over)
        : over_(over), fd_(pair.fd(side)), message_(options.message_bytes, std::byte{1}) {}

    bool send() noexcept { return send_all(fd_, message_); }

    bool receive() noexcept {
        size_t have = 0;
        bool broken = false;
        const auto look = [&] {
            const ssize_t got =
                ::recv(fd_, message_.data() + have, message_.size() - have, MSG_DONTWAIT);
            if (got > 0) have += static_cast<size_t>(got);
            broken = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
            return broken || have == message_.size();
        };
        return wait_until(over_, look) && !broken;
    }

private:
    const std::atomic<bool>& over_;
    int fd_;
    std::vector<std::byte> message_;
};

/// Returns the times of the single rounds; empty if a ring or a connection is broken.
template <class Player>
std::vector<uint64_t> play(Player& player, const PingpongOptions& options) {
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + options.duration_max_ns;
    const uint64_t warm_up = std::min<uint64_t>(options.rounds / 10, 200);
    std::vector<uint64_t> times;
    times.reserve(std::min(options.rounds, 1U << 20));
    uint64_t last_ns = clock.now_ns();
    for (uint64_t round = 0; times.size() < options.rounds; ++round) {
        if (!player.send() || !player.receive()) return {};
        const uint64_t now_ns = clock.now_ns();
        const bool late = now_ns >= end_ns;
        if (round >= warm_up || late) times.push_back(now_ns - last_ns);
        if (late) break;
        last_ns = now_ns;
    }
    return times;
}

PingpongResult summary(std::vector<uint64_t>& times) {
    std::sort(times.begin(), times.end());
    return {times.size(), times[(times.size() - 1) / 2]};
}

template <class Player>
Result<PingpongResult> pingpong(const PingpongOptions& options) {
    if (options.message_bytes == 0 || options.message_bytes > kMessageBytesMax ||
        options.rounds == 0) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("ping-pong of {} rounds with {} bytes: needs a round, and 1 to "
                                 "{} bytes",
                                 options.rounds, options.message_bytes, kMessageBytesMax));
    }
    const typename Player::Ground ground;
    if (!ground.valid())
        return Error(Errc::kNoMemory, "ping-pong: no shared memory, or no connection", errno);
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof(before), &before) != 0)
        return Error(Errc::kIo, "ping-pong: cannot read which cores this thread may use", errno);
    if (!pin(options.cpus[1]) || !pin(options.cpus[0])) {
        sched_setaffinity(0, sizeof(before), &before);
        return Error(Errc::kInvalidArgument,
                     fmt::format("ping-pong: this thread may not use both of the cores {} and {}",
                                 options.cpus[0], options.cpus[1]));
    }
    std::atomic<bool> over = false;
    std::thread echo([&] {
        pin(options.cpus[1]);
        Player player(ground, 1, options, over);
        while (player.receive() && player.send()) {
        }
        over.store(true, std::memory_order_relaxed);  // ends the other player's wait
    });
    Player player(ground, 0, options, over);
    std::vector<uint64_t> times = play(player, options);
    over.store(true, std::memory_order_relaxed);
    echo.join();
    sched_setaffinity(0, sizeof(before), &before);
    if (times.empty()) return Error(Errc::kIo, "ping-pong: a ring or a connection is broken");
    return summary(times);
}

}  // namespace

Result<PingpongResult> flag_pingpong(const PingpongOptions& options) {
    return pingpong<FlagPlayer>(options);
}

Result<PingpongResult> ring_pingpong(const PingpongOptions& options) {
    return pingpong<RingPlayer>(options);
}

Result<PingpongResult> socket_pingpong(const PingpongOptions& options) {
    return pingpong<SocketPlayer>(options);
}

}  // namespace weir::bench
