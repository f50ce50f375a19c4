// SPDX-License-Identifier: Apache-2.0
/// \file
/// Guarantees of the verbs backend beyond the conformance suite. Skipped with a message where
/// there is no RDMA device.

#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/transport/verbs/parties.h"

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

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

    TEST_CASE("operations on zero bytes complete") {
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
        if (child == 0) {  // a child, because dropped capabilities cannot be regained
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

    TEST_CASE("a peer killed during transfers is detected within seconds") {
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
}
