// SPDX-License-Identifier: Apache-2.0
/// \file
/// A client and a shard that breaks the rules: it answers requests of another shard, and too late.

#include <array>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/filter/filters.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/frames.h"

namespace weir::test {
namespace {

using transport::ConnectionId;
using transport::Event;

constexpr uint64_t kHostileTableKeys = 1 << 16;
constexpr double kInitial = 7;

/// A cluster of one worker and two shards, the second of which the test plays. It joins
/// and makes tables as it should.
class RogueShard {
public:
    RogueShard() : cluster(5, {.servers = 1, .shards = 2, .workers = 1}, {}) {
        cluster.shards.pop_back();
        device_ = cluster.network.make_device(77);
        endpoint_ = std::move(device_->make_endpoint({})).value();
        REQUIRE(device_->register_memory({memory_}, transport::Access::kLocal).has_value());
        manager_ = *endpoint_->connect(cluster.manager->address());
        REQUIRE(run_until([&] { return cluster.workers[0]->ready() && worker_ != 0; }));
        TableSchema schema = dense_table("numbers", kHostileTableKeys, ValueType::kFloat64);
        schema.initial_value = kInitial;
        const auto made = client().create_table(schema);
        REQUIRE(run_until([&] { return client().done(made); }));
        table = *client().take_table(made);
    }

    [[nodiscard]] ClientCore& client() { return *cluster.workers[0]; }

    /// Starts to pull as many keys as fit into `out`, all of the rogue shard or all of the other.
    /// `needs_memory`: only once the rogue knows memory of the worker, which it may write.
    ClientCore::CallId pull(bool of_rogue, std::span<double> out, uint64_t deadline_ns = 0,
                            bool needs_memory = false) {
        const auto bytes = std::as_writable_bytes(out);
        for (uint64_t key = 0; key + out.size() <= kHostileTableKeys; key += out.size()) {
            const KeyRange keys{key, key + out.size()};
            asked.reset();
            const auto probe = client().pull(table, keys, bytes, {.deadline_ns = kMillisecond});
            REQUIRE(run_until([&] { return client().done(probe); }));
            const bool is_rogues = asked.has_value();
            if (client().take(probe).has_value() == of_rogue) continue;
            if (is_rogues != of_rogue) continue;
            if (!of_rogue && needs_memory && !answer_at) continue;
            out[0] = -1;
            asked.reset();
            cluster.network.set_slowness(0, 1000);  // the other shard's answer takes a while
            return client().pull(table, keys, bytes, {.deadline_ns = deadline_ns});
        }
        FAIL("no such keys");
        return 0;
    }

    static wire::FrameHeader reply_to(uint64_t request) {
        return testing::frame_header(wire::Kind::kReply, request);
    }

    /// Sends a frame to the worker.
    void send(const wire::FrameHeader& header, std::span<const std::byte> body) {
        send(worker_, header, body);
    }

    /// Closes the connection to the worker, as a shard does whose server leaves.
    void hang_up() { endpoint_->close(worker_); }

    /// Writes nothing into the worker's memory, with an immediate.
    void send_immediate(uint32_t immediate) {
        REQUIRE(answer_at.has_value());
        const transport::RemoteSpan nothing{answer_at->address, 0, answer_at->key};
        const std::span<const std::byte> from = std::span(memory_).first(0);
        while (endpoint_->write_immediate(worker_, from, nothing, immediate, 0) ==
               transport::Post::kNotNow) {
            endpoint_->flush();
            step();
        }
        endpoint_->flush();
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over) {
        return cluster.run_until([&] {
            poll();
            return over();
        });
    }

    SimCluster cluster;
    TableInfo table;
    std::optional<wire::FrameHeader> asked;       ///< the last pull that came here
    size_t asked_count = 0;                       ///< pulls that came here
    std::optional<wire::FrameHeader> pushed;      ///< the last push
    std::optional<wire::MemoryHandle> answer_at;  ///< where pulls that came here had room for much
    bool closed = false;                          ///< by the worker
    size_t accepted = 0;                          ///< connections of the worker

private:
    void send(ConnectionId connection, const wire::FrameHeader& header,
              std::span<const std::byte> body = {}) {
        while (testing::send_frame(*endpoint_, connection, header, body) ==
               transport::Post::kNotNow)
            step();
    }

    void step() {
        (void)cluster.step();
        poll();
    }

