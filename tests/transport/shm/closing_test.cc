// SPDX-License-Identifier: Apache-2.0
/// \file
/// A connection is over once its peer has given up the memory that was exposed to it: the peer's
/// mapping cannot be revoked.
#include <algorithm>
#include <cstring>
#include <optional>

#include <doctest/doctest.h>
#include <signal.h>

#include "lib/base/clock.h"
#include "tests/transport/shm/helpers.h"

namespace weir::transport::shm {

namespace {

using testing::Actor;
using testing::Forked;
using testing::Happened;
using testing::RawPeer;
using testing::readable;
using testing::test_device;
using testing::test_secret;

constexpr size_t kBytes = 4096;
/// For a peer that takes too long.
constexpr uint64_t kBriefNs = 50 * kMillisecond;
/// For a peer that lets go in time, however busy the machine is.
constexpr uint64_t kLongNs = 60 * kSecond;
constexpr int kPatienceMs = 60'000;

/// Its connections wait that long for a peer to let go of memory.
std::unique_ptr<Device> device_that_waits(uint64_t close_timeout_ns) {
    DeviceOptions options{test_secret()};
    options.close_timeout_ns = close_timeout_ns;
    return test_device(options);
}

std::unique_ptr<Device> brief_device() {
    return device_that_waits(kBriefNs);
}

/// An endpoint with memory to expose.
struct Owner {
    explicit Owner(std::unique_ptr<Device> with = device_that_waits(kLongNs))
        : device(std::move(with)) {
        region =
            *device->register_memory({memory.mapping.bytes(), memory.fd.get(), 0}, Access::kRemote);
    }

    [[nodiscard]] RemoteSpan show(ConnectionId id) {
        return *actor.endpoint().expose(id, memory.mapping.bytes());
    }

    /// A new connection to `peer`, on which the memory was exposed.
    [[nodiscard]] ConnectionId shown_to(Actor& peer) {
        const ConnectionId id = actor.connect(peer.endpoint().address(), &peer);
        (void)show(id);
        return id;
    }

    [[nodiscard]] bool all_are(std::byte value) const {
        const auto bytes = memory.mapping.bytes();
        return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
    }

    /// The completion with which the connection ended.
    [[nodiscard]] Happened end_of(ConnectionId id) const {
        for (const Happened& one : actor.happened) {
            if (one.event == Event::kClosed && one.connection == id) return one;
        }
        FAIL("it is still open");
        return {};
    }

    [[nodiscard]] bool ends(ConnectionId id, Actor* other = nullptr) {
        return actor.until([&] { return actor.closed(id).has_value(); }, other);
    }

