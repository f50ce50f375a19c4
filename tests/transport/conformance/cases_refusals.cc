// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: access outside of registered memory, or of a kind that is not allowed. A
/// RemoteSpan comes from a peer, which is not trusted. So a wrong one is not the caller's
/// mistake: it is posted and ends with an error. It may break the connection, but nothing else.

#include <doctest/doctest.h>

#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

constexpr size_t kPage = 4096;
constexpr std::byte kUntouched{0x5a};

enum class Operation { kRead, kWrite, kWriteImmediate };
constexpr Operation kOperations[] = {Operation::kRead, Operation::kWrite,
                                     Operation::kWriteImmediate};

/// Two connected parties with a page of registered memory each. All bytes in and around it are
/// kUntouched.
struct Scene {
    Stage stage;
    Party& a;
    Party& b;
    Registered near;
    Registered far;
    Link link;

    Scene(Fabric& fabric, Access far_access)
        : stage(fabric),
          a(stage.add(0)),
          b(stage.add(1)),
          near(fabric, 0, Access::kLocal),
          far(fabric, 1, far_access),
          link(stage.connect(a, b)) {
        fill(near.all(), kUntouched);
        fill(far.all(), kUntouched);
    }

    /// Connects again if a failed operation broke the connection. The two sides detect that at
    /// different times.
    void mend_link() {
        if (a.closed(link.near) || b.closed(link.far)) reconnect();
    }

    RemoteSpan exposed() {
        RemoteSpan exposed;
        // Until both sides have detected that the link is broken, expose() may fail.
        REQUIRE(stage.until([&] {
            mend_link();
            const auto span = b.endpoint().expose(link.far, far.bytes());
            if (span) exposed = *span;
            REQUIRE((span || span.code() == Errc::kPeerLost));
            return span.has_value();
        }));
        return exposed;
    }

    Post post(Operation operation, std::span<std::byte> local, const RemoteSpan& remote) {
        return stage.insist([&] {
            switch (operation) {
                case Operation::kRead: return a.read(link.near, local, remote, 1);
                case Operation::kWrite: return a.write(link.near, local, remote, 1);
                default: return a.write_immediate(link.near, local, remote, 4, 1);
            }
        });
    }

    /// Posts, and requires an error that changes no memory. The connection may break.
    void demand_failure(Operation operation, size_t length, const RemoteSpan& remote) {
        mend_link();
        const bool reads = operation == Operation::kRead;
        // Bytes that differ from kUntouched, so that a write would be detected.
        if (!reads) fill(near.bytes(), std::byte{0x11});
        REQUIRE(post(operation, near.bytes().first(length), remote) == Post::kPosted);
        REQUIRE(stage.until([&] { return a.open_operations(link.near) == 0; }));
        CHECK(a.last(reads ? Event::kRead : Event::kWritten, link.near).status != Errc::kOk);
        stage.settle();
        // Both live: neither may take what broke for the other's end.
        if (a.closed(link.near)) CHECK_FALSE(a.last(Event::kClosed, link.near).peer_ended);
        if (b.closed(link.far)) CHECK_FALSE(b.last(Event::kClosed, link.far).peer_ended);
        CHECK(all_are(far.all(), kUntouched));
        if (reads) CHECK(all_are(near.all(), kUntouched));
        fill(near.bytes(), kUntouched);
        CHECK(b.count(Event::kImmediate, link.far) == 0);
    }

    /// Replaces the connection by a new one, which must work.
    void reconnect() {
        a.endpoint().close(link.near);
        b.endpoint().close(link.far);
        REQUIRE(stage.until([&] { return a.closed(link.near) && b.closed(link.far); }));
        link = stage.connect(a, b);
        stage.send(a, link.near, "well?");
        REQUIRE(stage.until([&] { return b.count(Event::kReceived, link.far) == 1; }));
    }
};

void outside_of_the_region(Fabric& fabric) {
    Scene scene(fabric, Access::kRemote);

    struct Wrong {
        uint64_t offset;
        uint64_t length;
    };

    for (const Operation operation : kOperations) {
        for (const Wrong wrong :
             {Wrong{kPage - 7, 8}, Wrong{kPage, 8}, Wrong{~uint64_t{0}, 1},
              Wrong{uint64_t{0} - 8, 16}, Wrong{kPage, kPage}, Wrong{uint64_t{1} << 40, 64}}) {
            if (scene.a.closed(scene.link.near)) scene.reconnect();
            const RemoteSpan good = scene.exposed();
            scene.demand_failure(operation, wrong.length,
                                 {good.address + wrong.offset, wrong.length, good.key});
        }
    }
    scene.reconnect();
}

void addresses_that_wrap(Fabric& fabric) {
    Scene scene(fabric, Access::kRemote);
    for (const Operation operation : kOperations) {
        for (const uint64_t address : {uint64_t{0} - 64, uint64_t{0} - 1, uint64_t{0} - kPage}) {
            if (scene.a.closed(scene.link.near)) scene.reconnect();
            scene.demand_failure(operation, kPage, {address, kPage, scene.exposed().key});
        }
    }
    scene.reconnect();
}

void a_key_that_is_not(Fabric& fabric) {
    Scene scene(fabric, Access::kRemote);
    for (const Operation operation : kOperations) {
        for (const uint64_t flip : {uint64_t{1}, uint64_t{0x100}, uint64_t{0x7fffffff}}) {
            if (scene.a.closed(scene.link.near)) scene.reconnect();
            const RemoteSpan good = scene.exposed();
            scene.demand_failure(operation, 64, {good.address, 64, good.key ^ flip});
        }
    }
    scene.reconnect();
}

