// SPDX-License-Identifier: Apache-2.0
/// \file
/// verbs_perf: throughput and latency of the verbs backend between two processes on one RDMA
/// device, to be compared with ib_read_bw and ib_send_lat on the same device (see verbs_perf.sh).
///
///     verbs_perf [READS [ROUND_TRIPS]]              both processes here
///     verbs_perf listen                             one process here, prints its address
///     verbs_perf connect ADDRESS [READS [TRIPS]]    the other, perhaps on another host
///
/// Prints MiB/s (what perftest calls MB/sec) of 64 KiB READs by READs in flight, and microseconds
/// per round trip.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "transport/verbs/verbs.h"

namespace {

using namespace weir;
using namespace weir::transport;

constexpr size_t kReadBytes = 64 * 1024;
constexpr size_t kReadsMost = 16;
constexpr size_t kMemoryBytes = kReadsMost * kReadBytes;
constexpr int kSpins = 20'000;  ///< polls that found nothing, before sleeping

[[noreturn]] void give_up(const Error& error) {
    fmt::print(stderr, "verbs_perf: {}\n", error.message());
    std::exit(2);
}

template <class T>
T must(Result<T> result) {
    if (!result) give_up(result.error());
    return std::move(result).value();
}

/// One process's device, endpoint and memory.
struct Party {
    explicit Party(const Secret& secret) : memory(kMemoryBytes) {
        verbs::DeviceOptions options;
        options.secret = secret;
        device = must(verbs::make_device(options));
        must(device->register_memory({memory, -1, 0}, Access::kRemote));
        endpoint = must(device->make_endpoint({}));
    }

    std::vector<std::byte> memory;
    std::unique_ptr<Device> device;
    std::unique_ptr<Endpoint> endpoint;
};

void post_message(Endpoint& endpoint, ConnectionId to, std::span<const std::byte> bytes) {
    if (endpoint.send(to, {&bytes, 1}) != Post::kPosted) give_up({Errc::kBusy, "not sent"});
    endpoint.flush();
}

/// Sends the address of its memory to the peer that connects, then returns every message.
void serve(const Secret& secret, int address_pipe) {
    Party party(secret);
    Endpoint& endpoint = *party.endpoint;
    const std::string address = endpoint.address() + "\n";
    if (::write(address_pipe, address.data(), address.size()) < 0) std::exit(2);
    ::close(address_pipe);
    std::array<Completion, 32> completions;
    for (int idle = 0;; ++idle) {
        const size_t count = endpoint.poll(completions);
        if (count > 0) idle = 0;
        for (size_t i = 0; i < count; ++i) {
            const Completion& c = completions[i];
            if (c.event == Event::kClosed) return;
            if (c.event == Event::kReceived) post_message(endpoint, c.connection, c.message);
            if (c.event != Event::kAccepted) continue;
            const RemoteSpan span = must(endpoint.expose(c.connection, party.memory));
            post_message(endpoint, c.connection, std::as_bytes(std::span(&span, 1)));
        }
        if (idle < kSpins) continue;
        pollfd sleep{endpoint.arm(), POLLIN, 0};
        ::poll(&sleep, 1, -1);
    }
}

struct Client {
    Party party;
    ConnectionId connection = 0;
    RemoteSpan there;
    std::array<Completion, 32> completions{};

    Client(const Secret& secret, const std::string& address) : party(secret) {
        connection = must(party.endpoint->connect(address));
        const auto message = wait_for(Event::kReceived);
        std::memcpy(&there, message.message.data(), sizeof(there));
    }

    Completion wait_for(Event event) {
        for (;;) {
            const size_t count = party.endpoint->poll(completions);
            for (size_t i = 0; i < count; ++i) {
                if (completions[i].event == Event::kClosed) give_up({Errc::kPeerLost, "closed"});
                if (completions[i].event == event) return completions[i];
            }
        }
    }

