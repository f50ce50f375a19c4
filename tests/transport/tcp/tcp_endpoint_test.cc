// SPDX-License-Identifier: Apache-2.0
/// \file
/// tcp endpoints and peers that break the rules. What all transports promise is in the
/// conformance suite.

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "tests/log_lines.h"
#include "tests/transport/conformance/stage.h"
#include "tests/transport/tcp/raw_peer.h"
#include "tests/wait_until.h"
#include "transport/tcp/tcp.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::tcp;
using conformance::Party;
using tcp::testing::RawPeer;
using weir::testing::LogLines;

constexpr std::byte kUntouched{0x5a};

DeviceOptions loopback() {
    DeviceOptions options;
    options.bind_address = "127.0.0.1";
    options.silence_ms_max = conformance::kSilenceMsMax;
    options.secret = random_bytes();
    return options;
}

/// An endpoint with a page that peers may access, and a raw peer that is connected to it.
struct Scene {
    DeviceOptions options = loopback();
    std::unique_ptr<Device> device = std::move(make_device(options).value());
    Party party{*device, {}};
    std::vector<std::byte> memory = std::vector<std::byte>(3 * 4096, kUntouched);
    std::span<std::byte> page = std::span(memory).subspan(4096, 4096);
    RegionId region = device->register_memory({page}, Access::kRemote).value();
    RawPeer peer{options.secret};

    Scene() {
        REQUIRE(peer.connect(party.endpoint().address(), 8192, [&] { party.poll(); }));
        REQUIRE(until([&] { return !party.accepted().empty(); }));
    }

    bool until(const std::function<bool()>& done) {
        return weir::testing::wait_until(done, [&] { party.poll(); });
    }

    RemoteSpan exposed() { return party.endpoint().expose(party.accepted()[0], page).value(); }

    /// The endpoint closes the connection because of what the peer has sent.
    void check_refused(Errc reason) {
        const ConnectionId id = party.accepted()[0];
        REQUIRE(until([&] { return party.closed(id); }));
        CHECK(party.last(Event::kClosed, id).status == reason);
        CHECK(party.endpoint().counters().refused == 1);
        CHECK(conformance::all_are(memory, kUntouched));
        REQUIRE(until([&] {
            peer.received();
            return peer.is_closed();
        }));
        RawPeer other(options.secret);  // the endpoint lives
        CHECK(other.connect(party.endpoint().address(), 8192, [&] { party.poll(); }));
    }
};

}  // namespace

