// SPDX-License-Identifier: Apache-2.0
/// \file
/// A worker that takes no replies for a while: those to its pushes, and values that it pulls.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/managed_shard.h"
#include "tests/passing_endpoint.h"

namespace weir::test {
namespace {

constexpr uint32_t kSlowWidth = 512;
constexpr size_t kSlowRowBytes = kSlowWidth * sizeof(float);

/// Has no room for replies while the test says so; other frames go to the manager.
class NoRoomEndpoint final : public testing::PassingEndpoint {
public:
    NoRoomEndpoint(std::unique_ptr<Endpoint> inner, std::shared_ptr<bool> has_room)
        : PassingEndpoint(std::move(inner)), has_room_(std::move(has_room)) {}

    [[nodiscard]] Post send(ConnectionId connection, Parts parts) override {
        wire::Frame frame;
        std::vector<std::byte> message;
        for (const auto& part : parts)
            message.insert(message.end(), part.begin(), part.end());
        const bool is_reply =
            wire::decode(message, frame) == Errc::kOk && frame.header.kind == wire::Kind::kReply;
        return is_reply && !*has_room_ ? Post::kNotNow : inner().send(connection, parts);
    }

private:
    std::shared_ptr<bool> has_room_;
};

/// A shard with a table of one row, and a worker of it.
struct SlowWorker {
    SlowWorker() : worker(job.raw.hello(job.shard(), 0, 1)) {
        TableSchema schema = dense_table("wide", 1);
        schema.width = kSlowWidth;
        job.make_table(0, schema);
    }

    /// Of the row, in the message or the reply. Returns its number.
    uint64_t request(wire::Kind kind) {
        const std::vector<float> ones(kSlowWidth, 1);
        wire::FrameHeader header = testing::frame_header(kind, ++requests);
        header.value_type = static_cast<uint8_t>(ValueType::kFloat32);
        header.flags = wire::kKeysRange | wire::kValuesInline;
        header.count = 1;
        header.epoch = static_cast<uint32_t>(job.view.epoch);
        const auto values = std::as_bytes(std::span(ones));
        job.raw.send(worker, header, kind == wire::Kind::kPush ? values : values.first(0));
        return header.request;
    }

    std::shared_ptr<bool> has_room = std::make_shared<bool>(true);
    ManagedShard job{1, {.around = [this](auto inner) {
                         return std::make_unique<NoRoomEndpoint>(std::move(inner), has_room);
                     }}};
    transport::ConnectionId worker;
    uint64_t requests = 0;
};

}  // namespace

TEST_SUITE("slow worker") {
    TEST_CASE("a table is not reported as dropped while a reply to a push of it waits to leave") {
        SlowWorker slow;
        *slow.has_room = false;
        const uint64_t push = slow.request(wire::Kind::kPush);
        slow.job.run();
        slow.job.send(wire::Kind::kDropTable, {}, 0);
        slow.job.run();
        CHECK(slow.job.dropped().empty());
        *slow.has_room = true;
        slow.job.run();
        REQUIRE(slow.job.raw.answer(push) != nullptr);
        CHECK(slow.job.raw.answer(push)->header.status == Errc::kOk);
        CHECK(slow.job.dropped() == std::vector<uint64_t>{0});
    }

    TEST_CASE(
        "a table is reported as dropped when a worker whose reply waited has closed its "
        "connection") {
        SlowWorker slow;
        *slow.has_room = false;
        (void)slow.request(wire::Kind::kPush);
        slow.job.run();
        slow.job.send(wire::Kind::kDropTable, {}, 0);
        slow.job.run();
        slow.job.raw.endpoint().close(slow.worker);
        slow.job.run();
        CHECK(slow.job.dropped() == std::vector<uint64_t>{0});
    }

    TEST_CASE(
        "pulls of values in replies are to come again while 8 MiB of these wait, and then come") {
        constexpr size_t kWaitMax = size_t{8} << 20;
        constexpr size_t kFit = kWaitMax / kSlowRowBytes;
        SlowWorker slow;
        *slow.has_room = false;
        std::vector<uint64_t> pulls;
        for (size_t i = 0; i < kFit + 100; ++i) {
            pulls.push_back(slow.request(wire::Kind::kPull));
            if (i % 8 == 7) slow.job.run();
        }
        slow.job.run();
        *slow.has_room = true;
        slow.job.run();
        CHECK_FALSE(slow.job.raw.is_closed(slow.worker));
        size_t values = 0;
        size_t busy = 0;
        for (const RawWorker::Answer& answer : slow.job.raw.answers()) {
            if (answer.header.status == Errc::kBusy) {
                CHECK(answer.body.empty());
                ++busy;
            } else if (answer.body.size() == kSlowRowBytes) {
                CHECK(busy == 0);  // they are the first ones
                ++values;
            }
        }
        CHECK(values + busy == pulls.size());
        CHECK(values <= kFit);
        CHECK(values > kFit * 9 / 10);
        const uint64_t again = slow.request(wire::Kind::kPull);
        slow.job.run();
        REQUIRE(slow.job.raw.answer(again) != nullptr);
        CHECK(slow.job.raw.answer(again)->header.status == Errc::kOk);
        CHECK(slow.job.raw.answer(again)->body.size() == kSlowRowBytes);
    }
}

}  // namespace weir::test
