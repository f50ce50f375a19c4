// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/fetcher.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include <doctest/doctest.h>

#include "tests/cluster/sim_cluster.h"

namespace weir::test {
namespace {

using transport::ConnectionId;

/// A request that has ended, with copies of what it found.
struct Ended {
    ConnectionId connection = 0;
    uint64_t request = 0;
    Errc status = Errc::kOk;
    std::vector<std::byte> keys;
    std::vector<std::byte> values;
    size_t room_bytes = 0;
};

/// A shard's endpoint with a fetcher, and three workers that have connected to it.
class World {
public:
    static constexpr uint32_t kWorkers = 3;

    explicit World(size_t limit_bytes, const transport::sim::Options& options = {})
        : network_(1, clock_, options),
          device_(network_.make_device(0)),
          memory(*device_, transport::Access::kLocal),
          memory_with_spares_(memory),
          endpoint_(std::move(device_->make_endpoint({})).value()),
          fetcher(*endpoint_, requests, memory_with_spares_, limit_bytes) {
        memory_with_spares_.add(fetcher.spares());
        for (uint32_t i = 0; i < kWorkers; ++i)
            workers_[i].connect(network_, i + 1, endpoint_->address());
        run_until([&] { return connections.size() == kWorkers; });
        REQUIRE(connections.size() == kWorkers);
    }

    ~World() { endpoint_.reset(); }

    World(const World&) = delete;
    World& operator=(const World&) = delete;

    /// Registered memory of a worker with bytes that depend on the place and on `salt`.
    wire::MemoryHandle place(uint64_t worker, size_t bytes, uint8_t salt) {
        return workers_[worker].place(bytes, salt);
    }

    void add_push(uint64_t worker, uint64_t request, size_t key_bytes, size_t value_bytes) {
        wire::Frame frame;
        frame.header.kind = wire::Kind::kPush;
        frame.header.flags = wire::kKeysRemote | wire::kValuesRemote;
        frame.header.request = request;
        frame.keys_at = place(worker, key_bytes, 1);
        frame.values_at = place(worker, value_bytes, 2);
        add(worker, frame);
    }

    void add(uint64_t worker, const wire::Frame& frame) {
        KeptRequest& request = requests.keep(Request{frame, connections[worker]});
        request.wait = Wait::kBytes;
        fetcher.add(request);
    }

    void add_pull(uint64_t worker, uint64_t request, size_t value_bytes) {
        wire::Frame frame;
        frame.header.kind = wire::Kind::kPull;
        frame.header.flags = wire::kKeysKnown | wire::kValuesRemote;
        frame.header.request = request;
        frame.values_at = {1, value_bytes, 1};
        add(worker, frame);
    }

    /// Polls everything, then lets the network take one step. False if nothing was left to do.
    bool step() {
        std::array<transport::Completion, 8> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == transport::Event::kAccepted) connections.push_back(c.connection);
            if (c.event == transport::Event::kRead) fetcher.ended(c.context, c.status);
        }
        size_t done = fetcher.start();
        endpoint_->flush();
        while (KeptRequest* const next = fetcher.next()) {
            ended.push_back({next->connection,
                             next->header.request,
                             next->status,
                             {next->keys.begin(), next->keys.end()},
                             {next->values.begin(), next->values.end()},
                             next->room.size()});
            next->wait = Wait::kNothing;
            if (keeps) {
                kept.push_back(next);
            } else {
                end(*next);
            }
            ++done;
        }
        for (Worker& worker : workers_)
            worker.poll();
        return done + count > 0 || network_.step();
    }

    void end(KeptRequest& request) {
        fetcher.release(request);
        requests.end(request);
    }

    template <class Over>
    void run_until(Over&& over) {
        for (int i = 0; i < 5000 && !over() && step(); ++i) {
        }
    }

    /// Until nothing more happens.
    void run() {
        run_until([] { return false; });
    }

    void cut(uint32_t worker) { network_.partition(0, worker + 1); }

    [[nodiscard]] const transport::EndpointCounters& counters() const {
        return endpoint_->counters();
    }

private:
    struct Worker {
        std::unique_ptr<transport::Device> device;
        std::unique_ptr<RegisteredMemory> memory;
        std::unique_ptr<transport::Endpoint> endpoint;
        ConnectionId connection = 0;

        void connect(transport::sim::Network& network, uint32_t host, const std::string& address) {
            device = network.make_device(host);
            memory = std::make_unique<RegisteredMemory>(*device, transport::Access::kRemote);
            endpoint = std::move(device->make_endpoint({})).value();
            connection = *endpoint->connect(address);
        }

        wire::MemoryHandle place(size_t bytes, uint8_t salt) const {
            std::byte* const data = memory->allocate(bytes, 64);
            for (size_t i = 0; i < bytes; ++i)
                data[i] = static_cast<std::byte>(i * 7 + salt);
            const auto remote = *endpoint->expose(connection, {data, bytes});
            return {remote.address, remote.length_bytes, remote.key};
        }

