// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the verbs backend promises beyond the conformance suite. Needs an RDMA device; without one
/// every case says that it was skipped.

#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "transport/verbs/socket.h"
#include "transport/verbs/verbs.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;

/// A device of the job, or nothing, aloud.
std::unique_ptr<Device> device_or_skip(const DeviceOptions& options) {
    auto device = make_device(options);
    if (device) return std::move(*device);
    MESSAGE("SKIPPED: " << device.error().message());
    return nullptr;
}

struct Party {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<Completion> seen;  ///< without messages

    explicit Party(Device& device, const EndpointOptions& options = {}) {
        auto made = device.make_endpoint(options);
        REQUIRE_MESSAGE(made.has_value(), made.error().message());
        endpoint = std::move(*made);
    }

    void poll() {
        std::array<Completion, 64> completions;
        const size_t count = endpoint->poll(completions);
        seen.insert(seen.end(), completions.begin(), completions.begin() + count);
    }

    const Completion* find(Event event) const {
        for (const Completion& c : seen) {
            if (c.event == event) return &c;
        }
        return nullptr;
    }
};

bool until(const std::vector<Party*>& parties, const std::function<bool()>& done) {
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + 20 * kSecond;
    while (!done()) {
        if (clock.now_ns() > end_ns) return false;
        for (Party* const party : parties)
            party->poll();
    }
    return true;
}

struct Link {
    ConnectionId near = 0;
    ConnectionId far = 0;
};

Link connect(Party& a, Party& b) {
    const auto begun = a.endpoint->connect(b.endpoint->address());
    REQUIRE(begun.has_value());
    b.seen.clear();
    REQUIRE(until({&a, &b}, [&] {
        return a.find(Event::kConnected) != nullptr && b.find(Event::kAccepted) != nullptr;
    }));
    return {*begun, b.find(Event::kAccepted)->connection};
}

/// A plain TCP connection to an endpoint, of somebody who is not one of us.
Socket stranger(const Endpoint& endpoint) {
    const auto to = SocketAddress::parse(endpoint.address().substr(6));
    REQUIRE(to.has_value());
    auto socket = Socket::connect(*to, 4000);
    REQUIRE(socket.has_value());
    return std::move(*socket);
}

/// A fifth of the time that everybody really has.
DeviceOptions hurried_options() {
    DeviceOptions options;
    options.handshake_ms_max /= 5;
    return options;
}

