// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Helpers for tests of the verbs backend on a real device.

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "tests/wait_until.h"
#include "transport/verbs/verbs.h"

namespace weir::transport::verbs::testing {

/// A device; nullptr, with a message, where there is none.
inline std::unique_ptr<Device> device_or_skip(const DeviceOptions& options) {
    auto device = make_device(options);
    if (device) return std::move(*device);
    MESSAGE("SKIPPED: " << device.error().message());
    return nullptr;
}

/// An endpoint and its completions.
struct Party {
    std::unique_ptr<Endpoint> endpoint;
    std::vector<Completion> seen;  ///< except messages

    explicit Party(Device& device, const EndpointOptions& options = {}) {
        auto made = device.make_endpoint(options);
        REQUIRE_MESSAGE(made.has_value(), made.error().message());
        endpoint = std::move(*made);
    }

    void poll() {
        std::array<Completion, 64> completions;
        const size_t count = endpoint->poll(completions);
        seen.insert(seen.end(), completions.begin(), completions.begin() + count);
    }

    const Completion* find(Event event) const {
        for (const Completion& c : seen) {
            if (c.event == event) return &c;
        }
        return nullptr;
    }
};

inline bool until(const std::vector<Party*>& parties, const std::function<bool()>& done) {
    return weir::testing::wait_until(done, [&] {
        for (Party* const party : parties)
            party->poll();
    });
}

struct Link {
    ConnectionId near = 0;
    ConnectionId far = 0;
};

/// Connects a to b, and waits until both have reported it.
inline Link connect(Party& a, Party& b) {
    const auto begun = a.endpoint->connect(b.endpoint->address());
    REQUIRE(begun.has_value());
    b.seen.clear();
    REQUIRE(until({&a, &b}, [&] {
        return a.find(Event::kConnected) != nullptr && b.find(Event::kAccepted) != nullptr;
    }));
    return {*begun, b.find(Event::kAccepted)->connection};
}

}  // namespace weir::transport::verbs::testing
