// SPDX-License-Identifier: Apache-2.0
#include "lib/job/devices.h"

#include <array>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/store/rules/rule_registry.h"
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

/// Below the default of WEIR_JOIN_TIMEOUT_S, 30 s.
constexpr uint64_t kBelowDefaultNs = 25 * kSecond;

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
                                    [&] { count = endpoint->poll(completion); }, kBelowDefaultNs));
        CHECK(completion[0].event == transport::Event::kClosed);
        CHECK(completion[0].status == Errc::kDeadline);
        CHECK(clock.now_ns() - begun_ns >= kSecond);
    }

    TEST_CASE("an address to listen on that cannot be one names its variable") {
        const auto listen = [](const char* transport, const char* address) {
            const Config config{Environment(Environment::Map{
                {"WEIR_POOL_MIB", "16"}, {"WEIR_TRANSPORT", transport}, {"WEIR_BIND", address}})};
            const auto devices = Devices::open(config, transport::Secret{}, true);
            if (!devices) return devices.error().message();
            const auto endpoint = (*devices)->make_endpoint();
            return endpoint ? std::string("it listens") : endpoint.error().message();
        };
        for (const char* const transport : {"tcp", "auto"}) {
            // An address for documentation (RFC 5737).
            CHECK(
                listen(transport, "203.0.113.9") ==
                "WEIR_BIND is 203.0.113.9, which is not an address of this machine: set it to one "
                "of those that `ip address` lists, or unset it");
            CHECK(listen(transport, "foo")
                      .starts_with("WEIR_BIND is 'foo', which is not an address, and no interface "
                                   "with one that is "
                                   "up: set it to an address of this machine, the name of an "
                                   "interface, or a network "
                                   "such as 10.1.0.0/16, or unset it; this machine has "));
            CHECK(listen(transport, "203.0.113.0/24")
                      .starts_with("WEIR_BIND is '203.0.113.0/24', a network in which this machine "
                                   "has no address: "));
            CHECK(listen(transport, "lo") == "it listens");
            CHECK(listen(transport, "127.0.0.0/8") == "it listens");
            CHECK(listen(transport, "127.0.0.1") == "it listens");
        }
        CHECK(listen("shm", "203.0.113.9") == "it listens");  // where nothing listens there
    }

    TEST_CASE("verbs that is asked for by name and cannot be used names its variable") {
        const Config config{Environment(Environment::Map{{"WEIR_TRANSPORT", "verbs"}})};
        const auto devices = Devices::open(config, transport::Secret{}, true);
        if (devices) {
            MESSAGE("skipped: this machine has verbs");
            return;
        }
        const std::string text = devices.error().message();
        CHECK(text.starts_with("WEIR_TRANSPORT=verbs: "));
        CHECK(text.find("unset WEIR_TRANSPORT, or set it to tcp (or to shm") != std::string::npos);
        const auto only = Devices::open_only("verbs", Config(), transport::Secret{});
        CHECK(only.error().message().find("WEIR_TRANSPORT") == std::string::npos);
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
                                    [&] { static_cast<void>(client.poll()); }, kBelowDefaultNs));
        CHECK(client.failure().code() == Errc::kDeadline);
        CHECK(client.failure().error().message().find("no answer from the manager (rank 0)") !=
              std::string::npos);
    }
}

}  // namespace weir