    void poll_often() {
        for (int i = 0; i < 10'000; ++i)
            actor.poll();
    }

    std::unique_ptr<Device> device;
    SharedBlock memory = testing::sealed_memory(kBytes);
    RegionId region = 0;
    Actor actor{*device};
};

/// A child that maps the memory that is exposed to it and then waits for a command. Then it
/// writes there, and polls until the connection is over.
int late_writer(Forked& self) {
    const auto device = test_device();
    Actor actor(*device);
    self.tell(actor.endpoint().address());
    const ConnectionId id = actor.accept();
    const auto text = actor.receive(id);
    if (!text || text->size() != sizeof(RemoteSpan)) return 1;
    RemoteSpan span;
    std::memcpy(&span, text->data(), sizeof(span));
    std::byte* const there = actor.endpoint().map(id, span, Access::kRemoteWrite);
    if (there == nullptr) return 2;
    self.tell("mapped");
    if (self.hear() != "write") return 3;
    std::fill_n(there, span.length_bytes, std::byte{9});
    return actor.until([&] { return actor.closed(id).has_value(); }) ? 0 : 4;
}

/// Connects to the child and exposes all memory to it.
ConnectionId show_to(Owner& owner, Forked& child) {
    const ConnectionId id = owner.actor.connect(child.hear());
    REQUIRE(id != 0);
    const RemoteSpan span = owner.show(id);
    std::string text(sizeof(span), '\0');
    std::memcpy(text.data(), &span, sizeof(span));
    REQUIRE(owner.actor.send(id, text) == Post::kPosted);
    owner.actor.endpoint().flush();
    REQUIRE(child.hear() == "mapped");
    return id;
}

}  // namespace

TEST_SUITE("closing") {
    TEST_CASE("a connection within the process is over once the peer has taken its end") {
        Owner owner;
        Actor peer(*owner.device);
        const ConnectionId id = owner.actor.connect(peer.endpoint().address(), &peer);
        const ConnectionId far = peer.accept();
        std::byte* const there = peer.endpoint().map(far, owner.show(id), Access::kRemoteWrite);
        REQUIRE(there != nullptr);
        owner.actor.endpoint().close(id);
        owner.poll_often();
        CHECK_FALSE(owner.actor.closed(id).has_value());
        CHECK(owner.actor.send(id, "more") == Post::kClosed);
        std::fill_n(there, kBytes, std::byte{9});  // not polled yet: it may
        REQUIRE(owner.ends(id, &peer));
        CHECK(owner.end_of(id).status == Errc::kOk);
        CHECK_FALSE(owner.end_of(id).memory_in_doubt);
        CHECK(peer.endpoint().map(far, {}, Access::kRemoteWrite) == nullptr);
    }

    TEST_CASE("a connection to another process is over once the peer has taken its end") {
        Forked child(late_writer);
        Owner owner;
        const ConnectionId id = show_to(owner, child);
        owner.actor.endpoint().close(id);
        owner.poll_often();
        CHECK_FALSE(owner.actor.closed(id).has_value());
        CHECK(owner.all_are(std::byte{0}));
        child.tell("write");
        REQUIRE(owner.ends(id));
        CHECK(owner.all_are(std::byte{9}));  // all of it, before the end
        CHECK(owner.end_of(id).status == Errc::kOk);
        CHECK_FALSE(owner.end_of(id).memory_in_doubt);
        CHECK(child.join() == 0);
    }

    TEST_CASE("a peer that dies meanwhile has let go") {
        Forked child(late_writer);
        Owner owner;
        const ConnectionId id = show_to(owner, child);
        owner.actor.endpoint().close(id);
        owner.poll_often();
        CHECK_FALSE(owner.actor.closed(id).has_value());
        child.kill();
        REQUIRE(owner.ends(id));
        CHECK_FALSE(owner.end_of(id).memory_in_doubt);
    }

    TEST_CASE("a peer that takes too long leaves the memory in doubt") {
        Forked child(late_writer);
        Owner owner(brief_device());
        const ConnectionId id = show_to(owner, child);
        owner.actor.endpoint().close(id);
        const SteadyClock clock;
        const uint64_t begin_ns = clock.now_ns();
        REQUIRE(owner.ends(id));
        CHECK(clock.now_ns() - begin_ns >= kBriefNs);
        CHECK(owner.end_of(id).status == Errc::kOk);
        CHECK(owner.end_of(id).memory_in_doubt);
        child.tell("write");
        CHECK(child.join() == 0);
    }

    TEST_CASE("a peer that is cut off and takes too long is ended, so that there is no doubt") {
        DeviceOptions options{test_secret()};
        options.cut_off_timeout_ns = kBriefNs;
        options.close_timeout_ns = kLongNs;
        for (const bool stops : {false, true}) {
            Forked child(late_writer);
            Owner owner(test_device(options));
            const ConnectionId id = show_to(owner, child);
            if (stops) REQUIRE(::kill(child.pid(), SIGSTOP) == 0);
            const SteadyClock clock;
            const uint64_t begin_ns = clock.now_ns();
            owner.actor.endpoint().cut_off(id);
            REQUIRE(owner.ends(id));
            CHECK(clock.now_ns() - begin_ns >= kBriefNs);
            CHECK_FALSE(owner.end_of(id).memory_in_doubt);
            CHECK(child.join() == -1);
        }
    }

    TEST_CASE("a peer that is cut off and lets go in time lives") {
        Forked child(late_writer);
        DeviceOptions options{test_secret()};
        options.cut_off_timeout_ns = kLongNs;
        options.close_timeout_ns = kLongNs;
        Owner owner(test_device(options));
        const ConnectionId id = show_to(owner, child);
        child.tell("write");
        owner.actor.endpoint().cut_off(id);
        REQUIRE(owner.ends(id));
        CHECK_FALSE(owner.end_of(id).memory_in_doubt);
        CHECK(child.join() == 0);
    }

    TEST_CASE("a peer within the process that takes too long leaves the memory in doubt") {
        Owner owner(brief_device());
        Actor peer(*owner.device);
        const ConnectionId id = owner.shown_to(peer);
        owner.actor.endpoint().close(id);
        REQUIRE(owner.ends(id));
        CHECK(owner.end_of(id).memory_in_doubt);
    }

    TEST_CASE("a peer's endpoint that is destroyed has let go") {
        Owner owner;
        std::optional<Actor> peer(*owner.device);
        const ConnectionId id = owner.shown_to(*peer);
        owner.actor.endpoint().close(id);
        owner.poll_often();
        CHECK_FALSE(owner.actor.closed(id).has_value());
        peer.reset();
        REQUIRE(owner.ends(id));
        CHECK_FALSE(owner.end_of(id).memory_in_doubt);
    }

    TEST_CASE("where both close at once, both are over") {
        Owner owner;
        Owner other;
        const ConnectionId id = owner.shown_to(other.actor);
        const ConnectionId far = other.actor.accept();
        (void)other.show(far);
        owner.actor.endpoint().close(id);
        other.actor.endpoint().close(far);
        REQUIRE(owner.ends(id, &other.actor));
        REQUIRE(other.ends(far, &owner.actor));
        CHECK_FALSE(owner.end_of(id).memory_in_doubt);
        CHECK_FALSE(other.end_of(far).memory_in_doubt);
    }

    TEST_CASE("a peer that was shown nothing is not waited for") {
        Owner owner;
        Actor peer(*owner.device);
        const ConnectionId id = owner.actor.connect(peer.endpoint().address(), &peer);
        owner.actor.endpoint().close(id);
        owner.actor.poll();
        CHECK(owner.actor.closed(id) == Errc::kOk);
    }

    TEST_CASE("a peer that is refused is waited for as well") {
        bool hangs_up = false;
        SUBCASE("and hangs up") {
            hangs_up = true;
        }
        SUBCASE("and does not care") {}
        Owner owner(device_that_waits(hangs_up ? kLongNs : kBriefNs));
        RawPeer bad;
        REQUIRE(bad.connect(owner.actor.endpoint().address(), [&] { owner.actor.poll(); }));
        const ConnectionId id = owner.actor.accept();
        (void)owner.show(id);
        const uint64_t garbage = ~uint64_t{0};
        std::memcpy(bad.agreement().memory.bytes().data() + kRingsAt, &garbage, sizeof(garbage));
        owner.poll_often();
        if (hangs_up) CHECK_FALSE(owner.actor.closed(id).has_value());
        // What it sends now is ignored.
        CHECK(send_packet(bad.socket(), std::as_bytes(std::span(&garbage, 1)), {}).has_value());
        if (hangs_up) bad.hang_up();
        REQUIRE(owner.ends(id));
        CHECK(owner.end_of(id).memory_in_doubt == !hangs_up);
        CHECK(owner.end_of(id).status == Errc::kProtocol);
    }

    TEST_CASE("who sleeps is woken by the peer's letting go, and by the deadline") {
        for (const bool lets_go : {true, false}) {
            Owner owner(device_that_waits(lets_go ? kLongNs : kBriefNs));
            Actor peer(*owner.device);
            const ConnectionId id = owner.shown_to(peer);
            owner.actor.endpoint().close(id);
            owner.actor.poll();
            const int fd = owner.actor.endpoint().arm();
            if (lets_go) {
                CHECK_FALSE(readable(fd, 0));
                peer.poll();
            }
            CHECK(readable(fd, kPatienceMs / 2));  // before the deadline
            while (!owner.actor.closed(id)) {
                owner.actor.poll();
                const int again = owner.actor.endpoint().arm();
                if (!owner.actor.closed(id)) REQUIRE(readable(again, kPatienceMs / 2));
            }
            CHECK(owner.end_of(id).memory_in_doubt == !lets_go);
        }
    }
}

}  // namespace weir::transport::shm
