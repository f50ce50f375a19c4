// SPDX-License-Identifier: Apache-2.0
#include "lib/job/devices.h"

#include <array>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/store/rule_registry.h"
#include "lib/worker/client_core.h"
#include "tests/wait_until.h"

namespace weir {
namespace {

/// The devices of two processes; the second one's endpoint is never polled.
struct Pair {
    Config config{Environment(Environment::Map{
        {"WEIR_POOL_MIB", "16"}, {"WEIR_JOIN_TIMEOUT_S", "1"}, {"WEIR_TRANSPORT", "shm"}})};
    std::shared_ptr<Devices> near = open();
    std::shared_ptr<Devices> far = open();
    std::unique_ptr<transport::Endpoint> deaf = std::move(far->make_endpoint()).value();

    [[nodiscard]] std::shared_ptr<Devices> open() const {
        return std::move(Devices::open(config, transport::Secret{}, false)).value();
    }
};

constexpr uint64_t kFarBelowDefaultNs = 10 * kSecond;

}  // namespace

TEST_SUITE("devices") {
    TEST_CASE("connecting takes as long as the time to join, and no longer") {
        const Pair pair;
        const SteadyClock clock;
        const auto endpoint = std::move(pair.near->make_endpoint()).value();
        const uint64_t begun_ns = clock.now_ns();
        REQUIRE(endpoint->connect(pair.deaf->address()).has_value());
        std::array<transport::Completion, 1> completion;
        size_t count = 0;
        REQUIRE(testing::wait_until([&] { return count == 1; },
                                    [&] { count = endpoint->poll(completion); },
                                    kFarBelowDefaultNs));
        CHECK(completion[0].event == transport::Event::kClosed);
        CHECK(completion[0].status == Errc::kDeadline);
        CHECK(clock.now_ns() - begun_ns >= kSecond);
    }

    TEST_CASE("a client names the manager that does not answer") {
        const Pair pair;
        const SteadyClock clock;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto pool = std::move(Devices::worker_pool(pair.near)).value();
        ClientCoreOptions options;
        options.manager_address = pair.deaf->address();
        ClientCore client(options, std::move(pair.near->make_endpoint()).value(), clock, *pool,
                          rules);
        REQUIRE(testing::wait_until([&] { return client.finished(); },
                                    [&] { static_cast<void>(client.poll()); }, kFarBelowDefaultNs));
        CHECK(client.failure().code() == Errc::kDeadline);
        CHECK(client.failure().error().message().find("no answer from the manager (rank 0)") !=
              std::string::npos);
    }
}

}  // namespace weir