    void poll() {
        std::array<transport::Completion, 16> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == Event::kConnected) {
                CHECK(testing::join_as_shard(*endpoint_, c.connection, 1) ==
                      transport::Post::kPosted);
            }
            if (c.event == Event::kAccepted) {
                worker_ = c.connection;
                ++accepted;
            }
            if (c.event == Event::kClosed) closed |= c.connection == worker_;
            if (c.event == Event::kReceived) receive(c);
        }
    }

    void receive(const transport::Completion& c) {
        wire::Frame frame;
        REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
        if (frame.header.kind == wire::Kind::kCreateTable) {
            send(c.connection, reply_to(frame.header.request));
        }
        if (frame.header.kind == wire::Kind::kPush) pushed = frame.header;
        if (frame.header.kind == wire::Kind::kPull) {
            asked = frame.header;
            ++asked_count;
            if (frame.values_at.length_bytes > 0) answer_at = frame.values_at;
        }
    }

    std::vector<std::byte> memory_ = std::vector<std::byte>(8);
    std::unique_ptr<transport::Device> device_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    ConnectionId manager_ = 0;
    ConnectionId worker_ = 0;
};

}  // namespace

TEST_SUITE("hostile shard") {
    TEST_CASE("a shard cannot end what another was asked, by an immediate or by a reply") {
        for (const bool by_reply : {false, true}) {
            RogueShard rogue;
            // few values come in a reply, many are written into the worker's memory
            std::vector<double> out(by_reply ? 1 : 1024);
            const auto call = rogue.pull(false, out, 0, !by_reply);
            const std::array<double, 1> wrong{666};
            for (uint32_t i = 0; i < 4000 && !rogue.closed; ++i) {
                const uint32_t guess = (1 + i % 20) << 20 | i / 20;  // generation, slot
                if (by_reply) {
                    rogue.send(RogueShard::reply_to(guess), std::as_bytes(std::span(wrong)));
                } else {
                    rogue.send_immediate(guess);
                }
            }
            REQUIRE(rogue.run_until([&] { return rogue.client().done(call); }));
            CHECK(rogue.client().take(call).has_value());
            CHECK(out == std::vector<double>(out.size(), kInitial));
            CHECK(rogue.closed);
        }
    }

    TEST_CASE(
        "a second reply to a pull that is to be sent again neither ends it nor sends it twice") {
        RogueShard rogue;
        std::vector<double> out(1);
        const auto call = rogue.pull(true, out);
        REQUIRE(rogue.run_until([&] { return rogue.asked.has_value(); }));
        const size_t before = rogue.asked_count;
        wire::FrameHeader busy = RogueShard::reply_to(rogue.asked->request);
        busy.status = Errc::kBusy;
        const std::array<double, 1> wrong{666};
        const std::array<double, 1> right{42};
        rogue.send(busy, {});
        rogue.send(busy, {});
        rogue.send(RogueShard::reply_to(rogue.asked->request), std::as_bytes(std::span(wrong)));
        REQUIRE(rogue.run_until([&] { return rogue.asked_count > before; }));
        CHECK_FALSE(rogue.client().done(call));
        rogue.send(RogueShard::reply_to(rogue.asked->request), std::as_bytes(std::span(right)));
        REQUIRE(rogue.run_until([&] { return rogue.client().done(call); }));
        CHECK(rogue.client().take(call).has_value());
        CHECK(out[0] == 42);
        CHECK(rogue.asked_count == before + 1);
        CHECK_FALSE(rogue.closed);
    }

    TEST_CASE("an answer that comes after the deadline leaves the caller's memory alone") {
        RogueShard rogue;
        std::array<double, 1> out{};
        const auto call = rogue.pull(true, out, kMillisecond);
        REQUIRE(rogue.run_until([&] { return rogue.asked && rogue.client().done(call); }));
        CHECK(rogue.client().take(call).code() == Errc::kDeadline);
        const std::array<double, 1> late{42};
        rogue.send(RogueShard::reply_to(rogue.asked->request), std::as_bytes(std::span(late)));
        (void)rogue.run_until([] { return false; });
        CHECK(out[0] == -1);
        CHECK_FALSE(rogue.closed);
    }

    TEST_CASE("a shard that closes its connection in order is left alone for a second") {
        RogueShard rogue;
        CHECK(rogue.accepted == 1);
        const uint64_t then_ns = rogue.cluster.clock.now_ns();
        rogue.hang_up();
        REQUIRE(rogue.run_until([&] { return rogue.accepted == 2; }));
        CHECK(rogue.cluster.clock.now_ns() - then_ns >= kSecond);
        std::array<double, 1> out{};
        const auto call = rogue.pull(true, out);
        CHECK(rogue.run_until([&] { return rogue.asked.has_value(); }));
        rogue.send(RogueShard::reply_to(rogue.asked->request), std::as_bytes(std::span(out)));
        CHECK(rogue.run_until([&] { return rogue.client().done(call); }));
    }

    TEST_CASE("when nobody can say more, the error is that it has closed the connection") {
        RogueShard rogue;
        std::array<double, 1> out{};
        const auto call = rogue.pull(true, out);
        REQUIRE(rogue.run_until([&] { return rogue.asked.has_value(); }));
        rogue.cluster.manager.reset();
        const uint64_t known_ns = rogue.cluster.clock.now_ns() + 100 * kMillisecond;
        (void)rogue.run_until([&] { return rogue.cluster.clock.now_ns() >= known_ns; });
        rogue.hang_up();
        REQUIRE(rogue.run_until([&] { return rogue.client().done(call); }));
        const std::string text = rogue.client().take(call).error().text();
        INFO(text);
        CHECK(text.find("is gone; it has closed the connection") != std::string::npos);
    }

    TEST_CASE("values in codecs that were not asked for, or that are no values, end their pull") {
        RogueShard rogue;
        REQUIRE(rogue.client().set_filters(rogue.table, *Filters::parse("zeros")));
        constexpr size_t kValues = 32;
        const auto answered = [&](std::optional<wire::EncodedValues> said,
                                  const std::vector<std::byte>& values) {
            std::vector<double> out(kValues);
            const auto call = rogue.pull(true, out);
            REQUIRE(rogue.run_until([&] { return rogue.asked.has_value(); }));
            std::vector<std::byte> body;
            if (said) {
                const auto head = std::as_bytes(std::span(&*said, 1));
                body.assign(head.begin(), head.end());
            }
            body.insert(body.end(), values.begin(), values.end());
            rogue.send(RogueShard::reply_to(rogue.asked->request), body);
            REQUIRE(rogue.run_until([&] { return rogue.client().done(call); }));
            Status ended = rogue.client().take(call);
            CHECK(out[0] == (ended ? 0 : -1));
            return ended.code();
        };
        constexpr uint32_t kBytes = kValues * sizeof(double);
        const std::vector<std::byte> zeros(kBytes);
        const std::vector<std::byte> few(kValues / 8);  // a bit for each: none is there
        CHECK(answered(wire::EncodedValues{0, kBytes}, zeros) == Errc::kOk);
        CHECK(answered(wire::EncodedValues{kZeros, kValues / 8}, few) == Errc::kOk);
        CHECK(answered({}, {}) == Errc::kProtocol);
        CHECK(answered({}, few) == Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{0, kBytes - 8}, std::vector<std::byte>(kBytes - 8)) ==
              Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{kCompress, kValues / 8}, few) == Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{kKept, kValues / 8}, few) == Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{1U << 16, kBytes}, zeros) == Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{kZeros, kBytes}, zeros) == Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{kZeros, ~0U}, few) == Errc::kProtocol);
        CHECK(answered(wire::EncodedValues{kZeros, 0}, {}) == Errc::kProtocol);
        CHECK_FALSE(rogue.closed);
    }

    TEST_CASE("a shard cannot show an older iteration than was asked for") {
        RogueShard rogue;
        const auto part = rogue.client().push(rogue.table, KeyRange{0, 0}, {}, {1});
        REQUIRE(rogue.run_until([&] { return rogue.pushed.has_value(); }));
        rogue.send(RogueShard::reply_to(rogue.pushed->request), {});
        REQUIRE(rogue.run_until([&] { return rogue.client().done(part); }));
        REQUIRE(rogue.client().take(part).has_value());
        std::vector<double> out(kHostileTableKeys);
        const auto bytes = std::as_writable_bytes(std::span(out));
        const auto call = rogue.client().pull(rogue.table, KeyRange{0, out.size()}, bytes, {1});
        REQUIRE(rogue.run_until([&] { return rogue.asked.has_value(); }));
        wire::FrameHeader reply = RogueShard::reply_to(rogue.asked->request);
        reply.first = 0;  // before any iteration
        rogue.send(reply, {});
        REQUIRE(rogue.run_until([&] { return rogue.client().done(call); }));
        CHECK_FALSE(rogue.client().iteration_shown(call).has_value());
        const Status ended = rogue.client().take(call);
        REQUIRE(ended.code() == Errc::kProtocol);
        CHECK(ended.error().message().find("sent values of iteration 0, not of 1") !=
              std::string::npos);
    }
}

}  // namespace weir::test
