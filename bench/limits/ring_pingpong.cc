// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/ring_pingpong.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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
/// Looks at an empty ring until the other process is taken to have no core at the moment.
constexpr uint32_t kSpinMax = 1 << 16;

/// Two rings in memory that stays shared over fork().
class SharedRings {
public:
    SharedRings()
        : memory_(mmap(nullptr, 2 * kDirectionBytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)) {}

    ~SharedRings() {
        if (valid()) munmap(memory_, 2 * kDirectionBytes);
    }

    SharedRings(const SharedRings&) = delete;
    SharedRings& operator=(const SharedRings&) = delete;

    [[nodiscard]] bool valid() const noexcept { return memory_ != MAP_FAILED; }

    [[nodiscard]] RingControl* control(int direction) const noexcept {
        return reinterpret_cast<RingControl*>(at(direction));
    }

    [[nodiscard]] std::span<std::byte> data(int direction) const noexcept {
        return {at(direction) + 4096, kDataBytes};
    }

private:
    [[nodiscard]] std::byte* at(int direction) const noexcept {
        return static_cast<std::byte*>(memory_) + direction * kDirectionBytes;
    }

    void* memory_;
};

bool pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

/// Whether this child has; 0: there is none.
bool has_ended(pid_t child) {
    siginfo_t info{};
    if (child == 0) return false;
    const auto id = static_cast<id_t>(child);
    return waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == child;
}

/// Both processes' loop: sends `message`, or waits for one and then sends. `other` is the process
/// to look after, if it is a child.
class Player {
public:
    Player(const SharedRings& rings, int side, uint32_t message_bytes, pid_t other = 0)
        : other_(other),
          out_(rings.control(side), rings.data(side), kMessageBytesMax),
          in_(rings.control(1 - side), rings.data(1 - side), kMessageBytesMax),
          message_(message_bytes, std::byte{1}) {}

    /// False: broken.
    bool send() noexcept {
        std::byte* const room = out_.begin(static_cast<uint32_t>(message_.size()));
        if (room == nullptr) return false;  // one record at a time always fits
        std::memcpy(room, message_.data(), message_.size());
        out_.end(RecordKind::kMessage, static_cast<uint32_t>(message_.size()));
        return out_.publish();
    }

    bool receive() noexcept {
        Record record;
        Take take = in_.take(record);
        for (uint32_t spins = 0; take == Take::kNothing; ++spins) {
            if (spins < kSpinMax) {
                __builtin_ia32_pause();
            } else {
                if (has_ended(other_)) return false;
                sched_yield();
            }
            take = in_.take(record);
        }
        if (take != Take::kRecord) return false;
        std::memcpy(message_.data(), record.payload.data(), record.payload.size());
        in_.give_back();
        return true;
    }

private:
    pid_t other_;
    RingWriter out_;
    RingReader in_;
    std::vector<std::byte> message_;
};

/// Answers until it is killed.
[[noreturn]] void echo(const SharedRings& rings, const RingPingpongOptions& options) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!pin(options.cpus[1])) _exit(1);
    Player player(rings, 1, options.message_bytes);
    while (player.receive() && player.send()) {
    }
    _exit(1);
}

/// The times of single rounds; none: the other process is gone.
std::vector<uint64_t> play(Player& player, const RingPingpongOptions& options) {
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + options.duration_max_ns;
    const uint64_t warm_up = options.rounds / 10;
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

RingPingpongResult summary(std::vector<uint64_t>& times) {
    std::sort(times.begin(), times.end());
    const auto at = [&](double share) {
        return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
    };
    return {times.size(), at(0.5), at(0.9), at(0.99), times.back()};
}

}  // namespace

Result<RingPingpongResult> ring_pingpong(const RingPingpongOptions& options) {
    if (options.message_bytes > kMessageBytesMax || options.rounds == 0) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("ring ping-pong of {} rounds with {} bytes: needs a round, and at "
                                 "most {} bytes",
                                 options.rounds, options.message_bytes, kMessageBytesMax));
    }
    const SharedRings rings;
    if (!rings.valid()) return Error(Errc::kNoMemory, "ring ping-pong: no shared memory", errno);
    cpu_set_t before;
    if (sched_getaffinity(0, sizeof(before), &before) != 0 ||
        !CPU_ISSET(options.cpus[0], &before) || !CPU_ISSET(options.cpus[1], &before)) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("ring ping-pong: cores {} and {} are not both ours to use",
                                 options.cpus[0], options.cpus[1]));
    }
    const pid_t child = fork();
    if (child < 0) return Error(Errc::kIo, "ring ping-pong: fork", errno);
    if (child == 0) echo(rings, options);
    pin(options.cpus[0]);
    Player player(rings, 0, options.message_bytes, child);
    std::vector<uint64_t> times = play(player, options);
    sched_setaffinity(0, sizeof(before), &before);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (times.empty()) return Error(Errc::kIo, "ring ping-pong: the other process failed");
    return summary(times);
}

}  // namespace weir::bench
