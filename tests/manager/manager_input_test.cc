// SPDX-License-Identifier: Apache-2.0
/// \file
/// What managers agree on, as bytes; and the endpoint that brings it.

#include "lib/manager/replicated/manager_input.h"

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/manager/replicated/fed_endpoint.h"
#include "lib/manager/replicated/manager_disk.h"
#include "tests/node/fake_endpoint.h"

namespace weir::testing {
namespace {

using transport::Event;

ManagerEvent made_event(Event event, uint64_t connection, size_t message_bytes = 0) {
    ManagerEvent made;
    made.event = event;
    made.connection = connection;
    made.message.resize(message_bytes, std::byte{7});
    return made;
}

/// Where nothing is sent; remembers what was.
class SeenConnections final : public FedEndpoint::Connections {
public:
    void send(transport::ConnectionId connection, FedEndpoint::Parts /*parts*/) override {
        sent.push_back(connection);
    }

    void close(transport::ConnectionId connection) override { closed.push_back(connection); }

    [[nodiscard]] std::string name_of(transport::ConnectionId /*connection*/) const override {
        return "a peer";
    }

    std::vector<transport::ConnectionId> sent;
    std::vector<transport::ConnectionId> closed;
};

struct Fed {
    std::vector<std::pair<Event, uint64_t>> poll() {
        std::vector<std::pair<Event, uint64_t>> seen;
        std::array<transport::Completion, 3> completions;
        while (!endpoint.is_drained()) {
            const size_t count = endpoint.poll(completions);
            for (const auto& one : std::span(completions).first(count))
                seen.emplace_back(one.event, one.connection);
        }
        return seen;
    }

    transport::Post send(uint64_t connection, size_t bytes = 8) {
        const std::vector<std::byte> message(bytes);
        const std::span<const std::byte> part = message;
        return endpoint.send(connection, std::span(&part, 1));
    }

    SeenConnections connections;
    FedEndpoint endpoint{connections, "fed"};
};

using Brought = std::vector<std::pair<Event, uint64_t>>;

}  // namespace

TEST_SUITE("manager_input") {
    TEST_CASE("what is encoded comes back, and nothing shorter or longer does") {
        ManagerInput events;
        events.now_ns = 17;
        events.is_all = false;
        events.is_being_stopped = true;
        events.wants_checkpoint = true;
        events.events = {made_event(Event::kAccepted, 5), made_event(Event::kReceived, 5, 100),
                         made_event(Event::kClosed, 5)};
        events.events[2].peer_ended = true;
        ManagerInput lead;
        lead.kind = ManagerInput::Kind::kLead;
        lead.message_bytes_max = 8192;
        ManagerInput disk;
        disk.kind = ManagerInput::Kind::kDisk;
        disk.work = 3;
        disk.answer = {Errc::kIo, "the disk is full", 9};
        ManagerInput ended;
        ended.kind = ManagerInput::Kind::kEnded;
        ended.process = 77;
        for (const ManagerInput& input : {events, lead, disk, ended}) {
            const std::vector<std::byte> bytes = input.encode();
            CHECK(ManagerInput::decode(bytes) == input);
            for (size_t length = 0; length < bytes.size(); ++length)
                CHECK_FALSE(ManagerInput::decode(std::span(bytes).first(length)));
            std::vector<std::byte> longer = bytes;
            longer.push_back(std::byte{0});
            CHECK_FALSE(ManagerInput::decode(longer));
        }
        size_t of_events = 0;
        for (const ManagerEvent& event : events.events)
            of_events += ManagerInput::bytes_of(event);
        CHECK(events.encode().size() <= ManagerInput::kHeadBytes + of_events);
    }

    TEST_CASE("an endpoint brings only what belongs to connections that are open") {
        Fed fed;
        fed.endpoint.break_all(64);
        fed.endpoint.feed({made_event(Event::kReceived, 1, 4), made_event(Event::kClosed, 1),
                           made_event(Event::kAccepted, 2), made_event(Event::kAccepted, 2),
                           made_event(Event::kReceived, 2, 4), made_event(Event::kClosed, 2),
                           made_event(Event::kReceived, 2, 4)});
        CHECK(fed.poll() ==
              Brought{{Event::kAccepted, 2}, {Event::kReceived, 2}, {Event::kClosed, 2}});
        CHECK(fed.send(2) == transport::Post::kClosed);
    }

    TEST_CASE("what it closes brings nothing more, but for its end") {
        Fed fed;
        fed.endpoint.break_all(64);
        fed.endpoint.feed({made_event(Event::kAccepted, 2)});
        (void)fed.poll();
        CHECK(fed.send(2) == transport::Post::kPosted);
        CHECK(fed.send(2, 65) == transport::Post::kInvalid);
        fed.endpoint.feed({made_event(Event::kReceived, 2, 4)});
        fed.endpoint.close(2);
        fed.endpoint.close(2);
        fed.endpoint.feed({made_event(Event::kReceived, 2, 4), made_event(Event::kClosed, 2)});
        CHECK(fed.poll() == Brought{{Event::kClosed, 2}});
        CHECK(fed.connections.sent == std::vector<transport::ConnectionId>{2});
        CHECK(fed.connections.closed == std::vector<transport::ConnectionId>{2});
    }

    TEST_CASE("another leader finds all connections broken, and never sends more than all could") {
        Fed fed;
        fed.endpoint.break_all(64);
        fed.endpoint.feed({made_event(Event::kAccepted, 3), made_event(Event::kAccepted, 2)});
        (void)fed.poll();
        fed.endpoint.break_all(128);
        CHECK(fed.poll() == Brought{{Event::kClosed, 2}, {Event::kClosed, 3}});
        CHECK(fed.endpoint.capabilities().message_bytes_max == 64);
        CHECK(fed.connections.closed.empty());
    }

    TEST_CASE("what was asked of the disk ends once, at all, though one does it") {
        const auto queue = std::make_shared<checkpoint::DiskQueue>(nullptr);
        AgreedDisk leads(queue);
        AgreedDisk follows(nullptr);
        for (AgreedDisk* const disk : {&leads, &follows})
            disk->start([](checkpoint::Disk&) { return DiskAnswer{.number = 4}; }, kSecond);
        CHECK(follows.is_busy());
        CHECK_FALSE(leads.lead().has_value());
        leads.change_leader();
        follows.change_leader();
        for (AgreedDisk* const disk : {&leads, &follows}) {
            const auto answer = disk->take();
            REQUIRE(answer.has_value());
            CHECK(answer->status == Errc::kPeerLost);
            disk->answered(1, {.number = 4});  // too late
            CHECK_FALSE(disk->take().has_value());
            CHECK_FALSE(disk->is_busy());
        }
        for (AgreedDisk* const disk : {&leads, &follows})
            disk->start([](checkpoint::Disk&) { return DiskAnswer{.number = 5}; }, kSecond);
        for (AgreedDisk* const disk : {&leads, &follows}) {
            disk->answered(1, {.number = 4});  // not that one
            CHECK_FALSE(disk->take().has_value());
            disk->answered(2, {.number = 5});
            CHECK(disk->take() == DiskAnswer{.number = 5});
        }
    }
}

}  // namespace weir::testing
