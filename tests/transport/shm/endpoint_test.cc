// SPDX-License-Identifier: Apache-2.0
/// \file
/// What only shm endpoints do. The conformance suite tests the contract of all transports.
#include "transport/shm/endpoint.h"

#include <atomic>
#include <thread>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/log_lines.h"
#include "tests/transport/shm/helpers.h"

namespace weir::transport::shm {

namespace {

using testing::Actor;
using testing::Forked;
using testing::readable;
using testing::test_device;

}  // namespace

TEST_SUITE("endpoint") {
    TEST_CASE("addresses of other hosts and other transports are recognised at once") {
        const auto device = test_device();
        Actor a(*device);
        std::string address = a.endpoint().address();
        CHECK(address.starts_with("shm:"));
        address[4] = address[4] == '0' ? '1' : '0';
        CHECK(a.endpoint().connect(address).code() == Errc::kUnavailable);
        CHECK(a.endpoint().connect("verbs:10.0.0.1:4711").code() == Errc::kUnavailable);
        CHECK(a.endpoint().connect("shm:nonsense").code() == Errc::kInvalidArgument);
        CHECK(a.endpoint().connect("shm:").code() == Errc::kInvalidArgument);
    }

    TEST_CASE("wishes are cut to what is possible") {
        const auto device = test_device();
        EndpointOptions greedy;
        greedy.message_bytes_max = ~0U;
        greedy.messages_in_flight = ~0U;
        Actor a(*device, greedy);
        CHECK(a.endpoint().capabilities().message_bytes_max == kMessageBytesCap);
        EndpointOptions modest;
        modest.message_bytes_max = 0;
        modest.messages_in_flight = 0;
        Actor b(*device, modest);
        const ConnectionId near = a.connect(b.endpoint().address(), &b);
        REQUIRE(near != 0);
        CHECK(a.send(near, std::string(kMessageBytesCap, 'x')) == Post::kPosted);
        a.endpoint().flush();
        CHECK(b.receive(b.accept()).value_or("").size() == kMessageBytesCap);
    }

    TEST_CASE("an endpoint can connect to itself") {
        const auto device = test_device();
        Actor a(*device);
        const ConnectionId near = a.connect(a.endpoint().address());
        REQUIRE(near != 0);
        REQUIRE(a.send(near, "hello me") == Post::kPosted);
        CHECK(a.receive(a.accept()) == "hello me");
    }

    TEST_CASE("a poll brings one batch, but everything to who finds something every time") {
        for (const bool direct : {true, false}) {
            CAPTURE(direct);
            const auto first = test_device();
            const auto second = test_device();
            Actor a(*first);
            Actor b(direct ? *first : *second);
            const ConnectionId near = a.connect(b.endpoint().address(), &b);
            REQUIRE(near != 0);
            const ConnectionId far = b.accept();
            const auto send = [&](std::initializer_list<const char*> batch) {
                for (const char* text : batch)
                    REQUIRE(a.send(near, text) == Post::kPosted);
                a.endpoint().flush();
            };
            while (b.poll() > 0)
                continue;
            send({"1", "2"});
            send({"3"});
            CHECK(b.poll() == 2);
            send({"4", "5"});
            send({"6"});
            CHECK(b.poll() == 4);
            CHECK(b.poll() == 0);
            send({"7"});
            send({"8"});
            CHECK(b.poll() == 1);
            for (const char* text : {"1", "2", "3", "4", "5", "6", "7", "8"})
                CHECK(b.receive(far) == text);
        }
    }

    TEST_CASE("connections beyond the limit are refused") {
        for (const bool direct : {true, false}) {
            CAPTURE(direct);
            const auto first = test_device();
            const auto second = test_device();
            EndpointOptions few;
            few.connections_max = 3;
            Actor a(*first, few);
            Actor b(direct ? *first : *second);
            for (int i = 0; i < 3; ++i)
                REQUIRE(b.connect(a.endpoint().address(), &a) != 0);
            CHECK(b.connect(a.endpoint().address(), &a) == 0);
            CHECK(a.endpoint().connect(b.endpoint().address()).code() == Errc::kBusy);
        }
    }

    TEST_CASE("memory without a memfd is read and written through the kernel") {
        const auto first = test_device();
        const auto second = test_device();
        Actor a(*first);
        Actor b(*second);
        std::vector<std::byte> near(10'000, std::byte{1});
        std::vector<std::byte> far(20'000, std::byte{2});
        REQUIRE(first->register_memory({near}, Access::kLocal).has_value());
        REQUIRE(second->register_memory({far}, Access::kRemote).has_value());
        const ConnectionId id = a.connect(b.endpoint().address(), &b);
        REQUIRE(id != 0);
        const auto span =
            b.endpoint().expose(b.accept(), std::span(far).subspan(5000, near.size()));
        REQUIRE(span.has_value());
        CHECK(a.endpoint().map(id, *span, Access::kRemoteRead) == nullptr);
        REQUIRE(a.endpoint().read(id, near, *span, 1) == Post::kPosted);
        a.poll();
        REQUIRE(a.happened.back().event == Event::kRead);
        CHECK(a.happened.back().status == Errc::kOk);
        CHECK(near[9999] == std::byte{2});
        std::fill(near.begin(), near.end(), std::byte{3});
        REQUIRE(a.endpoint().write(id, near, *span, 2) == Post::kPosted);
        CHECK(far[4999] == std::byte{2});
        CHECK(far[5000] == std::byte{3});
        CHECK(far[14'999] == std::byte{3});
        CHECK(far[15'000] == std::byte{2});
        CHECK(a.endpoint().counters().bytes_staged == 10'000);  // as it was read
    }

    TEST_CASE("deregistering waits for a thread that has the memory mapped") {
        const auto device = test_device();
        Actor a(*device);
        Actor b(*device);
        std::vector<std::byte> far(4096, std::byte{1});
        const auto region = device->register_memory({far}, Access::kRemote);
        REQUIRE(region.has_value());
        const ConnectionId id = a.connect(b.endpoint().address(), &b);
        REQUIRE(id != 0);
        const auto span = b.endpoint().expose(b.accept(), far);
        REQUIRE(span.has_value());
        std::atomic<int> stage{0};
        std::atomic<bool> deregisters{false};
        std::thread other([&] {
            const std::byte* const there = a.endpoint().map(id, *span, Access::kRemoteRead);
            stage = there == far.data() ? 1 : -1;
            while (!deregisters)
                std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            stage = 2;
            a.poll();
        });
        while (stage == 0)
            std::this_thread::yield();
        REQUIRE(stage >= 1);
        const SteadyClock clock;
        const uint64_t begin_ns = clock.now_ns();
        deregisters = true;
        device->deregister_memory(*region);
        // It may give up on a thread that the machine does not run for so long.
        const bool waited = stage == 2;
        CHECK((waited || clock.now_ns() - begin_ns >= 200 * kMillisecond));
        // TSan checks that no thread reads it any more.
        if (waited) far.assign(far.size(), std::byte{0});
        other.join();
        CHECK(a.endpoint().map(id, *span, Access::kRemoteRead) == nullptr);
    }

    TEST_CASE("one who was turned away is not left asleep") {
        const auto device = test_device();
        EndpointOptions small;
        small.message_bytes_max = 64;
        small.messages_in_flight = 1;
        Actor a(*device, small);
        Actor b(*device, small);
        const ConnectionId id = a.connect(b.endpoint().address(), &b);
        REQUIRE(id != 0);
        while (readable(a.endpoint().arm(), 0))
            a.poll();  // what connecting left behind would wake it as well
        while (a.send(id, "fill") == Post::kPosted)
            continue;
        CHECK(readable(a.endpoint().arm(), 0));
        a.poll();
        CHECK_FALSE(readable(a.endpoint().arm(), 0));  // gave up trying: may sleep
    }

    TEST_CASE("a sleeping endpoint is rung once, and a waking one not at all") {
        for (const bool direct : {true, false}) {
            CAPTURE(direct);
            const auto first = test_device();
            const auto second = test_device();
            Actor a(*first);
            Actor b(direct ? *first : *second);
            const ConnectionId id = a.connect(b.endpoint().address(), &b);
            REQUIRE(id != 0);
            const ConnectionId far = b.accept();
            for (int i = 0; i < 10; ++i) {
                REQUIRE(a.send(id, "awake") == Post::kPosted);
                a.endpoint().flush();
                CHECK(b.receive(far) == "awake");
            }
            CHECK(a.endpoint().counters().doorbells == 0);
            while (b.poll() > 0)
                continue;
            const int fd = b.endpoint().arm();
            CHECK_FALSE(readable(fd, 0));
            for (int i = 0; i < 5; ++i) {
                REQUIRE(a.send(id, "asleep") == Post::kPosted);
                a.endpoint().flush();
            }
            CHECK(a.endpoint().counters().doorbells == 1);
            CHECK(readable(fd, 60'000));
            CHECK(b.receive(far) == "asleep");
        }
    }

    TEST_CASE("two threads that sleep whenever they can wake each other") {
        for (const bool direct : {true, false}) {
            const auto first = test_device();
            const auto second = test_device();
            Actor a(*first);
            Actor b(direct ? *first : *second);
            const ConnectionId id = a.connect(b.endpoint().address(), &b);
            REQUIRE(id != 0);
            const ConnectionId far = b.accept();
            constexpr int kRounds = 3000;
            const auto play = [](Actor& actor, ConnectionId connection, bool begins) {
                if (begins) static_cast<void>(actor.send(connection, "ball"));
                for (int round = 0; round < kRounds;) {
                    actor.happened.clear();
                    if (actor.poll() == 0 && !readable(actor.endpoint().arm(), 60'000)) {
                        return false;  // a lost wake-up
                    }
                    for (const testing::Happened& one : actor.happened) {
                        if (one.event != Event::kReceived) continue;
                        ++round;
                        static_cast<void>(actor.send(connection, "ball"));
                    }
                }
                actor.endpoint().flush();
                return true;
            };
            bool far_well = false;
            std::thread other([&] { far_well = play(b, far, false); });
            const bool near_well = play(a, id, true);
            other.join();
            CHECK(near_well);
            CHECK(far_well);
        }
    }

    TEST_CASE("no shared memory left is an error that says what to do") {
        Forked child([](Forked&) {
            signal(SIGXFSZ, SIG_IGN);
            const auto first = test_device();
            const auto second = test_device();
            Actor a(*first);
            Actor b(*second);
            const ::weir::testing::LogLines log;
            const rlimit limit = {100'000, 100'000};  // holds for memfds too
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
            const auto id = a.endpoint().connect(b.endpoint().address());
            if (!id || !a.until([&] { return a.closed(*id).has_value(); }, &b)) return 3;
            if (a.closed(*id) != Errc::kNoMemory) return 4;
            if (!log.has("memory.max")) return 5;
            return b.happened.empty() ? 0 : 6;
        });
        CHECK(child.join() == 0);
    }

    TEST_CASE("connections leave no descriptor and no mapping behind") {
        const auto first = test_device();
        const auto second = test_device();
        Actor a(*first);
        Actor b(*second);
        const SharedBlock memory = testing::sealed_memory(8192);
        REQUIRE(
            second->register_memory({memory.mapping.bytes(), memory.fd.get(), 0}, Access::kRemote)
                .has_value());
        const auto cycle = [&] {
            const ConnectionId id = a.connect(b.endpoint().address(), &b);
            REQUIRE(id != 0);
            const ConnectionId far = b.accept();
            const auto span = b.endpoint().expose(far, memory.mapping.bytes());
            REQUIRE(span.has_value());
            REQUIRE(a.endpoint().map(id, *span, Access::kRemote) != nullptr);
            a.endpoint().close(id);
            REQUIRE(b.until([&] { return b.closed(far).has_value(); }));
            a.poll();
            a.poll();
            b.poll();
            a.happened.clear();
            b.happened.clear();
        };
        for (int i = 0; i < 5; ++i)
            cycle();
        const size_t files = testing::open_files();
        const size_t maps = testing::mappings();
        for (int i = 0; i < 100; ++i)
            cycle();
        CHECK(testing::open_files() == files);
        CHECK(testing::mappings() <= maps + 4);  // the allocator may have taken more
    }
}

}  // namespace weir::transport::shm
