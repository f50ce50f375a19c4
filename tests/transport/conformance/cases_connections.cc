// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: connections are opened and closed.

#include <doctest/doctest.h>

#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

void both_ends_learn_of_a_connection(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    CHECK(a.seen().size() == 1);
    CHECK(b.seen().size() == 1);
    CHECK_FALSE(a.endpoint().peer_name(link.near).empty());
    CHECK_FALSE(b.endpoint().peer_name(link.far).empty());
    CHECK(a.endpoint().address().find(' ') == std::string::npos);
    CHECK(a.endpoint().address() != b.endpoint().address());
}

void close_delivers_what_was_sent(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    for (uint64_t i = 0; i < 20; ++i)
        stage.send(a, link.near, pattern(i, 100));
    a.endpoint().close(link.near);
    REQUIRE(stage.until([&] { return a.closed(link.near) && b.closed(link.far); }));
    CHECK(a.last(Event::kClosed, link.near).status == Errc::kOk);
    CHECK(b.last(Event::kClosed, link.far).status == Errc::kOk);
    const std::vector<Seen> seen = b.seen_of(link.far);
    REQUIRE(seen.size() == 22);
    for (uint64_t i = 0; i < 20; ++i)
        CHECK(seen[i + 1].message == pattern(i, 100));
}

void both_sides_may_close_at_once(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    a.endpoint().close(link.near);
    b.endpoint().close(link.far);
    b.endpoint().close(link.far);  // closing twice is allowed
    REQUIRE(stage.until([&] { return a.closed(link.near) && b.closed(link.far); }));
    stage.settle();
    CHECK(a.seen().size() == 2);
    CHECK(b.seen().size() == 2);
}

void nothing_goes_over_a_closed_connection(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered memory(fabric, 0, Access::kRemote);
    const Link link = stage.connect(a, b);
    b.endpoint().close(link.far);
    REQUIRE(stage.until([&] { return a.closed(link.near) && b.closed(link.far); }));
    const RemoteSpan nowhere{1, memory.bytes().size(), 1};
    for (const ConnectionId id : {link.near, link.near + 12345}) {
        CHECK(a.send(id, "late") == Post::kClosed);
        CHECK(a.read(id, memory.bytes(), nowhere, 1) == Post::kClosed);
        CHECK(a.write(id, memory.bytes(), nowhere, 2) == Post::kClosed);
        CHECK(a.write_immediate(id, memory.bytes(), nowhere, 7, 3) == Post::kClosed);
        CHECK(a.endpoint().map(id, nowhere, Access::kRemoteRead) == nullptr);
        CHECK(a.endpoint().expose(id, memory.bytes()).code() == Errc::kPeerLost);
        a.endpoint().close(id);
    }
    stage.settle();
    CHECK(a.seen().size() == 2);
}

void two_endpoints_may_connect_to_each_other(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const auto there = a.connect(b.endpoint().address());
    const auto back = b.connect(a.endpoint().address());
    REQUIRE(there.has_value());
    REQUIRE(back.has_value());
    REQUIRE(stage.until([&] {
        return a.count(Event::kConnected, *there) + b.count(Event::kConnected, *back) +
                   a.accepted().size() + b.accepted().size() ==
               4;
    }));
    stage.send(a, *there, "there");
    stage.send(b, *back, "back");
    REQUIRE(stage.until([&] {
        return b.count(Event::kReceived, b.accepted()[0]) == 1 &&
               a.count(Event::kReceived, a.accepted()[0]) == 1;
    }));
    CHECK(b.last(Event::kReceived, b.accepted()[0]).message == "there");
    CHECK(a.last(Event::kReceived, a.accepted()[0]).message == "back");
}

/// Few enough for the limits of every backend, also in a guest.
constexpr size_t kManyEndpoints = 6;
constexpr size_t kConnectionsEach = 6;

void many_connections_at_one_endpoint(Fabric& fabric) {
    Stage stage(fabric);
    Party& hub = stage.add(1);

    struct Spoke {
        Party* party;
        Link link;
    };

    std::vector<Spoke> spokes;
    for (size_t i = 0; i < kManyEndpoints; ++i) {
        Party& party = stage.add(i % 2);
        for (size_t j = 0; j < kConnectionsEach; ++j) {
            spokes.push_back({&party, stage.connect(party, hub)});
        }
    }
    for (uint64_t round = 0; round < 10; ++round) {
        for (size_t i = 0; i < spokes.size(); ++i) {
            stage.send(*spokes[i].party, spokes[i].link.near, pattern(round * 1000 + i, 60));
        }
    }
    REQUIRE(stage.until([&] { return hub.seen().size() == spokes.size() * 11; }));
    for (size_t i = 0; i < spokes.size(); ++i) {
        const std::vector<Seen> seen = hub.seen_of(spokes[i].link.far);
        REQUIRE(seen.size() == 11);
        for (uint64_t round = 0; round < 10; ++round) {
            CHECK(seen[round + 1].message == pattern(round * 1000 + i, 60));
        }
    }
    // Closing one does not affect the others.
    spokes[0].party->endpoint().close(spokes[0].link.near);
    REQUIRE(stage.until([&] { return hub.closed(spokes[0].link.far); }));
    stage.send(hub, spokes[1].link.far, "still here");
    REQUIRE(stage.until(
        [&] { return spokes[1].party->count(Event::kReceived, spokes[1].link.near) == 1; }));
}

