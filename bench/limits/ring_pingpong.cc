// SPDX-License-Identifier: Apache-2.0
#include "bench/limits/ring_pingpong.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <vector>

#include <fmt/format.h>
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

/// Both processes' loop: sends `message`, or waits for one and then sends.
class Player {
public:
    Player(const SharedRings& rings, int side, uint32_t message_bytes)
        : out_(rings.control(side), rings.data(side), kMessageBytesMax),
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
        while (take == Take::kNothing) {
            __builtin_ia32_pause();
            take = in_.take(record);
        }
        if (take != Take::kRecord) return false;
        std::memcpy(message_.data(), record.payload.data(), record.payload.size());
        in_.give_back();
        return true;
    }

private:
    RingWriter out_;
    RingReader in_;
    std::vector<std::byte> message_;
};

[[noreturn]] void echo(const SharedRings& rings, const RingPingpongOptions& options,
                       uint64_t rounds) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!pin(options.cpus[1])) _exit(1);
    Player player(rings, 1, options.message_bytes);
    for (uint64_t round = 0; round < rounds; ++round) {
        if (!player.receive() || !player.send()) _exit(1);
    }
    _exit(0);
}

RingPingpongResult summary(std::vector<uint64_t>& times) {
    std::sort(times.begin(), times.end());
    const auto at = [&](double share) {
        return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
    };
    return {at(0.5), at(0.9), at(0.99), times.back()};
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
    const uint64_t warm_up = options.rounds / 10;
    const pid_t child = fork();
    if (child < 0) return Error(Errc::kIo, "ring ping-pong: fork", errno);
    if (child == 0) echo(rings, options, warm_up + options.rounds);
    pin(options.cpus[0]);
    const SteadyClock clock;
    Player player(rings, 0, options.message_bytes);
    std::vector<uint64_t> times(options.rounds);
    bool good = true;
    for (uint64_t round = 0; good && round < warm_up; ++round) {
        good = player.send() && player.receive();
    }
    uint64_t last_ns = clock.now_ns();
    for (uint64_t& time : times) {
        good = good && player.send() && player.receive();
        const uint64_t now_ns = clock.now_ns();
        time = now_ns - last_ns;
        last_ns = now_ns;
    }
    sched_setaffinity(0, sizeof(before), &before);
    if (!good) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (!good || status != 0) return Error(Errc::kIo, "ring ping-pong: the other process failed");
    return summary(times);
}

}  // namespace weir::bench