        void poll() const {
            std::array<transport::Completion, 8> completions;
            (void)endpoint->poll(completions);
        }
    };

    ManualClock clock_;
    transport::sim::Network network_;
    std::array<Worker, kWorkers> workers_;
    std::unique_ptr<transport::Device> device_;

public:
    RegisteredMemory memory;

private:
    MemoryWithCaches memory_with_spares_;
    std::unique_ptr<transport::Endpoint> endpoint_;

public:
    KeptRequests requests;
    Fetcher fetcher;
    std::vector<ConnectionId> connections;
    std::vector<Ended> ended;
    std::vector<KeptRequest*> kept;
    bool keeps = false;
};

/// The bytes that World::place() writes.
std::vector<std::byte> expected(size_t bytes, uint8_t salt) {
    std::vector<std::byte> data(bytes);
    for (size_t i = 0; i < bytes; ++i)
        data[i] = static_cast<std::byte>(i * 7 + salt);
    return data;
}

transport::sim::Options one_read_at_a_time() {
    transport::sim::Options options;
    options.operations_max = 1;
    return options;
}

std::vector<uint64_t> requests_of(const std::vector<Ended>& ended) {
    std::vector<uint64_t> requests;
    requests.reserve(ended.size());
    for (const Ended& one : ended)
        requests.push_back(one.request);
    return requests;
}

}  // namespace