void connecting_to_nobody_ends(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    const auto begun = a.connect(fabric.nobody());
    if (begun) {
        REQUIRE(stage.until([&] { return a.closed(*begun); }));
        CHECK(a.count(Event::kConnected, *begun) == 0);
        CHECK(a.last(Event::kClosed, *begun).status != Errc::kOk);
    }
    // The address of an endpoint that was destroyed.
    Party& b = stage.add(1);
    const std::string left = b.endpoint().address();
    stage.remove(b);
    const auto late = a.connect(left);
    if (late) {
        REQUIRE(stage.until([&] { return a.closed(*late); }));
        CHECK(a.last(Event::kClosed, *late).status != Errc::kOk);
    }
    Party& c = stage.add(1);
    CHECK(stage.connect(a, c).near != 0);
}

void a_connection_may_be_given_up_before_it_stands(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    for (const std::string& address : {b.endpoint().address(), fabric.nobody()}) {
        const auto begun = a.connect(address);
        if (!begun) continue;
        a.endpoint().close(*begun);
        REQUIRE(stage.until([&] { return a.closed(*begun); }));
    }
    stage.settle();
    for (const ConnectionId id : b.accepted()) {
        REQUIRE(stage.until([&] { return b.closed(id); }));
    }
}

void nonsense_is_not_an_address(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    for (const std::string& text :
         {std::string(), std::string(":"), std::string("nobody:knows"), std::string(5000, 'x'),
          std::string("\0\n ", 3), std::string("http://example.org/")}) {
        const auto begun = a.connect(text);
        CHECK_MESSAGE(!begun.has_value(), "taken for an address: " << text);
    }
    const std::string own = a.endpoint().address();
    const std::string prefix = own.substr(0, own.find(':') + 1);
    for (const std::string& text : {std::string("-1"), std::string("99999999999999999999"),
                                    std::string("::::"), std::string(5000, '9'), std::string()}) {
        const auto begun = a.connect(prefix + text);
        if (!begun) continue;  // refused at once, else closed later:
        REQUIRE(stage.until([&] { return a.closed(*begun); }));
        CHECK(a.last(Event::kClosed, *begun).status != Errc::kOk);
    }
}

void strangers_do_not_get_in(Fabric& fabric) {
    Device* const device = fabric.stranger();
    if (device == nullptr) {
        MESSAGE("does not apply: no secrets in this backend");
        return;
    }
    Stage stage(fabric);
    Party& a = stage.add(1);
    Party& stranger = stage.add(*device);
    const auto in = stranger.connect(a.endpoint().address());
    const auto out = a.connect(stranger.endpoint().address());
    if (in) {
        REQUIRE(stage.until([&] { return stranger.closed(*in); }));
        CHECK(stranger.last(Event::kClosed, *in).status != Errc::kOk);
        CHECK(stranger.count(Event::kConnected, *in) == 0);
    }
    if (out) {
        REQUIRE(stage.until([&] { return a.closed(*out); }));
        CHECK(a.last(Event::kClosed, *out).status != Errc::kOk);
        CHECK(a.count(Event::kConnected, *out) == 0);
    }
    CHECK(a.accepted().empty());
    CHECK(stranger.accepted().empty());
    Party& friendly = stage.add(0);
    CHECK(stage.connect(friendly, a).near != 0);
}

}  // namespace

std::vector<Case> connection_cases() {
    return {
        {"both ends learn of a connection", both_ends_learn_of_a_connection},
        {"close delivers what was sent before", close_delivers_what_was_sent},
        {"both sides may close at once", both_sides_may_close_at_once},
        {"nothing goes over a closed connection", nothing_goes_over_a_closed_connection},
        {"two endpoints may connect to each other", two_endpoints_may_connect_to_each_other},
        {"many connections meet at one endpoint", many_connections_at_one_endpoint},
        {"connecting to nobody ends with an error", connecting_to_nobody_ends},
        {"a connection may be given up early", a_connection_may_be_given_up_before_it_stands},
        {"nonsense is not an address", nonsense_is_not_an_address},
        {"strangers do not get in", strangers_do_not_get_in},
    };
}

}  // namespace weir::transport::conformance
