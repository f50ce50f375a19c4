// SPDX-License-Identifier: Apache-2.0
#include "transport/multi/multi.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/transport/multi/scripted_device.h"

TEST_SUITE("multi") {
    using namespace weir;
    using namespace weir::transport;

    /// A combined device whose fake children the test can access.
    struct Combined {
        std::vector<ScriptedDevice*> fakes;
        std::unique_ptr<Device> device;
        std::unique_ptr<Endpoint> endpoint;

        explicit Combined(const std::vector<std::string>& names) {
            std::vector<std::unique_ptr<Device>> children;
            for (const std::string& name : names) {
                children.push_back(std::make_unique<ScriptedDevice>(name));
                fakes.push_back(static_cast<ScriptedDevice*>(children.back().get()));
            }
            device = std::move(combine(std::move(children))).value();
            endpoint = std::move(device->make_endpoint({})).value();
        }

        ScriptedEndpoint& child(size_t index) { return *fakes[index]->endpoint; }
    };

    TEST_CASE("one device is returned unchanged, none is an error") {
        std::vector<std::unique_ptr<Device>> one;
        one.push_back(std::make_unique<ScriptedDevice>("only"));
        Device* const before = one.front().get();
        CHECK(combine(std::move(one)).value().get() == before);
        CHECK(combine({}).code() == Errc::kInvalidArgument);
        std::vector<std::unique_ptr<Device>> many;
        for (size_t i = 0; i <= kMultiChildrenMax; ++i) {
            many.push_back(std::make_unique<ScriptedDevice>("many"));
        }
        CHECK(combine(std::move(many)).code() == Errc::kInvalidArgument);
    }

    TEST_CASE("memory is pinned if any child pins it") {
        Combined both({"a", "b"});
        CHECK_FALSE(both.device->pins_memory());
        both.fakes[1]->pins = true;
        CHECK(both.device->pins_memory());
    }

    TEST_CASE("connect uses the first child that can reach the address") {
        Combined both({"a", "b"});
        CHECK(both.endpoint->address() == "a:here;b:here");
        const auto first = both.endpoint->connect("b:there;a:there");
        REQUIRE(first.has_value());
        CHECK(both.child(0).connected_to == std::vector<std::string>{"a:there"});
        both.child(0).refusal = Errc::kUnavailable;
        const auto second = both.endpoint->connect("b:there;a:there");
        REQUIRE(second.has_value());
        CHECK(both.child(1).connected_to == std::vector<std::string>{"b:there"});
        CHECK(*first != *second);
    }

    Completion event(Event event, ConnectionId connection, Errc status = Errc::kOk) {
        Completion completion;
        completion.event = event;
        completion.connection = connection;
        completion.status = status;
        return completion;
    }

    TEST_CASE("a child that fails to connect is followed by the next, under the same id") {
        Combined three({"a", "b", "c"});
        std::vector<Completion> got(4);
        const ConnectionId id = three.endpoint->connect("a:there;b:there;c:there").value();
        three.child(0).completions = {event(Event::kClosed, 1, Errc::kPeerLost)};
        three.child(1).refusal = Errc::kUnavailable;
        CHECK(three.endpoint->poll(got) == 0);
        CHECK(three.child(2).connected_to == std::vector<std::string>{"c:there"});
        three.child(2).completions = {event(Event::kConnected, 1), event(Event::kReceived, 1)};
        REQUIRE(three.endpoint->poll(got) == 2);
        CHECK(got[0].event == Event::kConnected);
        CHECK(got[0].connection == id);
        CHECK(got[1].connection == id);
        CHECK(three.endpoint->send(id, {}) == Post::kPosted);
        CHECK(three.child(2).called == std::vector<ConnectionId>{1});
        CHECK(three.child(0).called.empty());
        // Once it has been connected, its end is the end.
        three.child(2).completions = {event(Event::kClosed, 1, Errc::kPeerLost)};
        REQUIRE(three.endpoint->poll(got) == 1);
        CHECK(got[0].connection == id);
        CHECK(got[0].status == Errc::kPeerLost);
        CHECK(three.endpoint->send(id, {}) == Post::kPosted);  // the first child's id again
        CHECK(three.child(0).called == std::vector<ConnectionId>{1});
    }

    TEST_CASE("what the first way proves to have ended is tried by no other") {
        Combined both({"a", "b"});
        std::vector<Completion> got(4);
        const ConnectionId lost = both.endpoint->connect("a:there;b:there").value();
        both.child(0).completions = {event(Event::kClosed, 1, Errc::kPeerLost)};
        both.child(0).completions[0].peer_ended = true;
        REQUIRE(both.endpoint->poll(got) == 1);
        CHECK(got[0].connection == lost);
        CHECK(got[0].status == Errc::kPeerLost);
        CHECK(both.child(1).connected_to.empty());
    }

    TEST_CASE("the last way's failure, a refusal and a close are the end of an attempt") {
        Combined both({"a", "b"});
        std::vector<Completion> got(4);
        const ConnectionId lost = both.endpoint->connect("a:there;b:there").value();
        both.child(0).completions = {event(Event::kClosed, 1, Errc::kDeadline)};
        CHECK(both.endpoint->poll(got) == 0);
        both.child(1).completions = {event(Event::kClosed, 1, Errc::kPeerLost)};
        REQUIRE(both.endpoint->poll(got) == 1);
        CHECK(got[0].connection == lost);
        CHECK(got[0].status == Errc::kPeerLost);
        for (const Errc reason : {Errc::kRefused, Errc::kBusy, Errc::kOk}) {
            const ConnectionId refused = both.endpoint->connect("a:there;b:there").value();
            const auto number = both.child(0).connected_to.size();
            both.child(0).completions = {event(Event::kClosed, number, reason)};
            REQUIRE(both.endpoint->poll(got) == 1);
            CHECK(got[0].connection == refused);
            CHECK(got[0].status == reason);
        }
        CHECK(both.child(1).connected_to.size() == 1);
    }

    TEST_CASE("a way that fails while the caller closes is the end, and no other is tried") {
        for (const bool is_cut : {false, true}) {
            Combined three({"a", "b", "c"});
            std::vector<Completion> got(4);
            const auto end = [&](ConnectionId id) {
                is_cut ? three.endpoint->cut_off(id) : three.endpoint->close(id);
            };
            const ConnectionId first = three.endpoint->connect("a:there;b:there").value();
            end(first);
            three.child(0).completions = {event(Event::kClosed, 1, Errc::kPeerLost)};
            REQUIRE(three.endpoint->poll(got) == 1);
            CHECK(got[0].connection == first);
            CHECK(three.child(1).connected_to.empty());
            // The same at the second of three ways.
            const ConnectionId next = three.endpoint->connect("a:there;b:there;c:there").value();
            three.child(0).completions = {event(Event::kClosed, 2, Errc::kDeadline)};
            REQUIRE(three.endpoint->poll(got) == 0);
            end(next);
            three.child(1).completions = {event(Event::kClosed, 1, Errc::kPeerLost)};
            REQUIRE(three.endpoint->poll(got) == 1);
            CHECK(got[0].connection == next);
            CHECK(three.child(2).connected_to.empty());
        }
    }

    TEST_CASE("an address that no child reaches is refused with every child's reason") {
        Combined both({"a", "b"});
        both.child(0).refusal = Errc::kUnavailable;
        both.child(1).refusal = Errc::kBusy;
        const auto nowhere = both.endpoint->connect("a:there;b:there");
        REQUIRE_FALSE(nowhere.has_value());
        CHECK(nowhere.code() == Errc::kBusy);
        CHECK(nowhere.error().text().find("a: a says no") != std::string::npos);
        CHECK(nowhere.error().text().find("b: b says no") != std::string::npos);
        const auto foreign = both.endpoint->connect("c:there;ab:there");
        CHECK(foreign.code() == Errc::kUnavailable);
        CHECK(foreign.error().text().find("b: the peer does not offer it") != std::string::npos);
    }

    TEST_CASE("a registration that one child refuses is undone at the others") {
        Combined both({"a", "b"});
        std::vector<std::byte> memory(64);
        const auto region = both.device->register_memory({memory}, Access::kRemote);
        REQUIRE(region.has_value());
        CHECK(both.fakes[0]->registered.size() == 1);
        CHECK(both.fakes[1]->registered.size() == 1);
        both.fakes[1]->out_of_memory = true;
        CHECK(both.device->register_memory({memory}, Access::kRemote).code() == Errc::kNoMemory);
        CHECK(both.fakes[0]->registered.size() == 1);
        both.device->deregister_memory(*region);
        both.device->deregister_memory(*region);
        CHECK(both.fakes[0]->registered.empty());
        CHECK(both.fakes[1]->registered.empty());
    }

    TEST_CASE("a child that always has completions does not starve the others") {
        Combined three({"a", "b", "c"});
        for (size_t i = 0; i < 3; ++i)
            three.child(i).endless = true;
        std::vector<size_t> from(3);
        std::vector<Completion> completions(4);
        const auto a = three.endpoint->connect("a:x").value();
        const auto b = three.endpoint->connect("b:x").value();
        for (int i = 0; i < 300; ++i) {
            REQUIRE(three.endpoint->poll(completions) == 4);
            for (const Completion& c : completions) {
                ++from[c.connection == a ? 0 : c.connection == b ? 1 : 2];
            }
        }
        for (const size_t count : from)
            CHECK(count == 400);
        for (size_t i = 0; i < 3; ++i)
            CHECK(three.child(i).polls ==
                  300);  // each poll() reaches every child, so that all flush
    }

    TEST_CASE("calls go to the connection's child with the child's id of it") {
        Combined both({"a", "b"});
        const ConnectionId id = both.endpoint->connect("b:there").value();
        std::vector<std::byte> memory(64);
        CHECK(both.endpoint->send(id, {}) == Post::kPosted);
        CHECK(both.endpoint->read(id, memory, {}, 1) == Post::kPosted);
        CHECK(both.endpoint->write(id, memory, {}, 1) == Post::kPosted);
        CHECK(both.endpoint->write_immediate(id, memory, {}, 1, 1) == Post::kPosted);
        CHECK(both.endpoint->expose(id, memory).has_value());
        CHECK(both.endpoint->map(id, {}, Access::kRemote) == nullptr);
        CHECK(both.endpoint->peer_name(id) == "b's peer");
        both.endpoint->close(id);
        CHECK(both.child(1).called.size() == 7);
        for (const ConnectionId inner : both.child(1).called)
            CHECK(inner == 1);
        CHECK(both.child(0).called.empty());
        CHECK(both.endpoint->send(id + 2, {}) == Post::kClosed);  // no such child
        CHECK(both.endpoint->counters().messages_sent == 1);
    }

    TEST_CASE("capabilities are those of all children, and of a connection those of its child") {
        Combined both({"a", "b"});
        both.child(0).can = {true, false, 4096, 64};
        both.child(1).can = {false, true, 8192, 16};
        const Capabilities all = both.endpoint->capabilities();
        CHECK_FALSE(all.maps_memory);
        CHECK(all.reaches_other_hosts);
        CHECK(all.message_bytes_max == 4096);
        CHECK(all.operations_max == 16);
        const ConnectionId near = both.endpoint->connect("a:x").value();
        CHECK(both.endpoint->capabilities_of(near).maps_memory);
        CHECK(both.endpoint->capabilities_of(near).operations_max == 64);
    }

    TEST_CASE("one descriptor wakes for every child") {
        Combined both({"a", "b"});
        const int fds[] = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC)};
        both.child(0).fd = fds[0];
        CHECK(both.endpoint->arm() == -1);  // b cannot sleep
        both.child(1).fd = fds[1];
        const int fd = both.endpoint->arm();
        REQUIRE(fd >= 0);
        CHECK(both.endpoint->arm() == fd);
        pollfd one{fd, POLLIN, 0};
        CHECK(poll(&one, 1, 0) == 0);
        for (const int child_fd : fds) {
            uint64_t count = 1;
            REQUIRE(write(child_fd, &count, 8) == 8);
            CHECK(poll(&one, 1, 1000) == 1);
            REQUIRE(read(child_fd, &count, 8) == 8);
            CHECK(poll(&one, 1, 0) == 0);
        }
        both.endpoint = nullptr;
        for (const int child_fd : fds)
            close(child_fd);
    }
}