TEST_SUITE("fetcher") {
    TEST_CASE("keys and values are read from where they lie") {
        World world(1 << 20);
        world.add_push(0, 7, 40, 1000);
        world.run();
        REQUIRE(world.ended.size() == 1);
        CHECK(world.ended[0].connection == world.connections[0]);
        CHECK(world.ended[0].status == Errc::kOk);
        CHECK(world.ended[0].keys == expected(40, 1));
        CHECK(world.ended[0].values == expected(1000, 2));
        CHECK_FALSE(world.fetcher.waiting());
    }

    TEST_CASE("what the message carries comes with what is read") {
        World world(1 << 20);
        const std::vector<std::byte> carried = expected(64, 3);
        wire::Frame frame;
        frame.header.kind = wire::Kind::kPush;
        frame.header.flags = wire::kKeysInline | wire::kValuesRemote;
        frame.keys = carried;
        frame.values_at = world.place(0, 100, 2);
        world.add(0, frame);
        frame = {};
        frame.header.kind = wire::Kind::kPush;
        frame.header.request = 1;
        frame.header.flags = wire::kKeysRemote | wire::kValuesInline;
        frame.keys_at = world.place(1, 80, 1);
        frame.values = carried;
        world.add(1, frame);
        world.run();
        REQUIRE(world.ended.size() == 2);
        if (world.ended[0].request == 1) std::swap(world.ended[0], world.ended[1]);
        CHECK(world.ended[0].keys == carried);
        CHECK(world.ended[0].values == expected(100, 2));
        CHECK(world.ended[1].keys == expected(80, 1));
        CHECK(world.ended[1].values == carried);
    }

    TEST_CASE("no more memory than the limit is in use, and everything has its turn") {
        constexpr size_t kLimit = 4096;
        World world(kLimit);
        for (uint64_t i = 0; i < 60; ++i)
            world.add_push(i % 3, i, 64, 100 + i * 10);
        world.run();
        CHECK(world.ended.size() == 60);
        CHECK(world.memory.bytes_in_use_max() <= kLimit);
        CHECK(world.memory.bytes_in_use_max() > kLimit / 2);  // it is used
    }

    TEST_CASE("a request that is larger than the limit is served alone") {
        World world(1000);
        world.add_push(0, 0, 64, 5000);
        world.add_push(1, 1, 64, 5000);
        world.add_push(2, 2, 64, 100);
        world.run();
        CHECK(world.ended.size() == 3);
        CHECK(world.memory.bytes_in_use_max() == 64 + 5000);
        for (const Ended& one : world.ended)
            CHECK(one.status == Errc::kOk);
    }

    TEST_CASE("connections take turns") {
        World world(1);  // one request at a time
        for (uint64_t i = 0; i < 3; ++i)
            world.add_push(0, i, 64, 64);
        for (uint64_t i = 10; i < 13; ++i)
            world.add_push(1, i, 64, 64);
        world.add_push(2, 20, 64, 64);
        world.run();
        CHECK(requests_of(world.ended) == std::vector<uint64_t>{0, 10, 20, 1, 11, 2, 12});
    }

    TEST_CASE("a request of which only a part finds room is read on later, and right") {
        World world(1 << 20, one_read_at_a_time());
        for (uint64_t i = 0; i < 5; ++i)
            world.add_push(0, i, 64, 640);
        CHECK(world.fetcher.start() == 0);
        CHECK(world.counters().reads == 1);  // its keys
        world.run();
        CHECK(world.counters().reads == 10);
        CHECK(requests_of(world.ended) == std::vector<uint64_t>{0, 1, 2, 3, 4});
        for (const Ended& one : world.ended) {
            CHECK(one.status == Errc::kOk);
            CHECK(one.keys == expected(64, 1));
            CHECK(one.values == expected(640, 2));
        }
    }

    TEST_CASE("who has memory is read on while another one waits for it") {
        transport::sim::Options options;
        options.operations_max = 1;
        World world(512, options);
        world.add_push(0, 1, 128, 128);  // the second read finds no room at first
        world.add_push(1, 2, 300, 300);
        world.run_until([&] { return world.ended.size() == 2; });
        REQUIRE(world.ended.size() == 2);
        for (const Ended& ended : world.ended)
            CHECK(ended.status == Errc::kOk);
    }

    TEST_CASE("a connection that is stuck holds up nobody else") {
        for (const bool partly : {true, false}) {
            INFO("partly posted " << partly);
            transport::sim::Options options = one_read_at_a_time();
            if (!partly) options.operations_max = 64;
            World world(4096, options);
            world.cut(0);
            for (uint64_t i = 0; i < 10; ++i)
                world.add_push(0, i, 64, 500);
            (void)world.fetcher.start();
            for (uint64_t i = 10; i < 30; ++i)
                world.add_push(1, i, 64, 500);
            world.run_until([&] { return world.ended.size() == 20; });
            REQUIRE(world.ended.size() == 20);
            for (const Ended& one : world.ended) {
                CHECK(one.status == Errc::kOk);
                CHECK(one.connection == world.connections[1]);
            }
        }
    }

    TEST_CASE("a read that fails ends its request, whichever of the two it is") {
        for (const bool one_by_one : {true, false}) {
            for (const bool keys : {true, false}) {
                INFO("one by one " << one_by_one << ", keys " << keys);
                transport::sim::Options options;
                if (one_by_one) options = one_read_at_a_time();
                World world(1 << 20, options);
                wire::Frame frame;
                frame.header.kind = wire::Kind::kPush;
                frame.header.flags = wire::kKeysRemote | wire::kValuesRemote;
                frame.keys_at = world.place(0, 64, 1);
                frame.values_at = world.place(0, 64, 2);
                (keys ? frame.keys_at : frame.values_at).key ^= 1;
                world.add(0, frame);
                world.run();
                REQUIRE(world.ended.size() == 1);
                CHECK(world.ended[0].status != Errc::kOk);
                CHECK_FALSE(world.fetcher.waiting());
            }
        }
    }

    TEST_CASE("what is queued for a connection that is gone is forgotten, the rest goes on") {
        World world(1 << 20, one_read_at_a_time());
        for (uint64_t i = 0; i < 4; ++i) {
            world.add_push(0, i, 64, 640);
            world.add_push(1, 10 + i, 64, 640);
        }
        (void)world.fetcher.start();  // the first one's keys are on their way
        world.fetcher.forget(world.connections[0]);
        world.run();
        // A read ends when the network no longer uses its memory.
        const auto is_its = [&](const Ended& one) {
            return one.connection == world.connections[0] && one.status == Errc::kPeerLost;
        };
        CHECK(std::erase_if(world.ended, is_its) == 4);
        CHECK(requests_of(world.ended) == std::vector<uint64_t>{10, 11, 12, 13});
        CHECK_FALSE(world.fetcher.waiting());
        CHECK(world.counters().reads == 9);
    }

    TEST_CASE("a pull gets room for its values, and keeps it until it is released") {
        World world(1000);
        world.keeps = true;
        for (uint64_t i = 0; i < 5; ++i)
            world.add_pull(i % 3, i, 400);
        world.run();
        CHECK(requests_of(world.ended) == std::vector<uint64_t>{0, 1});
        CHECK(world.ended[0].room_bytes == 400);
        CHECK(world.fetcher.waiting());
        world.end(*world.kept[0]);
        world.run();
        CHECK(requests_of(world.ended) == std::vector<uint64_t>{0, 1, 2});
        world.end(*world.kept[1]);
        world.end(*world.kept[2]);
        world.run();
        CHECK(world.ended.size() == 5);
        CHECK(world.memory.bytes_in_use_max() <= 1000);
    }

    TEST_CASE("requests of one size need no new memory") {
        World world(1 << 20);
        for (uint64_t i = 0; i < 20; ++i) {
            world.add_push(0, i, 64, 1000);
            world.run();
        }
        CHECK(world.ended.size() == 20);
        CHECK(world.memory.allocations() == 1);
    }

    TEST_CASE("memory that is kept for the next one is given up for one of another size") {
        World world(1 << 20);
        world.add_push(0, 0, 64, 1000);
        world.run();
        world.memory.set_limit(5200);
        world.add_push(0, 1, 64, 5000);
        world.run();
        REQUIRE(world.ended.size() == 2);
        CHECK(world.ended[1].status == Errc::kOk);
    }

    TEST_CASE("where there is no memory at all, a request ends with that") {
        World world(1 << 20);
        world.memory.set_limit(100);
        world.add_push(0, 0, 64, 1000);
        world.run();
        REQUIRE(world.ended.size() == 1);
        CHECK(world.ended[0].status == Errc::kNoMemory);
    }
}

}  // namespace weir::test