bool was_closed(Socket& socket) {
    std::array<std::byte, 512> bytes;
    size_t count = 0;
    for (;;) {
        const auto got = socket.receive(bytes, count);
        if (got != Socket::Got::kSome) return got == Socket::Got::kEnd;
    }
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_SUITE("verbs device") {
    TEST_CASE("the list of devices names ports, addresses and limits") {
        const auto list = list_devices();
        if (!list) {
            MESSAGE("SKIPPED: " << list.error().message());
            CHECK(list.code() == Errc::kUnavailable);
            return;
        }
        REQUIRE_FALSE(list->empty());
        const DeviceInfo& device = list->front();
        CHECK_FALSE(device.name.empty());
        REQUIRE_FALSE(device.ports.empty());
        if (device.why_not.empty()) {
            CHECK_FALSE(device.ports[0].gids.empty());
            CHECK(device.queue_pairs_max > 0);
            CHECK(device.region_bytes_max > 0);
        }
    }

    TEST_CASE("garbage on the port closes that connection and harms no other") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        const Link link = connect(a, b);
        for (const char* const text :
             {"GET / HTTP/1.1\r\n\r\n", "WEVB\x01\x07\xff\xff", "\n\n\n\n\n\n\n\n"}) {
            Socket socket = stranger(*b.endpoint);
            std::vector<std::byte> garbage = bytes_of(text);
            REQUIRE(until({&b}, [&] { return socket.send(garbage) && garbage.empty(); }));
            CHECK(until({&b}, [&] { return was_closed(socket); }));
        }
        CHECK(b.endpoint->counters().refused == 3);
        const std::span<const std::byte> nothing;
        REQUIRE(a.endpoint->send(link.near, {&nothing, 1}) == Post::kPosted);
        CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
        CHECK(b.find(Event::kClosed) == nullptr);
    }

    TEST_CASE("friends get in behind silent strangers that come again at once") {
        const auto device = device_or_skip(hurried_options());
        if (device == nullptr) return;
        const auto other = device_or_skip(hurried_options());
        Party b(*device);
        std::vector<Socket> strangers;
        for (int i = 0; i < 200; ++i)
            strangers.push_back(stranger(*b.endpoint));
        Party a(*other);
        REQUIRE(a.endpoint->connect(b.endpoint->address()).has_value());
        size_t turn = 0;
        REQUIRE(until({&a, &b}, [&] {
            for (int i = 0; i < 8; ++i) {  // not all: this is slow in a guest
                Socket& socket = strangers[turn++ % strangers.size()];
                if (was_closed(socket)) socket = stranger(*b.endpoint);
            }
            return !a.seen.empty();
        }));
        CHECK(a.seen.front().event == Event::kConnected);
        CHECK(b.endpoint->counters().refused >= 64);
        for (Socket& socket : strangers)
            CHECK(until({&a, &b}, [&] { return was_closed(socket); }));
    }

    TEST_CASE("a slow friend whose place went to others comes again") {
        const auto device = device_or_skip(hurried_options());
        if (device == nullptr) return;
        const auto other = device_or_skip(hurried_options());
        for (const bool greeted : {false, true}) {
            CAPTURE(greeted);
            Party a(*other);
            Party b(*device);
            const auto begun = a.endpoint->connect(b.endpoint->address());
            REQUIRE(begun.has_value());
            if (greeted) {
                for (int i = 0; i < 1000; ++i)
                    a.poll();
            }
            for (int i = 0; i < 1000; ++i)
                b.poll();  // it has the first place
            std::vector<Socket> strangers;
            for (int i = 0; i < 64; ++i)
                strangers.push_back(stranger(*b.endpoint));
            REQUIRE(until({&b}, [&] { return b.endpoint->counters().refused == 1; }));
            REQUIRE(until({&a, &b},
                          [&] { return !a.seen.empty() && b.find(Event::kAccepted) != nullptr; }));
            CHECK(a.seen.front().event == Event::kConnected);
            const std::span<const std::byte> nothing;
            REQUIRE(a.endpoint->send(*begun, {&nothing, 1}) == Post::kPosted);
            CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
        }
    }

    TEST_CASE("a connection to somebody who never answers ends in time") {
        DeviceOptions options;
        options.handshake_ms_max = 300;
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        const auto deaf = listen_on(*SocketAddress::parse_host("127.0.0.1", 0));
        REQUIRE(deaf.has_value());
        Party a(*device);
        const auto begun = a.endpoint->connect("verbs:" + SocketAddress::own(deaf->get()).text());
        REQUIRE(begun.has_value());
        CHECK(until({&a}, [&] { return a.find(Event::kClosed) != nullptr; }));
        CHECK(a.find(Event::kClosed)->status == Errc::kDeadline);
    }

    TEST_CASE("endpoints can be bound to IPv6, and ports are taken once") {
        DeviceOptions options;
        options.bind_address = "::1";
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        CHECK(b.endpoint->address().starts_with("verbs:[::1]:"));
        static_cast<void>(connect(a, b));

        const std::string address = b.endpoint->address();
        options.port = static_cast<uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
        const auto other = make_device(options);
        REQUIRE(other.has_value());
        const auto taken = (*other)->make_endpoint({});
        CHECK(taken.code() == Errc::kAlreadyExists);
    }

    TEST_CASE("operations longer than any work request arrive whole") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        constexpr size_t kBytes = (20 << 20) + 12345;
        std::vector<std::byte> here(kBytes);
        std::vector<std::byte> there(kBytes);
        for (size_t i = 0; i < kBytes; ++i)
            there[i] = static_cast<std::byte>(i * 7 + (i >> 16));
        REQUIRE(device->register_memory({here, -1, 0}, Access::kLocal).has_value());
        REQUIRE(device->register_memory({there, -1, 0}, Access::kRemote).has_value());
        Party a(*device);
        Party b(*device);
        const Link link = connect(a, b);
        const auto span = b.endpoint->expose(link.far, there);
        REQUIRE(span.has_value());
        REQUIRE(a.endpoint->read(link.near, here, *span, 5) == Post::kPosted);
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kRead) != nullptr; }));
        CHECK(a.find(Event::kRead)->status == Errc::kOk);
        CHECK(here == there);
        std::fill(there.begin(), there.end(), std::byte{0});
        REQUIRE(a.endpoint->write_immediate(link.near, here, *span, 77, 6) == Post::kPosted);
        REQUIRE(until({&a, &b}, [&] { return b.find(Event::kImmediate) != nullptr; }));
        CHECK(b.find(Event::kImmediate)->immediate == 77);
        CHECK(here == there);
    }

    TEST_CASE("operations on nothing complete") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        std::vector<std::byte> memory(4096);
        REQUIRE(device->register_memory({memory, -1, 0}, Access::kRemote).has_value());
        Party a(*device);
        Party b(*device);
        const Link link = connect(a, b);
        const auto span = b.endpoint->expose(link.far, std::span(memory).first(0));
        REQUIRE(span.has_value());
        REQUIRE(a.endpoint->read(link.near, {}, *span, 1) == Post::kPosted);
        REQUIRE(a.endpoint->write(link.near, {}, *span, 2) == Post::kPosted);
        REQUIRE(a.endpoint->write_immediate(link.near, {}, *span, 9, 3) == Post::kPosted);
        REQUIRE(until({&a, &b}, [&] { return a.seen.size() == 4 && b.seen.size() == 2; }));
        for (size_t i = 1; i < 4; ++i)
            CHECK(a.seen[i].status == Errc::kOk);
        CHECK(b.seen[1].immediate == 9);
    }

    TEST_CASE("memory beyond the limit is refused with the limit to set") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {  // a process of its own, since what it gives up does not come back
            __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
            __user_cap_data_struct none[2]{};
            const rlimit limit{1 << 20, 1 << 20};
            std::vector<std::byte> memory(8 << 20);
            auto own = make_device({});
            if (!own || ::setrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
                ::syscall(SYS_capset, &header, none) != 0) {
                ::_exit(2);
            }
            const auto region = (*own)->register_memory({memory, -1, 0}, Access::kLocal);
            if (region.has_value()) ::_exit(3);
            const std::string& text = region.error().text();
            const bool good = region.code() == Errc::kNoMemory &&
                              text.find("8388608 bytes") != std::string::npos &&
                              text.find("1024 KiB") != std::string::npos &&
                              text.find("`ulimit -l 819") != std::string::npos;
            ::_exit(good ? 0 : 4);
        }
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 0);
    }

    TEST_CASE("a peer killed in the middle of everything is noticed within seconds") {
        DeviceOptions options;
        options.secret = random_bytes();
        if (device_or_skip(options) == nullptr) return;
        int ends[2];
        REQUIRE(::pipe(ends) == 0);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            auto device = make_device(options);
            std::vector<std::byte> memory(1 << 20);
            if (!device || !(*device)->register_memory({memory, -1, 0}, Access::kRemote)) {
                ::_exit(2);
            }
            auto endpoint = (*device)->make_endpoint({});
            if (!endpoint) ::_exit(2);
            const std::string address = (*endpoint)->address();
            if (::write(ends[1], address.data(), address.size()) < 0) ::_exit(2);
            for (std::array<Completion, 8> completions;;) {
                const size_t count = (*endpoint)->poll(completions);
                for (size_t i = 0; i < count; ++i) {
                    if (completions[i].event != Event::kAccepted) continue;
                    const RemoteSpan span = *(*endpoint)->expose(completions[i].connection, memory);
                    const auto part = std::as_bytes(std::span(&span, 1));
                    static_cast<void>((*endpoint)->send(completions[i].connection, {&part, 1}));
                }
            }
        }
        std::array<char, 256> address{};
        const ssize_t length = ::read(ends[0], address.data(), address.size());
        REQUIRE(length > 0);
        const auto device = make_device(options);
        std::vector<std::byte> memory(1 << 20);
        REQUIRE((*device)->register_memory({memory, -1, 0}, Access::kLocal).has_value());
        Party a(**device);
        const auto id = a.endpoint->connect({address.data(), static_cast<size_t>(length)});
        REQUIRE(id.has_value());
        RemoteSpan there{};
        REQUIRE(until({}, [&] {
            std::array<Completion, 1> one;
            if (a.endpoint->poll(one) == 0 || one[0].event != Event::kReceived) return false;
            std::memcpy(&there, one[0].message.data(), sizeof(there));
            return true;
        }));
        uint64_t posted = 0;
        while (posted < 40 && a.endpoint->read(*id, memory, there, posted) == Post::kPosted) {
            ++posted;
        }
        a.endpoint->flush();
        const SteadyClock clock;
        const uint64_t killed_ns = clock.now_ns();
        REQUIRE(::kill(child, SIGKILL) == 0);
        REQUIRE(until({&a}, [&] { return a.find(Event::kClosed) != nullptr; }));
        MESSAGE("noticed after " << (clock.now_ns() - killed_ns) / kMillisecond << " ms");
        CHECK(a.find(Event::kClosed)->status == Errc::kPeerLost);
        CHECK(a.seen.back().event == Event::kClosed);
        CHECK(a.seen.size() == posted + 1);
        ::waitpid(child, nullptr, 0);
    }

    TEST_CASE("librdmacm brings queue pairs up too, for those whom the side channel has proved") {
        DeviceOptions options;
        options.secret = random_bytes();
        options.connect_by = ConnectBy::kRdmaCm;
        const auto device = device_or_skip(options);
        if (device == nullptr) return;
        Party a(*device);
        Party b(*device);
        const auto begun = a.endpoint->connect(b.endpoint->address());
        REQUIRE(begun.has_value());
        REQUIRE(until({&a, &b}, [&] {
            return a.find(Event::kClosed) != nullptr || b.find(Event::kAccepted) != nullptr;
        }));
        if (const Completion* const closed = a.find(Event::kClosed)) {
            REQUIRE(closed->status == Errc::kUnavailable);
            MESSAGE("SKIPPED: no rdma_cm here");
            return;
        }
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kConnected) != nullptr; }));
        const ConnectionId far = b.find(Event::kAccepted)->connection;
        const std::vector<std::byte> text = bytes_of("hello");
        const std::span<const std::byte> part(text);
        for (int i = 0; i < 300; ++i) {
            REQUIRE(until({&a, &b}, [&] {
                return a.endpoint->send(*begun, {&part, 1}) == Post::kPosted;
            }));
        }
        REQUIRE(b.endpoint->send(far, {&part, 1}) == Post::kPosted);
        CHECK(until({&a, &b}, [&] {
            return a.endpoint->counters().messages_received == 1 &&
                   b.endpoint->counters().messages_received == 300;
        }));
        a.endpoint->close(*begun);
        CHECK(until({&a, &b}, [&] {
            return a.find(Event::kClosed) != nullptr && b.find(Event::kClosed) != nullptr;
        }));
        CHECK(b.find(Event::kClosed)->status == Errc::kOk);

        options.secret = random_bytes();
        const auto other_job = make_device(options);
        REQUIRE(other_job.has_value());
        Party stranger(**other_job);
        const auto in = stranger.endpoint->connect(b.endpoint->address());
        REQUIRE(in.has_value());
        REQUIRE(until({&stranger, &b}, [&] { return stranger.find(Event::kClosed) != nullptr; }));
        CHECK(stranger.find(Event::kClosed)->status == Errc::kRefused);
    }

    TEST_CASE("sizes that do not agree are refused with a reason") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        EndpointOptions small;
        small.message_bytes_max = 512;
        Party a(*device, small);
        Party b(*device);
        CHECK(a.endpoint->capabilities().message_bytes_max == 512);
        const auto begun = a.endpoint->connect(b.endpoint->address());
        REQUIRE(begun.has_value());
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kClosed) != nullptr; }));
        CHECK(a.find(Event::kClosed)->status == Errc::kInvalidArgument);
        CHECK(b.find(Event::kAccepted) == nullptr);
    }

    TEST_CASE("a connection too many is refused with a reason") {
        const auto device = device_or_skip({});
        if (device == nullptr) return;
        EndpointOptions two;
        two.connections_max = 2;
        Party b(*device, two);
        Party a(*device);
        for (int i = 0; i < 2; ++i) {
            a.seen.clear();
            static_cast<void>(connect(a, b));
        }
        a.seen.clear();
        REQUIRE(a.endpoint->connect(b.endpoint->address()).has_value());
        REQUIRE(until({&a, &b}, [&] { return a.find(Event::kClosed) != nullptr; }));
        CHECK(a.find(Event::kClosed)->status == Errc::kBusy);
        CHECK(b.endpoint->connect(a.endpoint->address()).code() == Errc::kBusy);
    }
}
