// SPDX-License-Identifier: Apache-2.0
/// \file
/// A client whose shard leaves while the job fails; the test plays the shards and the manager.

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/ring/view_change.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/worker/client_core.h"
#include "tests/frames.h"
#include "tests/registered_memory.h"
#include "transport/sim/network.h"

namespace weir::test {
namespace {

constexpr uint64_t kLeavingKeys = 1000;

/// Two shards that reply to nothing.
class SilentShards {
public:
    SilentShards() {
        for (auto& shard : shards_)
            shard = std::move(device_->make_endpoint({})).value();
        data_.epoch = 1;
        data_.next_server = data_.next_shard = 2;
        data_.next_worker = 1;
        data_.workers = {{0, 0, 1}};
        for (uint32_t i = 0; i < 2; ++i) {
            data_.servers.push_back({i, i, i, 1});
            data_.shards.push_back({i, i, 1, shards_[i]->address()});
        }
        data_.segments = {{.first = 0, .primary = 0}, {.first = uint64_t{1} << 63, .primary = 1}};
        view_ = std::move(View::make(data_)).value();
        ClientCoreOptions options;
        options.manager_address = manager_->address();
        client = std::make_unique<ClientCore>(
            options, std::move(client_device_->make_endpoint({})).value(), clock_, memory_, rules_);
        REQUIRE(run_until([&] { return client->ready(); }));
        TableSchema schema;
        schema.name = "t";
        schema.value_type = ValueType::kUInt64;
        schema.key_count = kLeavingKeys;
        table = std::move(make_table_info(schema, rules_)).value();
    }

    SilentShards(const SilentShards&) = delete;
    SilentShards& operator=(const SilentShards&) = delete;

    ~SilentShards() { client.reset(); }  // before its memory

    /// The next view has the first shard alone.
    void second_leaves() {
        data_.epoch = 2;
        data_.servers.pop_back();
        data_.shards.pop_back();
        data_.shards[0].since = 2;
        data_.segments[1].primary = 0;
        const View next = std::move(View::make(data_)).value();
        for (const auto& body : encode_parts(view_change(view_, next), kViewPartBytesMin))
            send(testing::frame_header(wire::Kind::kView), body);
    }

    void job_fails() {
        wire::FrameHeader header = testing::frame_header(wire::Kind::kShutdown);
        header.status = Errc::kException;
        send(header, encode_text("a rule threw"));
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over) {
        for (int i = 0; i < 20'000 && !over(); ++i) {
            size_t done = client->poll();
            for (const auto& endpoint : {manager_.get(), shards_[0].get(), shards_[1].get()})
                done += poll(*endpoint);
            if (done == 0 && !network_.step()) clock_.advance(kMillisecond / 4);
        }
        return over();
    }

    std::unique_ptr<ClientCore> client;
    TableInfo table;

private:
    size_t poll(transport::Endpoint& endpoint) {
        std::array<transport::Completion, 8> completions;
        const size_t count = endpoint.poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (&endpoint != manager_.get() || c.event != transport::Event::kReceived) continue;
            if (std::exchange(to_client_, c.connection) != 0) continue;
            for (const auto& body : encode_parts(whole_view(view_), kViewPartBytesMin))
                send(testing::frame_header(wire::Kind::kView), body);
        }
        return count;
    }

    void send(const wire::FrameHeader& header, std::span<const std::byte> body) {
        REQUIRE(testing::send_frame(*manager_, to_client_, header, body) ==
                transport::Post::kPosted);
    }

    ManualClock clock_;
    transport::sim::Network network_{1, clock_, {}};
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    std::unique_ptr<transport::Device> device_ = network_.make_device(0);
    std::unique_ptr<transport::Device> client_device_ = network_.make_device(1);
    testing::RegisteredMemory memory_{*client_device_, transport::Access::kRemote};
    std::unique_ptr<transport::Endpoint> manager_ = std::move(device_->make_endpoint({})).value();
    std::array<std::unique_ptr<transport::Endpoint>, 2> shards_;
    transport::ConnectionId to_client_ = 0;
    ViewData data_;
    View view_;
};

}  // namespace

TEST_SUITE("a shard that leaves") {
    TEST_CASE("a call whose shard may still write its memory while it leaves ends with the job") {
        SilentShards job;
        std::vector<uint64_t> values(kLeavingKeys);
        const auto call = job.client->pull(job.table, KeyRange{0, kLeavingKeys},
                                           std::as_writable_bytes(std::span(values)),
                                           {.deadline_ns = CallOptions::kLongNs});
        REQUIRE_FALSE(job.run_until([] { return false; }));
        job.second_leaves();
        job.job_fails();
        REQUIRE(job.run_until([&] { return job.client->done(call); }));
        CHECK(job.client->take(call).code() == Errc::kException);
    }
}

}  // namespace weir::test