TEST_SUITE("tcp endpoint") {
    TEST_CASE("the end of a stream says that its peer has ended; a reset says nothing") {
        for (const bool is_reset : {false, true}) {
            CAPTURE(is_reset);
            Scene scene;
            const ConnectionId connection = scene.party.accepted()[0];
            is_reset ? scene.peer.reset() : scene.peer.hang_up();
            REQUIRE(scene.until([&] { return scene.party.closed(connection); }));
            CHECK(scene.party.last(Event::kClosed, connection).peer_ended == !is_reset);
        }
    }

    TEST_CASE("who wants errors only hears of no connection that ends") {
        for (const LogLevel level : {LogLevel::kWarning, LogLevel::kError}) {
            const LogLines log(level);
            Scene scene;
            const ConnectionId connection = scene.party.accepted()[0];
            scene.peer.hang_up();
            REQUIRE(scene.until([&] { return scene.party.closed(connection); }));
            CHECK(log.lines().size() == (level == LogLevel::kWarning ? 1 : 0));
        }
    }

    TEST_CASE("that nobody listens at an address is logged once, however often it is tried") {
        const LogLines log(LogLevel::kWarning);
        Scene scene;
        std::string address;
        {
            Scene gone;
            address = gone.party.endpoint().address();
        }
        for (int i = 0; i < 20; ++i) {
            const auto connection = scene.party.endpoint().connect(address);
            REQUIRE(connection);
            REQUIRE(scene.until([&] { return scene.party.closed(*connection); }));
        }
        CHECK(log.count("cannot connect") == 1);
    }

    TEST_CASE("frames that no honest peer sends end the connection, and nothing else") {
        const LogLines log;
        std::vector<std::byte> garbage(64, std::byte{0xff});
        SUBCASE("no frame") {
            Scene scene;
            scene.peer.send(garbage);
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("a message that is too long") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kMessage, 8193, {}});
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("the longest number of bytes") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kMessage, ~0U, {}});
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("data that nobody asked for") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kReadData, 0, {}});
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("the end of a write that was not posted") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kWritten, 1, {}});
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("as many ends as there are numbers") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kWritten, ~0U, {}});
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("something after the last frame") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kBye, 0, {}});
            scene.peer.send(Frame{FrameType::kMessage, 0, {}});
            scene.check_refused(Errc::kProtocol);
        }
        SUBCASE("a write outside of the page") {
            Scene scene;
            RemoteSpan span = scene.exposed();
            ++span.address;
            scene.peer.send(Frame{FrameType::kWrite, 0, span});
            scene.peer.send(garbage);
            scene.check_refused(Errc::kRefused);
        }
        SUBCASE("a read of all memory") {
            Scene scene;
            scene.peer.send(Frame{FrameType::kRead, 0, {0, ~uint64_t{0}, scene.exposed().key}});
            scene.check_refused(Errc::kRefused);
        }
    }

    TEST_CASE("a peer with too many reads in flight is disconnected") {
        const LogLines log;
        Scene scene;
        std::vector<std::byte> big(16 << 20);  // so that the first answers fill the socket
        REQUIRE(scene.device->register_memory({big}, Access::kRemoteRead).has_value());
        const RemoteSpan span =
            scene.party.endpoint().expose(scene.party.accepted()[0], big).value();
        for (uint32_t i = 0; i < kOperationsMost + 10; ++i)
            scene.peer.send(Frame{FrameType::kRead, 0, span});
        const ConnectionId id = scene.party.accepted()[0];
        REQUIRE(scene.until([&] { return scene.party.closed(id); }));
        CHECK(scene.party.last(Event::kClosed, id).status == Errc::kProtocol);
    }

    TEST_CASE("reads of nothing count, too") {
        const LogLines log;
        Scene scene;
        const auto read = encode({FrameType::kRead, 0, {scene.exposed().address, 0, 0}});
        std::vector<std::byte> reads;
        for (size_t i = 0; i < 10'000; ++i)
            reads.insert(reads.end(), read.begin(), read.end());
        const ConnectionId id = scene.party.accepted()[0];
        size_t at = 0;
        REQUIRE(scene.until([&] {  // the peer takes no answers
            at += scene.peer.send(std::span(reads).subspan(at));
            if (at == reads.size()) at = 0;
            return scene.party.closed(id);
        }));
        CHECK(scene.party.last(Event::kClosed, id).status == Errc::kProtocol);
        CHECK(log.count("reads in flight") == 1);
    }

    TEST_CASE("memory that is deregistered while a peer writes it is not touched any more") {
        const LogLines log;
        Scene scene;
        const RemoteSpan span = scene.exposed();
        scene.peer.send(Frame{FrameType::kWrite, 0, span});
        const std::vector<std::byte> half(2048, std::byte{1});
        scene.peer.send(half);
        REQUIRE(scene.until([&] { return scene.page[2047] == std::byte{1}; }));
        scene.device->deregister_memory(scene.region);
        scene.peer.send(half);
        const ConnectionId id = scene.party.accepted()[0];
        REQUIRE(scene.until([&] { return scene.party.closed(id); }));
        CHECK(scene.party.last(Event::kClosed, id).status == Errc::kRefused);
        CHECK(conformance::all_are(std::span(scene.memory).subspan(4096 + 2048), kUntouched));
    }

    TEST_CASE("memory that is deregistered while a peer reads it is not sent any more") {
        const LogLines log;
        Scene scene;
        std::vector<std::byte> big(16 << 20, std::byte{7});
        const RegionId region = scene.device->register_memory({big}, Access::kRemoteRead).value();
        const RemoteSpan span =
            scene.party.endpoint().expose(scene.party.accepted()[0], big).value();
        scene.peer.send(Frame{FrameType::kRead, 0, span});
        for (int i = 0; i < 100; ++i)
            scene.party.poll();  // the socket is full now
        scene.device->deregister_memory(region);
        std::fill(big.begin(), big.end(), std::byte{9});  // its owner uses it for something else
        size_t received = 0;
        REQUIRE(scene.until([&] {
            const std::vector<std::byte> bytes = scene.peer.received();
            received += bytes.size();
            REQUIRE(std::ranges::count(bytes, std::byte{9}) == 0);
            return scene.peer.is_closed();
        }));
        CHECK(received < big.size());
    }

    TEST_CASE("a peer that hangs up in the middle of a frame is lost") {
        const LogLines log;
        for (const size_t bytes : {1, 8, 20, 40}) {
            Scene scene;
            const auto head = encode({FrameType::kWrite, 0, scene.exposed()});
            std::vector<std::byte> all(head.begin(), head.end());
            all.resize(bytes, std::byte{1});
            scene.peer.send(all);
            scene.peer.hang_up();
            const ConnectionId id = scene.party.accepted()[0];
            REQUIRE(scene.until([&] { return scene.party.closed(id); }));
            CHECK(scene.party.last(Event::kClosed, id).status == Errc::kPeerLost);
        }
    }

    TEST_CASE("sides with different longest messages are told so") {
        const LogLines log;
        const DeviceOptions options = loopback();
        const auto device = std::move(make_device(options).value());
        Party party(*device, {});
        RawPeer peer(options.secret);
        CHECK_FALSE(peer.connect(party.endpoint().address(), 4096, [&] { party.poll(); }));
        CHECK(log.count("WEIR_EAGER_BYTES") == 1);
        CHECK(party.accepted().empty());
    }

    TEST_CASE("an endpoint says at which ports it cannot listen") {
        DeviceOptions options = loopback();
        options.bind_address = "192.0.2.77";  // of nobody
        const auto device = make_device(options);
        REQUIRE(device.has_value());
        CHECK((*device)->make_endpoint({}).code() == Errc::kInvalidArgument);
        options.bind_address = "here";
        CHECK(make_device(options).code() == Errc::kInvalidArgument);
        options = loopback();
        const auto any = std::move(make_device(options).value());
        const auto first = std::move(any->make_endpoint({}).value());
        const std::string address = first->address();
        options.port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
        const auto taken = std::move(make_device(options).value());
        CHECK(taken->make_endpoint({}).code() == Errc::kAlreadyExists);
    }

    TEST_CASE("small messages on a busy connection leave no memory behind") {
        const DeviceOptions options = loopback();
        const auto device = std::move(make_device(options).value());
        Party a(*device, {});
        Party b(*device, {});
        REQUIRE(a.connect(b.endpoint().address()).has_value());
        REQUIRE(
            weir::testing::wait_until([&] { return !b.accepted().empty() && !a.seen().empty(); },
                                      [&] {
                                          a.poll();
                                          b.poll();
                                      }));
        const ConnectionId id = a.seen()[0].connection;
        const size_t before = conformance::own_usage().resident_bytes;
        uint64_t sent = 0;
        for (uint64_t i = 0; i < 20'000; ++i) {  // the queue is never empty
            while (a.send(id, conformance::pattern(sent, 100)) == Post::kPosted)
                ++sent;
            a.poll();
            b.poll();
            a.forget();
            b.forget();
        }
        CHECK(sent > 20'000);
        if (conformance::kResidentMemoryTells) {
            CHECK(conformance::own_usage().resident_bytes < before + (8 << 20));
        }
    }
}
