// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: a peer that died, or whose endpoint was destroyed.

#include <doctest/doctest.h>

#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

/// Fills the link with messages and reads. Returns the number of reads that are in flight.
uint64_t overload(Stage& stage, Party& a, const Link& link, const Registered& near,
                  const RemoteSpan& span) {
    uint64_t reads = 0;
    for (int turn = 0; turn < 3; ++turn) {
        for (uint64_t i = 0; i < 200; ++i) {
            static_cast<void>(a.send(link.near, pattern(i, 80)));
            if (a.read(link.near, near.bytes(), span, reads) == Post::kPosted) ++reads;
        }
        a.endpoint().flush();
        stage.fabric().advance();
    }
    return reads;
}

void expect_a_proper_end(Stage& stage, Party& a, const Link& link, uint64_t reads) {
    REQUIRE(stage.until([&] { return a.closed(link.near); }));  // Party checks that it is last
    CHECK(a.count(Event::kRead, link.near) == reads);
    CHECK(a.count(Event::kClosed, link.near) == 1);
    CHECK(a.send(link.near, "anybody?") == Post::kClosed);
    stage.settle();
    Party& c = stage.add(0);
    const Link other = stage.connect(a, c);  // new connections work
    stage.send(a, other.near, "on with it");
    REQUIRE(stage.until([&] { return c.count(Event::kReceived, other.far) == 1; }));
}

void a_destroyed_endpoint_closes_its_connections(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kLocal);
    const Registered far(fabric, 1, Access::kRemoteRead);
    const Link link = stage.connect(a, b);
    const auto span = b.endpoint().expose(link.far, far.bytes());
    REQUIRE(span.has_value());
    const uint64_t reads = overload(stage, a, link, near, *span);
    stage.remove(b);
    expect_a_proper_end(stage, a, link, reads);
}

void an_idle_peer_that_goes_is_noticed(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    stage.settle();
    stage.remove(b);
    REQUIRE(stage.until([&] { return a.closed(link.near); }));
    CHECK(a.seen().size() == 2);
    CHECK(a.last(Event::kClosed, link.near).peer_ended);
}

void the_death_of_an_idle_peer_is_proved(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    stage.settle();
    stage.stop_polling(b);
    if (!fabric.kill_other()) {
        MESSAGE("does not apply: there is nothing to kill here");
        return;
    }
    REQUIRE(stage.until([&] { return a.closed(link.near); }));
    CHECK(a.last(Event::kClosed, link.near).peer_ended);
}

void a_killed_peer_is_noticed(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kLocal);
    const Registered far(fabric, 1, Access::kRemoteRead);
    const Link link = stage.connect(a, b);
    const auto span = b.endpoint().expose(link.far, far.bytes());
    REQUIRE(span.has_value());
    const uint64_t reads = overload(stage, a, link, near, *span);
    stage.stop_polling(b);
    if (!fabric.kill_other()) {
        MESSAGE("does not apply: there is nothing to kill here");
        return;
    }
    expect_a_proper_end(stage, a, link, reads);
    CHECK(a.last(Event::kClosed, link.near).status != Errc::kOk);
}

void a_peer_may_go_while_it_is_connected_to(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    for (int steps = 0; steps < 20; ++steps) {
        Party& b = stage.add(1);
        const auto begun = a.connect(b.endpoint().address());
        REQUIRE(begun.has_value());
        for (int i = 0; i < steps; ++i)
            stage.step();
        stage.remove(b);
        REQUIRE(stage.until([&] { return a.closed(*begun); }));
    }
}

void unpolled_messages_die_with_their_endpoint(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    for (uint64_t i = 0; i < 50; ++i)
        stage.send(b, link.far, pattern(i, 1000));
    b.endpoint().flush();
    stage.remove(a);
    REQUIRE(stage.until([&] { return b.closed(link.far); }));
}

}  // namespace

std::vector<Case> death_cases() {
    return {
        {"a destroyed endpoint closes its connections",
         a_destroyed_endpoint_closes_its_connections},
        {"an idle peer that goes is noticed", an_idle_peer_that_goes_is_noticed},
        {"the death of an idle peer is proved", the_death_of_an_idle_peer_is_proved},
        {"a killed peer is noticed, and everything posted ends", a_killed_peer_is_noticed},
        {"a peer may go while it is connected to", a_peer_may_go_while_it_is_connected_to},
        {"unpolled messages die with their endpoint", unpolled_messages_die_with_their_endpoint},
    };
}

}  // namespace weir::transport::conformance
