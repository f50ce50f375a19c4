// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagedShard: a shard of a simulated network, whose manager and workers are the test.

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/checkpoint/disk_queue.h"
#include "lib/node/life_line.h"
#include "lib/ring/view_change.h"
#include "lib/store/schema_codec.h"
#include "lib/wire/checkpoint_message.h"
#include "tests/cluster/raw_worker.h"

namespace weir::test {

struct ManagedShardOptions {
    using Endpoint = std::unique_ptr<transport::Endpoint>;
    std::function<Endpoint(Endpoint)> around{};             ///< what it has instead of its endpoint
    std::shared_ptr<checkpoint::DiskQueue> disk = nullptr;  ///< for checkpoints; the test runs it
    std::shared_ptr<ManagerLife> life = nullptr;  ///< what it knows of the manager's process
};

/// It is shard 0 of server 0. Server 1 with shard 1 exists in views only.
class ManagedShard {
public:
    static constexpr uint64_t kUpperHalf = uint64_t{1} << 63;

    explicit ManagedShard(uint32_t workers, const ManagedShardOptions& own = {})
        : cluster(1, {.servers = 0, .shards = 0, .workers = 0}, {}), raw(cluster, 90) {
        cluster.manager.reset();
        device_ = cluster.network.make_device(91);
        endpoint_ = std::move(device_->make_endpoint({})).value();
        shard_device_ = cluster.network.make_device(92);
        memory_ = std::make_unique<RegisteredMemory>(*shard_device_, transport::Access::kLocal);
        ShardOptions options;
        options.manager_address = endpoint_->address();
        options.disk = own.disk;
        options.link.manager = own.life;
        auto endpoint = std::move(shard_device_->make_endpoint({})).value();
        if (own.around) endpoint = own.around(std::move(endpoint));
        cluster.shards.push_back(std::make_unique<Shard>(options, std::move(endpoint),
                                                         cluster.clock, *memory_, cluster.rules));
        REQUIRE(run_until([&] { return connection_ != 0; }));
        view.next_server = view.next_shard = 2;
        view.servers = {{0, 0, 0, 1}, {1, 1, 1, 1}};
        view.shards = {{0, 0, 1, shard().address()}, {1, 1, 1, "sim:nobody"}};
        view.segments = {{.first = 0, .primary = 0}, {.first = kUpperHalf, .primary = 0}};
        for (uint32_t worker = 0; worker < workers; ++worker)
            view.workers.push_back({worker, worker, 1});
        view.next_worker = workers;
        send_view();
    }

    ManagedShard(const ManagedShard&) = delete;
    ManagedShard& operator=(const ManagedShard&) = delete;

    ~ManagedShard() { cluster.shards.clear(); }  // before its memory

    [[nodiscard]] Shard& shard() { return *cluster.shards[0]; }

    /// Sends `view` with the next epoch. Its `since` must be right.
    void send_view() {
        ++view.epoch;
        Result<View> next = View::make(view);
        REQUIRE(next.has_value());
        PassesMessage passes;
        for (const ViewShard& shard : view.shards)
            passes.passes.push_back({true, shard.number, testing::kPass});
        for (const ViewWorker& worker : view.workers)
            passes.passes.push_back({false, worker.number, testing::kPass});
        send(wire::Kind::kPasses, passes.encode());
        for (const auto& body : encode_parts(view_change(sent_, *next), 4096))
            send(wire::Kind::kView, body);
        sent_ = *std::move(next);
        run();
    }

    /// Some positions have no primary any more.
    void lose_segment(size_t index) {
        view.segments[index].primary = kNoShard;
        view.shards[0].since = view.epoch + 1;
        send_view();
    }

    void make_table(uint32_t number, const TableSchema& schema) {
        send(wire::Kind::kCreateTable,
             TableMessage{number, schema.name, encode_schema(schema)}.encode());
        run();
        REQUIRE(replies_.back() == Errc::kOk);
    }

    /// The answers to a question of `epoch`, for each of the tables.
    [[nodiscard]] std::vector<FirstIterationMessage> ask(uint64_t epoch,
                                                         std::vector<uint32_t> tables) {
        firsts_.clear();
        send(wire::Kind::kFirstIteration,
             AskFirstIterationMessage{epoch, std::move(tables)}.encode());
        run();
        return firsts_;
    }

    /// The tables of which the shard has reported that it has dropped them.
    [[nodiscard]] const std::vector<uint64_t>& dropped() const { return dropped_; }

    /// The answer to the last order to make a table.
    [[nodiscard]] Errc made() const { return replies_.back(); }

    /// Whether the shard has reported that step of a checkpoint.
    [[nodiscard]] bool has_reported(CheckpointReport::Step step) const {
        return std::ranges::find(checkpoint_steps_, step) != checkpoint_steps_.end();
    }

    void send(wire::Kind kind, std::span<const std::byte> body, uint64_t first = 0) {
        wire::FrameHeader header = testing::frame_header(kind);
        header.first = first;
        (void)testing::send_frame(*endpoint_, connection_, header, body);
    }

    /// For good: this manager has no number by which the shard could come back.
    void close_manager() {
        endpoint_->close(connection_);
        run();
    }

    void run() {
        (void)run_until([] { return false; });
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over) {
        return raw.run_until(
            [&] {
                poll();
                return over();
            },
            20);
    }

    SimCluster cluster;
    RawWorker raw;  ///< all workers
    ViewData view;  ///< change it, then send_view()

private:
    void poll() {
        std::array<transport::Completion, 16> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == transport::Event::kAccepted) connection_ = c.connection;
            wire::Frame frame;
            if (c.event != transport::Event::kReceived ||
                wire::decode(c.message, frame) != Errc::kOk)
                continue;
            if (frame.header.kind == wire::Kind::kReply) replies_.push_back(frame.header.status);
            if (frame.header.kind == wire::Kind::kDropTable) dropped_.push_back(frame.header.first);
            if (frame.header.kind == wire::Kind::kCheckpoint) {
                const auto report = CheckpointReport::decode(frame.values);
                REQUIRE(report.has_value());
                checkpoint_steps_.push_back(report->step);
            }
            if (frame.header.kind != wire::Kind::kFirstIteration) continue;
            const auto first = FirstIterationMessage::decode(frame.values);
            REQUIRE(first.has_value());
            firsts_.push_back(*first);
        }
    }

    View sent_;
    std::unique_ptr<transport::Device> device_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::unique_ptr<transport::Device> shard_device_;
    std::unique_ptr<RegisteredMemory> memory_;
    transport::ConnectionId connection_ = 0;
    std::vector<Errc> replies_;
    std::vector<uint64_t> dropped_;
    std::vector<FirstIterationMessage> firsts_;
    std::vector<CheckpointReport::Step> checkpoint_steps_;
};

}  // namespace weir::test
