// SPDX-License-Identifier: Apache-2.0
/// \file
/// How an endpoint divides its queues among its connections. Skipped with a message where there
/// is no device.

#include "transport/verbs/supplies.h"

#include <deque>

#include <doctest/doctest.h>

#include "tests/transport/verbs/parties.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

}  // namespace

TEST_SUITE("verbs supplies") {
    TEST_CASE("resources are reused, and a connection too many gets an error with advice") {
        if (device_or_skip({}) == nullptr) return;
        const auto hardware = open_hardware({});
        REQUIRE(hardware.has_value());
        EndpointOptions options;
        options.message_bytes_max = 256;
        options.messages_in_flight = 8;
        options.connections_max = 4;
        auto supplies = Supplies::make(*hardware, nullptr, options);
        REQUIRE_MESSAGE(supplies.has_value(), supplies.error().message());
        const auto add = [&](std::deque<VerbsConnection>& to) {
            VerbsConnection& c = to.emplace_back(to.size(), Side::kConnecting, Secret{}, Nonce{});
            return supplies->equip(c, 0);
        };
        std::deque<VerbsConnection> connections;
        Status last;
        while (last)
            last = add(connections);
        CHECK(last.code() == Errc::kBusy);
        CHECK(last.error().text().find("fewer messages in flight") != std::string::npos);
        CHECK(connections.size() > 4);
        const uint32_t window = connections[0].own.window;
        CHECK(window >= Credits::kWindowMin);
        CHECK(connections[0].queue_pair == QueuePairState::kMade);
        // The sum of the windows, and the spare buffers.
        CHECK(supplies->receives().buffer_count() >= 32 + ReceiveQueue::kSpares);
        const uint32_t before = supplies->receives().buffer_count();
        supplies->receives().replace_one();
        CHECK(supplies->receives().buffer_count() >= before);
        for (VerbsConnection& c : connections)
            supplies->take_back(c);
        CHECK(connections[0].qp == nullptr);
        std::deque<VerbsConnection> others;
        CHECK(add(others));
        CHECK(others[0].own.window == window);
        supplies->take_back(others[0]);
    }
}
