// SPDX-License-Identifier: Apache-2.0
/// \file
/// Endpoints in two processes.
#include <algorithm>
#include <cstring>

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "tests/transport/shm/helpers.h"
#include "transport/pool/memory_pool.h"

namespace weir::transport::shm {

namespace {

using testing::Actor;
using testing::Forked;
using testing::test_device;

/// A child that accepts one connection and answers every message with itself until it is closed.
int echo(Forked& self) {
    const auto device = test_device();
    Actor actor(*device);
    self.tell(actor.endpoint().address());
    const ConnectionId id = actor.accept();
    if (id == 0) return 1;
    while (!actor.closed(id)) {
        actor.poll();
        for (const testing::Happened& one : actor.happened) {
            if (one.event == Event::kReceived) {
                while (actor.send(id, one.message) == Post::kNotNow)
                    actor.endpoint().flush();
            }
        }
        std::erase_if(actor.happened,
                      [](const testing::Happened& one) { return one.event != Event::kClosed; });
    }
    return actor.closed(id) == Errc::kOk ? 0 : 2;
}

constexpr uint64_t kGrowingBytes = uint64_t{128} << 20;
constexpr size_t kGrowingPieces[] = {1000, size_t{3} << 20, size_t{20} << 20, size_t{9} << 20,
                                     500'000};

/// A child that exposes memory, with a memfd or without, and obeys commands.
int owner(Forked& self, bool with_memfd) {
    const auto device = test_device();
    const SharedBlock memory = testing::sealed_memory(64 * 1024);
    std::memset(memory.mapping.bytes().data(), 7, 64 * 1024);
    const auto inner = memory.mapping.bytes().subspan(4096, 32 * 1024);
    const auto region =
        device->register_memory({inner, with_memfd ? memory.fd.get() : -1, 4096}, Access::kRemote);
    if (!region) return 1;
    Actor actor(*device);
    self.tell(actor.endpoint().address());
    const ConnectionId id = actor.accept();
    const auto span = actor.endpoint().expose(id, inner);
    if (!span) return 2;
    std::string text(sizeof(RemoteSpan), '\0');
    std::memcpy(text.data(), &*span, sizeof(RemoteSpan));
    if (actor.send(id, text) != Post::kPosted) return 3;
    if (actor.receive(id) != "written") return 4;
    for (const std::byte byte : inner.subspan(100, 1000)) {
        if (byte != std::byte{9}) return 5;
    }
    if (inner[99] != std::byte{7} || inner[1100] != std::byte{7}) return 6;
    device->deregister_memory(*region);
    if (actor.send(id, "deregistered") != Post::kPosted) return 7;
    return actor.until([&] { return actor.closed(id).has_value(); }) ? 0 : 8;
}

Errc last_status(Actor& actor, Event event) {
    Errc status = Errc::kBusy;  // none of those that come
    actor.poll();
    for (const testing::Happened& one : actor.happened) {
        if (one.event == event) status = one.status;
    }
    return status;
}

void become_nobody() {
    constexpr uid_t kNobody = 65534;
    WEIR_CHECK(::setresuid(kNobody, kNobody, kNobody) == 0);
}

bool nobody_came(const Actor& actor) {
    return std::none_of(actor.happened.begin(), actor.happened.end(),
                        [](const testing::Happened& one) { return one.event == Event::kAccepted; });
}

/// A child that exposes small and large pieces of a growing pool, and reports their content.
int pool_owner(Forked& self) {
    const auto device = test_device();
    Device* const devices[] = {device.get()};
    const auto pool = MemoryPool::make({.name = "growing", .slab_bytes = kGrowingBytes}, devices);
    if (!pool) return 1;
    Actor actor(*device);
    self.tell(actor.endpoint().address());
    const ConnectionId id = actor.accept();
    for (size_t i = 0; i < std::size(kGrowingPieces); ++i) {
        std::byte* const piece = (*pool)->allocate(kGrowingPieces[i]);
        if (piece == nullptr) return 2;
        const std::span<std::byte> bytes(piece, kGrowingPieces[i]);
        std::memset(bytes.data(), static_cast<int>(i + 1), bytes.size());
        const auto span = actor.endpoint().expose(id, bytes);
        if (!span) return 3;
        std::string text(sizeof(RemoteSpan), '\0');
        std::memcpy(text.data(), &*span, sizeof(RemoteSpan));
        if (actor.send(id, text) != Post::kPosted) return 4;
        if (actor.receive(id) != "written") return 5;
        if (bytes.front() != std::byte{0x77} || bytes.back() != std::byte{0x77}) return 6;
    }
    if ((*pool)->statistics().backed_bytes >= kGrowingBytes) return 7;
    return actor.until([&] { return actor.closed(id).has_value(); }) ? 0 : 8;
}

}  // namespace

TEST_SUITE("processes") {
    TEST_CASE("a peer reads and writes memory of a pool that grew after it was mapped") {
        Forked child(pool_owner);
        const auto device = test_device();
        const SharedBlock memory = testing::sealed_memory(kGrowingPieces[2]);
        const auto region =
            device->register_memory({memory.mapping.bytes(), memory.fd.get(), 0}, Access::kLocal);
        REQUIRE(region.has_value());
        Actor actor(*device);
        const ConnectionId id = actor.connect(child.hear());
        REQUIRE(id != 0);
        uint64_t key = 0;
        for (size_t i = 0; i < std::size(kGrowingPieces); ++i) {
            CAPTURE(i);
            const auto text = actor.receive(id);
            REQUIRE(text.has_value());
            REQUIRE(text->size() == sizeof(RemoteSpan));
            RemoteSpan span;
            std::memcpy(&span, text->data(), sizeof(span));
            REQUIRE(span.length_bytes == kGrowingPieces[i]);
            if (i > 0) CHECK(span.key == key);  // one region, told once
            key = span.key;
            std::byte* const mapped = actor.endpoint().map(id, span, Access::kRemote);
            REQUIRE(mapped != nullptr);
            CHECK(mapped[0] == static_cast<std::byte>(i + 1));
            CHECK(std::memcmp(mapped, mapped + 1, span.length_bytes - 1) == 0);
            const std::span<std::byte> copy = memory.mapping.bytes().first(span.length_bytes);
            REQUIRE(actor.endpoint().read(id, copy, span, 1) == Post::kPosted);
            CHECK(last_status(actor, Event::kRead) == Errc::kOk);
            CHECK(std::memcmp(copy.data(), mapped, copy.size()) == 0);
            std::memset(copy.data(), 0x77, copy.size());
            REQUIRE(actor.endpoint().write(id, copy, span, 2) == Post::kPosted);
            CHECK(last_status(actor, Event::kWritten) == Errc::kOk);
            REQUIRE(actor.send(id, "written") == Post::kPosted);
        }
        actor.endpoint().close(id);
        actor.poll();
        CHECK(child.join() == 0);
        device->deregister_memory(*region);
    }

    TEST_CASE("messages of all lengths go to another process and back") {
        Random random(testing::seed_for("processes echo"));
        Forked child(echo);
        const auto device = test_device();
        Actor actor(*device);
        const ConnectionId id = actor.connect(child.hear());
        REQUIRE(id != 0);
        CHECK(actor.endpoint().peer_name(id) ==
              "pid " + std::to_string(child.pid()) + " on this host");
        for (int i = 0; i < 2000; ++i) {
            const std::string text(random.below(8193), static_cast<char>('a' + i % 26));
            REQUIRE(actor.send(id, text) == Post::kPosted);
            REQUIRE(actor.receive(id) == text);
        }
        actor.endpoint().close(id);
        actor.poll();
        CHECK(actor.closed(id) == Errc::kOk);
        CHECK(child.join() == 0);
    }

    TEST_CASE("a process of another user is refused, though it knows the secret") {
        if (::geteuid() != 0) {
            MESSAGE("SKIPPED: only root can be two users");
            return;
        }
        Forked child([](Forked& self) {
            become_nobody();
            const auto device = test_device();
            Actor actor(*device);
            self.tell(actor.endpoint().address());
            return actor.connect(self.hear()) == 0 && nobody_came(actor) ? 0 : 2;
        });
        const auto device = test_device();
        Actor actor(*device);
        const std::string its_address = child.hear();
        child.tell(actor.endpoint().address());
        CHECK(actor.connect(its_address) == 0);
        CHECK(child.join() == 0);
        CHECK(nobody_came(actor));
    }

    TEST_CASE("each side looks at the other's user by itself") {
        if (::geteuid() != 0) {
            MESSAGE("SKIPPED: only root can be two users");
            return;
        }
        // A peer that knows the secret and does not check which user the other side is.
        SUBCASE("who accepts") {
            Forked child([](Forked& self) {
                become_nobody();
                testing::RawPeer peer;
                return peer.connect(self.hear(), [] { usleep(10); }) ? 2 : 0;
            });
            const auto device = test_device();
            Actor actor(*device);
            child.tell(actor.endpoint().address());
            CHECK(actor.until([&] { return actor.endpoint().counters().refused == 1; }));
            CHECK(child.join() == 0);
            CHECK(nobody_came(actor));
        }
        SUBCASE("who connects") {
            const auto device = test_device();
            Actor actor(*device);
            std::string address = actor.endpoint().address();
            address.back() = address.back() == '0' ? '1' : '0';
            Forked child([&](Forked& self) {
                become_nobody();
                const auto listener = listen_abstract(testing::socket_name_of(address));
                if (!listener) return 1;
                self.tell("listening");
                if (self.hear() != "look") return 3;
                const Descriptor socket(::accept(listener->get(), nullptr, nullptr));
                Packet packet;
                return receive_packet(socket.get(), packet) == Receive::kEnd ? 0 : 2;
            });
            REQUIRE(child.hear() == "listening");
            const auto id = actor.endpoint().connect(address);
            REQUIRE(id.has_value());
            actor.poll();
            CHECK(actor.closed(*id) == Errc::kRefused);
            child.tell("look");
            CHECK(child.join() == 0);  // not even greeted
        }
    }

    TEST_CASE("a process that is stopped for a while is waited for") {
        Forked child(echo);
        const std::string address = child.hear();
        REQUIRE(::kill(child.pid(), SIGSTOP) == 0);
        const auto device = test_device();
        Actor actor(*device);
        const auto id = actor.endpoint().connect(address);
        REQUIRE(id.has_value());
        const SteadyClock clock;
        const uint64_t end_ns = clock.now_ns() + kSecond;  // longer than a place is sure to it
        CHECK(actor.until([&] { return clock.now_ns() > end_ns; }));
        CHECK_FALSE(actor.closed(*id).has_value());
        REQUIRE(::kill(child.pid(), SIGCONT) == 0);
        CHECK(actor.until([&] { return actor.count(Event::kConnected, *id) == 1; }));
        actor.endpoint().close(*id);
        CHECK(child.join() == 0);
    }

    TEST_CASE("a killed process is noticed after all it had sent") {
        Forked child([](Forked& self) {
            const auto device = test_device();
            Actor actor(*device);
            self.tell(actor.endpoint().address());
            const ConnectionId id = actor.accept();
            for (int i = 0; i < 100; ++i)
                static_cast<void>(actor.send(id, std::to_string(i)));
            actor.endpoint().flush();
            self.tell("sent");
            pause();
            return 0;
        });
        const auto device = test_device();
        Actor actor(*device);
        const ConnectionId id = actor.connect(child.hear());
        REQUIRE(id != 0);
        REQUIRE(child.hear() == "sent");
        child.kill();
        CHECK(child.join() == -1);
        SUBCASE("polling") {
            REQUIRE(actor.until([&] { return actor.closed(id).has_value(); }));
        }
        SUBCASE("sleeping") {
            for (int i = 0; i < 200 && !actor.closed(id); ++i) {
                pollfd one{actor.endpoint().arm(), POLLIN, 0};
                REQUIRE(::poll(&one, 1, 60'000) == 1);
                actor.poll();
            }
        }
        CHECK(actor.closed(id) == Errc::kPeerLost);
        CHECK(actor.happened.back().event == Event::kClosed);
        CHECK(actor.count(Event::kReceived, id) == 100);
        CHECK(actor.send(id, "anybody?") == Post::kClosed);
    }

    TEST_CASE("a killed process is noticed while a child that it has forked lives on") {
        Forked child([](Forked& self) {
            const auto device = test_device();
            Actor actor(*device);
            self.tell(actor.endpoint().address());
            const ConnectionId id = actor.accept();
            static_cast<void>(actor.send(id, "last words"));
            actor.endpoint().flush();
            const pid_t grandchild = ::fork();
            if (grandchild != 0) self.tell(std::to_string(grandchild));
            pause();
            return 0;
        });
        const auto device = test_device();
        Actor actor(*device);
        const ConnectionId id = actor.connect(child.hear());
        REQUIRE(id != 0);
        const pid_t grandchild = std::stoi(child.hear());
        child.kill();
        CHECK(child.join() == -1);
        CHECK(actor.until([&] { return actor.closed(id).has_value(); }));
        CHECK(actor.closed(id) == Errc::kPeerLost);
        CHECK(actor.count(Event::kReceived, id) == 1);
        CHECK(::kill(grandchild, SIGKILL) == 0);
    }

    TEST_CASE("memory of another process is read, written and gone when deregistered") {
        for (const bool with_memfd : {true, false}) {
            CAPTURE(with_memfd);
            Forked child([&](Forked& self) { return owner(self, with_memfd); });
            const auto device = test_device();
            std::vector<std::byte> near(32 * 1024);
            REQUIRE(device->register_memory({near}, Access::kLocal).has_value());
            Actor actor(*device);
            const ConnectionId id = actor.connect(child.hear());
            REQUIRE(id != 0);
            const auto text = actor.receive(id);
            REQUIRE(text.has_value());
            REQUIRE(text->size() == sizeof(RemoteSpan));
            RemoteSpan span;
            std::memcpy(&span, text->data(), sizeof(span));
            const std::span<std::byte> local(near);
            REQUIRE(actor.endpoint().read(id, near, span, 1) == Post::kPosted);
            CHECK(last_status(actor, Event::kRead) == Errc::kOk);
            CHECK(near[0] == std::byte{7});
            CHECK(near.back() == std::byte{7});
            CHECK((actor.endpoint().map(id, span, Access::kRemote) != nullptr) == with_memfd);
            std::fill(near.begin(), near.end(), std::byte{9});
            const RemoteSpan piece{span.address + 100, 1000, span.key};
            REQUIRE(actor.endpoint().write(id, local.first(1000), piece, 2) == Post::kPosted);
            CHECK(last_status(actor, Event::kWritten) == Errc::kOk);
            const RemoteSpan beyond{span.address + 32 * 1024 - 8, 16, span.key};
            REQUIRE(actor.endpoint().read(id, local.first(16), beyond, 3) == Post::kPosted);
            CHECK(last_status(actor, Event::kRead) == Errc::kOutOfRange);
            CHECK(actor.endpoint().counters().bytes_staged == (with_memfd ? 0 : 32 * 1024));
            REQUIRE(actor.send(id, "written") == Post::kPosted);
            REQUIRE(actor.receive(id) == "deregistered");
            REQUIRE(actor.endpoint().read(id, local.first(1000), piece, 4) == Post::kPosted);
            CHECK(last_status(actor, Event::kRead) == Errc::kOutOfRange);
            CHECK(actor.endpoint().map(id, span, Access::kRemoteRead) == nullptr);
            actor.endpoint().close(id);
            CHECK(child.join() == 0);
        }
    }

    TEST_CASE("two processes that sleep whenever they can wake each other") {
        constexpr int kRounds = 2000;
        const auto play = [](Actor& actor, ConnectionId id) {
            for (int round = 0; round < kRounds;) {
                // accept() may have taken the first message already.
                const size_t balls = actor.count(Event::kReceived, id);
                std::erase_if(actor.happened, [](const testing::Happened& one) {
                    return one.event == Event::kReceived;
                });
                if (balls == 0 && actor.poll() == 0) {
                    pollfd one{actor.endpoint().arm(), POLLIN, 0};
                    if (::poll(&one, 1, 60'000) != 1) return false;
                }
                for (size_t i = 0; i < balls; ++i)
                    static_cast<void>(actor.send(id, "ball"));
                round += static_cast<int>(balls);
            }
            actor.endpoint().flush();
            return true;
        };
        Forked child([&](Forked& self) {
            const auto device = test_device();
            Actor actor(*device);
            self.tell(actor.endpoint().address());
            const ConnectionId id = actor.accept();
            const bool well = play(actor, id);
            static_cast<void>(self.hear());  // the endpoint must outlive the other's last ball
            return well ? 0 : 1;
        });
        const auto device = test_device();
        Actor actor(*device);
        const ConnectionId id = actor.connect(child.hear());
        REQUIRE(id != 0);
        REQUIRE(actor.send(id, "ball") == Post::kPosted);
        CHECK(play(actor, id));
        child.tell("done");
        CHECK(child.join() == 0);
    }

    TEST_CASE("a process with another secret is refused") {
        Forked child([](Forked& self) {
            DeviceOptions options;
            options.secret = random_bytes();
            const auto device = test_device(options);
            Actor actor(*device);
            const auto id = actor.endpoint().connect(self.hear());
            if (!id || !actor.until([&] { return actor.closed(*id).has_value(); })) return 1;
            return actor.closed(*id) == Errc::kRefused ? 0 : 2;
        });
        const auto device = test_device();
        Actor actor(*device);
        child.tell(actor.endpoint().address());
        bool over = false;
        CHECK(actor.until([&] {
            if (!over)
                over =
                    child.pid() > 0 &&
                    access(("/proc/" + std::to_string(child.pid()) + "/fd/0").c_str(), F_OK) != 0;
            return over;
        }));
        CHECK(child.join() == 0);
        CHECK(actor.happened.empty());
    }
}

}  // namespace weir::transport::shm