void the_wrong_kind_of_access(Fabric& fabric) {
    {
        Scene scene(fabric, Access::kRemoteRead);
        scene.demand_failure(Operation::kWrite, 64,
                             {scene.exposed().address, 64, scene.exposed().key});
        scene.reconnect();
        scene.demand_failure(Operation::kWriteImmediate, 64,
                             {scene.exposed().address, 64, scene.exposed().key});
        scene.reconnect();
        CHECK(scene.a.endpoint().map(scene.link.near, scene.exposed(), Access::kRemoteWrite) ==
              nullptr);
    }
    Scene scene(fabric, Access::kRemoteWrite);
    scene.demand_failure(Operation::kRead, 64, {scene.exposed().address, 64, scene.exposed().key});
    scene.reconnect();
    CHECK(scene.a.endpoint().map(scene.link.near, scene.exposed(), Access::kRemoteRead) == nullptr);
}

void after_deregistration(Fabric& fabric) {
    for (const Operation operation : kOperations) {
        Scene scene(fabric, Access::kRemote);
        const RemoteSpan span = scene.exposed();
        REQUIRE(scene.post(Operation::kRead, scene.near.bytes(), span) == Post::kPosted);
        REQUIRE(scene.stage.until([&] { return scene.a.open_operations(scene.link.near) == 0; }));
        CHECK(scene.a.last(Event::kRead, scene.link.near).status == Errc::kOk);
        scene.far.deregister();
        scene.demand_failure(operation, kPage, span);
        if (!scene.a.closed(scene.link.near)) {
            CHECK(scene.a.endpoint().map(scene.link.near, span, Access::kRemoteRead) == nullptr);
        }
        scene.reconnect();
        CHECK(scene.b.endpoint().expose(scene.link.far, scene.far.bytes()).code() ==
              Errc::kInvalidArgument);
    }
}

void memory_of_ours_must_be_registered(Fabric& fabric) {
    Scene scene(fabric, Access::kRemote);
    const RemoteSpan span = scene.exposed();
    std::vector<std::byte> stranger(kPage, kUntouched);
    const RemoteSpan few{span.address, 16, span.key};
    for (const Operation operation : kOperations) {
        CHECK(scene.post(operation, stranger, span) == Post::kInvalid);
        CHECK(scene.post(operation, scene.near.all().first(kPage), span) == Post::kInvalid);
        CHECK(scene.post(operation, scene.near.all().subspan(2 * kPage - 15, 16), few) ==
              Post::kInvalid);
        CHECK(scene.post(operation, scene.near.bytes().first(15), few) == Post::kInvalid);
    }
    scene.near.deregister();
    for (const Operation operation : kOperations) {
        CHECK(scene.post(operation, scene.near.bytes(), span) == Post::kInvalid);
    }
    scene.stage.settle();
    CHECK(all_are(scene.far.all(), kUntouched));
    CHECK(scene.a.seen().size() == 1);
    scene.stage.send(scene.a, scene.link.near, "no harm done");
    REQUIRE(
        scene.stage.until([&] { return scene.b.count(Event::kReceived, scene.link.far) == 1; }));
}

void expose_shows_only_what_it_may(Fabric& fabric) {
    Scene scene(fabric, Access::kRemote);
    const Registered local(fabric, 1, Access::kLocal);
    std::vector<std::byte> stranger(kPage);
    Endpoint& b = scene.b.endpoint();
    const ConnectionId far = scene.link.far;
    CHECK(b.expose(far, local.bytes()).code() == Errc::kRefused);
    CHECK(b.expose(far, stranger).code() == Errc::kInvalidArgument);
    CHECK(b.expose(far, scene.far.all()).code() == Errc::kInvalidArgument);
    CHECK(b.expose(far, scene.far.all().subspan(kPage - 1, 8)).code() == Errc::kInvalidArgument);
    CHECK(b.expose(far, scene.far.all().subspan(2 * kPage - 1, 8)).code() ==
          Errc::kInvalidArgument);
    CHECK(b.expose(far, scene.far.bytes().last(8)).has_value());
}

void map_stays_inside(Fabric& fabric) {
    Scene scene(fabric, Access::kRemote);
    const RemoteSpan good = scene.exposed();
    Endpoint& a = scene.a.endpoint();
    const ConnectionId near = scene.link.near;
    for (const RemoteSpan& wrong :
         {RemoteSpan{good.address, kPage + 1, good.key},
          RemoteSpan{good.address - 1, kPage, good.key},
          RemoteSpan{good.address + kPage, 1, good.key},
          RemoteSpan{good.address + 8, ~uint64_t{0}, good.key},
          RemoteSpan{good.address + 8, ~uint64_t{0} - good.address, good.key},
          RemoteSpan{~uint64_t{0}, 2, good.key}, RemoteSpan{good.address, 8, good.key ^ 1},
          RemoteSpan{good.address, 8, ~uint64_t{0}}, RemoteSpan{0, 0, ~good.key}}) {
        CHECK(a.map(near, wrong, Access::kRemoteRead) == nullptr);
    }
    CHECK((a.map(near, good, Access::kRemote) != nullptr) == a.capabilities().maps_memory);
}

}  // namespace

std::vector<Case> refusal_cases() {
    return {
        {"access outside of the region fails and touches nothing", outside_of_the_region},
        {"addresses that wrap fail and touch nothing", addresses_that_wrap},
        {"a key that is not one fails and touches nothing", a_key_that_is_not},
        {"the wrong kind of access fails and touches nothing", the_wrong_kind_of_access},
        {"access after deregistration fails and touches nothing", after_deregistration},
        {"memory of ours must be registered", memory_of_ours_must_be_registered},
        {"expose shows only what it may", expose_shows_only_what_it_may},
        {"map stays inside of regions", map_stays_inside},
    };
}

}  // namespace weir::transport::conformance
