// SPDX-License-Identifier: Apache-2.0
/// \file
/// Strangers that know the secret and talk to the manager, and a manager that talks nonsense to a
/// worker: connections are closed or calls refused, and whoever is honest is served as before.

#include <array>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/server/sim_cluster.h"

namespace weir::test {
namespace {

using transport::ConnectionId;

constexpr uint64_t kExtremeWords[] = {0,     1,          2,          255,        256,
                                      65535, 0x7fffffff, 0x80000000, 0xffffffff, ~uint64_t{0}};

/// An endpoint that says anything to whoever it is connected to.
class Babbler {
public:
    Babbler(transport::Device& device, uint64_t seed)
        : endpoint_(std::move(device.make_endpoint({})).value()), random_(seed) {}

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    void connect(const std::string& address) { (void)endpoint_->connect(address); }

    /// Answers every connection and every message with some frames.
    void poll() {
        std::array<transport::Completion, 8> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& completion : std::span(completions).first(count)) {
            if (completion.event == transport::Event::kClosed) continue;
            if (completion.event == transport::Event::kReceived) ++answers_;
            for (int i = 0; i < 3; ++i)
                say(completion.connection);
        }
        endpoint_->flush();
    }

    [[nodiscard]] uint64_t answers() const { return answers_; }

private:
    uint64_t extreme() { return kExtremeWords[random_.below(std::size(kExtremeWords))]; }

    uint32_t small_or_extreme() {
        return static_cast<uint32_t>(random_.below(3) == 0 ? extreme() : random_.below(5));
    }

    std::string text() { return std::string(random_.below(4) == 0 ? 600 : random_.below(20), 'a'); }

    /// A body that is well made, with fields that make no sense; or just bytes.
    std::vector<std::byte> body() {
        switch (random_.below(5)) {
            case 0: {
                AssignmentMessage message;
                message.epoch = small_or_extreme();
                message.shape = {small_or_extreme(), small_or_extreme(), small_or_extreme(), 1};
                message.worker_count = small_or_extreme();
                message.first = small_or_extreme();
                message.shards.resize(random_.below(4), {small_or_extreme(), text()});
                return message.encode();
            }
            case 1:
                return JoinMessage{static_cast<JoinMessage::Role>(random_.below(4)),
                                   small_or_extreme(), small_or_extreme(), text()}
                    .encode();
            case 2: return TableMessage{small_or_extreme(), text(), text()}.encode();
            case 3: return LeaveMessage{static_cast<Errc>(random_.below(30)), text()}.encode();
            default: break;
        }
        std::vector<std::byte> bytes(random_.below(200));
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random_());
        return bytes;
    }

    void say(ConnectionId connection) {
        const std::vector<std::byte> words = body();
        wire::FrameHeader header;
        header.kind = static_cast<wire::Kind>(random_.below(16));
        header.request = extreme();
        header.table = small_or_extreme();
        header.status = static_cast<Errc>(random_.below(4) == 0 ? random_.below(1000) : 0);
        header.first = extreme();
        header.body_bytes = static_cast<uint32_t>(words.size());
        if (random_.below(10) == 0) header.body_bytes = small_or_extreme();
        const std::array<std::span<const std::byte>, 2> parts{std::as_bytes(std::span(&header, 1)),
                                                              words};
        (void)endpoint_->send(connection, parts);
    }

    std::unique_ptr<transport::Endpoint> endpoint_;
    Random random_;
    uint64_t answers_ = 0;
};

}  // namespace

TEST_SUITE("hostile manager") {
    TEST_CASE("strangers at the manager are turned away, and the workers' job goes on") {
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 20; ++seed) {
            INFO("WEIR_SEED=" << seed);
            SimCluster cluster(seed, {}, {});
            REQUIRE(cluster.start());
            const auto device = cluster.network.make_device(99);
            Babbler stranger(*device, seed);
            for (int i = 0; i < 30; ++i)
                stranger.connect(cluster.manager->address());
            for (int i = 0; i < 2000; ++i) {
                stranger.poll();
                (void)cluster.step();
            }
            std::vector<ClientCore::CallId> barriers;
            for (const auto& worker : cluster.workers)
                barriers.push_back(worker->barrier(0));
            for (uint32_t worker = 0; worker < 3; ++worker)
                REQUIRE(cluster.finish(worker, barriers[worker]).has_value());
            TableSchema schema;
            schema.name = "numbers";
            schema.layout = Layout::kDense;
            schema.key_count = 8;
            const auto table = cluster.make_table(1, schema);
            REQUIRE(table.has_value());
            const std::vector<float> ones(8, 1);
            const auto push = cluster.workers[1]->push(*table, KeyRange{0, 8},
                                                       std::as_bytes(std::span(ones)), {});
            CHECK(cluster.finish(1, push).has_value());
        }
    }

    TEST_CASE("a worker whose manager talks nonsense ends with an error, or waits for sense") {
        uint64_t heard = 0;
        const uint64_t first = testing::seed_or(1);
        for (uint64_t seed = first; seed < first + 200; ++seed) {
            INFO("WEIR_SEED=" << seed);
            ManualClock clock;
            transport::sim::Network network(seed, clock, {});
            const auto there = network.make_device(0);
            const auto here = network.make_device(1);
            Babbler manager(*there, seed);
            RegisteredMemory memory(*here, transport::Access::kRemote);
            const RuleRegistry rules = RuleRegistry::with_builtin_rules();
            ClientCoreOptions options;
            options.manager_address = manager.address();
            options.join_timeout_ns = kSecond;
            ClientCore client(options, std::move(here->make_endpoint({})).value(), clock, memory,
                              rules);
            for (int i = 0; i < 3000 && !client.finished(); ++i) {
                manager.poll();
                (void)client.poll();
                if (!network.step()) clock.advance(kMillisecond);
            }
            heard += manager.answers();
            CHECK_FALSE(client.ready());
            CHECK(client.finished());
            CHECK_FALSE(client.failure().has_value());
        }
        CHECK(heard > 0);
    }
}

}  // namespace weir::test
