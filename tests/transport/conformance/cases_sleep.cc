// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: sleeping on arm().

#include <doctest/doctest.h>
#include <poll.h>

#include "lib/base/clock.h"
#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

bool readable(int fd, int timeout_ms) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, timeout_ms) == 1 && (one.revents & POLLIN) != 0;
}

/// Sleeps as a runtime does until `sleeper` has polled a completion: arm, wait, poll. A spurious
/// wake-up is allowed, a lost one is not. The others are polled meanwhile.
bool wakes(Stage& stage, Party& sleeper, const std::vector<Party*>& others) {
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + patience_ns();
    int fd = sleeper.endpoint().arm();
    while (clock.now_ns() < end_ns) {
        for (Party* const other : others)
            other->poll();
        stage.fabric().advance();
        if (!readable(fd, 1)) continue;
        if (sleeper.poll() > 0) return true;
        CHECK(sleeper.endpoint().arm() == fd);
    }
    return false;
}

/// False, with a message, if the backend's endpoints cannot sleep.
bool can_sleep(Party& party) {
    if (party.endpoint().arm() >= 0) return true;
    MESSAGE("does not apply: this backend is polled, not slept on");
    return false;
}

void a_message_wakes(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    if (!can_sleep(b)) return;
    const Link link = stage.connect(a, b);
    for (uint64_t i = 1; i <= 30; ++i) {
        stage.settle();
        REQUIRE(b.poll() == 0);
        if (i % 2 == 0) static_cast<void>(b.endpoint().arm());  // armed before it arrives
        stage.send(a, link.near, pattern(i, 60));
        a.endpoint().flush();
        REQUIRE(wakes(stage, b, {&a}));
        REQUIRE(b.count(Event::kReceived, link.far) == i);
    }
}

void an_answer_wakes_the_asker(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    if (!can_sleep(a)) return;
    const Registered near(fabric, 0, Access::kRemote, 256 * 1024);
    const Registered far(fabric, 1, Access::kRemote, 256 * 1024);
    const Link link = stage.connect(a, b);
    const auto span = b.endpoint().expose(link.far, far.bytes());
    const auto back = a.endpoint().expose(link.near, near.bytes());
    REQUIRE((span.has_value() && back.has_value()));
    for (uint64_t i = 1; i <= 20; ++i) {
        REQUIRE(stage.insist([&] { return a.read(link.near, near.bytes(), *span, i); }) ==
                Post::kPosted);
        a.endpoint().flush();
        if (a.count(Event::kRead, link.near) < i) REQUIRE(wakes(stage, a, {&b}));
        REQUIRE(stage.until([&] { return a.count(Event::kRead, link.near) == i; }));
        REQUIRE(stage.insist([&] {
            return b.write_immediate(link.far, far.bytes().first(8), {back->address, 8, back->key},
                                     static_cast<uint32_t>(i), i);
        }) == Post::kPosted);
        b.endpoint().flush();
        if (a.count(Event::kImmediate, link.near) < i) REQUIRE(wakes(stage, a, {&b}));
        REQUIRE(stage.until([&] { return a.count(Event::kImmediate, link.near) == i; }));
    }
}

void a_newcomer_and_a_goodbye_wake(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    if (!can_sleep(b)) return;
    const auto begun = a.connect(b.endpoint().address());
    REQUIRE(begun.has_value());
    while (b.accepted().empty())
        REQUIRE(wakes(stage, b, {&a}));
    REQUIRE(stage.until([&] { return a.count(Event::kConnected, *begun) == 1; }));
    const ConnectionId far = b.accepted()[0];
    a.endpoint().close(*begun);
    while (!b.closed(far))
        REQUIRE(wakes(stage, b, {&a}));

    const Link link = stage.connect(a, b);
    stage.remove(a);
    while (!b.closed(link.far))
        REQUIRE(wakes(stage, b, {}));
}

void nothing_does_not_wake_for_ever(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    if (!can_sleep(b)) return;
    const Link link = stage.connect(a, b);
    stage.send(a, link.near, "one");
    REQUIRE(stage.until([&] { return b.count(Event::kReceived, link.far) == 1; }));
    // What connecting left behind may wake it for a while, longer where the machine is busy.
    const SteadyClock clock;
    const uint64_t end_ns = clock.now_ns() + patience_ns();
    int idle_wakes = 0;
    do {
        stage.settle();
        idle_wakes = 0;
        for (int i = 0; i < 20; ++i) {
            static_cast<void>(b.poll());
            if (readable(b.endpoint().arm(), 2)) ++idle_wakes;
        }
    } while (idle_wakes >= 10 && clock.now_ns() < end_ns);
    CHECK(idle_wakes < 10);
}

}  // namespace

std::vector<Case> sleep_cases() {
    return {
        {"a message wakes a sleeper", a_message_wakes},
        {"an answer wakes the asker", an_answer_wakes_the_asker},
        {"a newcomer and a goodbye wake a sleeper", a_newcomer_and_a_goodbye_wake},
        {"an idle endpoint can sleep", nothing_does_not_wake_for_ever},
    };
}

}  // namespace weir::transport::conformance