    /// MiB/s of `total` READs, `in_flight` at a time.
    double read_bandwidth(size_t in_flight, size_t total) {
        const SteadyClock clock;
        size_t posted = 0;
        const auto post = [&](uint64_t slot) {
            const std::span<std::byte> into{party.memory.data() + slot * kReadBytes, kReadBytes};
            const RemoteSpan from{there.address + slot * kReadBytes, kReadBytes, there.key};
            if (party.endpoint->read(connection, into, from, slot) != Post::kPosted) {
                give_up({Errc::kBusy, "READ not posted"});
            }
            ++posted;
        };
        const uint64_t begin_ns = clock.now_ns();
        while (posted < in_flight)
            post(posted);
        for (size_t ended = 0; ended < total;) {
            const size_t count = party.endpoint->poll(completions);
            for (size_t i = 0; i < count; ++i) {
                const Completion& c = completions[i];
                if (c.event != Event::kRead || c.status != Errc::kOk) {
                    give_up({c.status == Errc::kOk ? Errc::kProtocol : c.status, "READ failed"});
                }
                ++ended;
                if (posted < total) post(c.context);
            }
        }
        const auto took_ns = static_cast<double>(clock.now_ns() - begin_ns);
        return static_cast<double>(total * kReadBytes) * 1e9 / took_ns / (1 << 20);
    }

    /// Cycles of each of `total` round trips, sorted.
    std::vector<uint64_t> round_trips(size_t bytes, size_t total) {
        std::vector<uint64_t> cycles;
        for (size_t i = 0; i < total; ++i) {
            // Not SteadyClock: a guest's clock may be an emulated device, which is slow to read.
            const uint64_t begin = __builtin_ia32_rdtsc();
            post_message(*party.endpoint, connection, std::span(party.memory).first(bytes));
            static_cast<void>(wait_for(Event::kReceived));
            cycles.push_back(__builtin_ia32_rdtsc() - begin);
        }
        std::sort(cycles.begin(), cycles.end());
        return cycles;
    }
};

double cycles_per_us() {
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    const uint64_t begin = __builtin_ia32_rdtsc();
    while (clock.now_ns() < begin_ns + 200 * kMillisecond) {
    }
    const uint64_t cycles = __builtin_ia32_rdtsc() - begin;
    return static_cast<double>(cycles) * 1e3 / static_cast<double>(clock.now_ns() - begin_ns);
}

void measure(const Secret& secret, const std::string& address, size_t reads, size_t trips) {
    Client client(secret, address);
    for (const size_t bytes : {size_t{64}, size_t{128}, size_t{256}}) {
        client.round_trips(bytes, trips / 10 + 1);
        const auto cycles = client.round_trips(bytes, trips);
        const double per_us = cycles_per_us();
        fmt::print("round_trip size_bytes={} min_us={:.2f} p50_us={:.2f} p99_us={:.2f}\n", bytes,
                   static_cast<double>(cycles.front()) / per_us,
                   static_cast<double>(cycles[cycles.size() / 2]) / per_us,
                   static_cast<double>(cycles[cycles.size() * 99 / 100]) / per_us);
    }
    for (const size_t in_flight : {size_t{1}, size_t{4}, size_t{16}}) {
        client.read_bandwidth(in_flight, reads / 10 + in_flight);
        fmt::print("read size_bytes={} in_flight={} MiB_per_s={:.2f}\n", kReadBytes, in_flight,
                   client.read_bandwidth(in_flight, reads));
    }
    client.party.endpoint->close(client.connection);
    static_cast<void>(client.party.endpoint->poll(client.completions));
}

int measure_here(size_t reads, size_t trips) {
    const Secret secret = random_bytes();
    int ends[2];
    if (::pipe(ends) != 0) return 2;
    const pid_t child = ::fork();
    if (child < 0) return 2;
    if (child == 0) {
        ::close(ends[0]);
        serve(secret, ends[1]);
        return 0;
    }
    ::close(ends[1]);
    std::array<char, 256> address{};
    const ssize_t length = ::read(ends[0], address.data(), address.size());
    if (length <= 1) return 2;
    measure(secret, {address.data(), static_cast<size_t>(length - 1)}, reads, trips);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

size_t number(int argc, char** argv, int index) {
    return argc > index ? std::strtoul(argv[index], nullptr, 10) : 2000;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    const Secret nobodys{};  // all zero, because two hosts share none: for measuring only
    if (mode == "listen") {
        serve(nobodys, STDOUT_FILENO);
        return 0;
    }
    if (mode == "connect" && argc > 2) {
        measure(nobodys, argv[2], number(argc, argv, 3), number(argc, argv, 4));
        return 0;
    }
    return measure_here(number(argc, argv, 1), number(argc, argv, 2));
}
