// SPDX-License-Identifier: Apache-2.0
/// \file
/// Messages that their sender changes while the shard works on them. A peer on the same host can
/// do that: the messages lie in its ring.

#include <memory>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/passing_endpoint.h"

namespace weir::test {
namespace {

/// An endpoint whose messages change once the shard has decoded them: when it asks what the
/// endpoint can do, as it does for pulls into the reply.
class ChangingEndpoint final : public testing::PassingEndpoint {
public:
    ChangingEndpoint(std::unique_ptr<Endpoint> inner, std::shared_ptr<const bool> is_on)
        : PassingEndpoint(std::move(inner)), is_on_(std::move(is_on)) {}

    [[nodiscard]] transport::Capabilities capabilities() const override {
        change();
        return inner().capabilities();
    }

    [[nodiscard]] transport::Capabilities capabilities_of(ConnectionId c) const override {
        change();
        return inner().capabilities_of(c);
    }

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        last_ = {};
        const size_t count = inner().poll(completions);
        for (const Completion& c : completions.first(count)) {
            if (c.event == transport::Event::kReceived) last_ = c.message;
        }
        return count;
    }

private:
    void change() const {
        if (!*is_on_) return;
        for (const std::byte& byte : std::exchange(last_, {}))
            const_cast<std::byte&>(byte) ^= std::byte{0xff};
    }

    std::shared_ptr<const bool> is_on_;
    mutable std::span<const std::byte> last_;
};

}  // namespace

TEST_SUITE("changing_message") {
    TEST_CASE("a pull that has to wait is what it was when it was decoded") {
        ManualClock clock;
        transport::sim::Network network(1, clock, {});
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto server = network.make_device(0);
        const auto host = network.make_device(1);
        RegisteredMemory server_memory(*server, transport::Access::kLocal);
        RegisteredMemory worker_memory(*host, transport::Access::kRemote);
        const auto endpoint = [](transport::Device& device) {
            return std::move(device.make_endpoint({})).value();
        };
        ManagerOptions manager_options;
        manager_options.worker_count = 2;
        Manager manager(manager_options, endpoint(*server), clock);
        ShardOptions shard_options;
        shard_options.manager_address = manager.address();
        const auto is_changing = std::make_shared<bool>(false);
        Shard shard(shard_options,
                    std::make_unique<ChangingEndpoint>(endpoint(*server), is_changing), clock,
                    server_memory, rules);
        ClientCoreOptions client_options;
        client_options.manager_address = manager.address();
        ClientCore client(client_options, endpoint(*host), clock, worker_memory, rules);
        client_options.worker = 1;
        ClientCore other(client_options, endpoint(*host), clock, worker_memory, rules);
        const auto run_until = [&](const auto& over) {
            for (int i = 0; i < 5000 && !over(); ++i) {
                const size_t done = manager.poll() + shard.poll() + client.poll() + other.poll();
                if (done == 0 && !network.step()) clock.advance(kMillisecond);
            }
            return over();
        };
        REQUIRE(run_until([&] { return client.ready() && other.ready(); }));
        const auto made = client.create_table(dense_table("sums", 16));
        REQUIRE(run_until([&] { return client.done(made); }));
        const auto table = client.take_table(made);
        REQUIRE(table.has_value());

        const std::vector<float> ones(16, 1);
        CallOptions first;
        first.iteration = 1;
        const auto own =
            client.push(*table, KeyRange{0, 16}, std::as_bytes(std::span(ones)), first);
        REQUIRE_FALSE(run_until([&] { return client.done(own); }));
        *is_changing = true;
        std::vector<float> out(4);
        const auto pull =
            client.pull(*table, KeyRange{0, 4}, std::as_writable_bytes(std::span(out)), first);
        REQUIRE_FALSE(run_until([&] { return client.done(pull); }));
        *is_changing = false;
        const auto push =
            other.push(*table, KeyRange{0, 16}, std::as_bytes(std::span(ones)), first);
        REQUIRE(run_until([&] { return other.done(push) && client.done(pull); }));
        CHECK(client.take(own).has_value());
        CHECK(client.take(pull).has_value());
        CHECK(out == std::vector<float>(4, 2));
    }
}

}  // namespace weir::test
