// SPDX-License-Identifier: Apache-2.0
/// \file
/// Memory of a worker that a shard may not reach, over shared memory, where that breaks no
/// connection: the request fails with an error.

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include "lib/manager/manager.h"
#include "lib/server/shard.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/schema_codec.h"
#include "lib/wire/messages.h"
#include "tests/frames.h"
#include "tests/registered_memory.h"
#include "tests/table_schemas.h"
#include "transport/shm/shm.h"

namespace weir::test {
namespace {

using transport::Access;
using transport::ConnectionId;
using transport::Event;

constexpr uint64_t kTableKeys = 4096;

/// A manager and a shard, and a worker of another device that is played by the test.
class OverShm {
public:
    OverShm() {
        ManagerOptions manager;
        manager.worker_count = 1;
        manager_ = std::make_unique<Manager>(manager, endpoint(*server_), clock_);
        ShardOptions shard;
        shard.manager_address = manager_->address();
        shard_ = std::make_unique<Shard>(shard, endpoint(*server_), clock_, memory_, rules_);
        worker_ = endpoint(*other_);
        const ConnectionId manager_connection = connect(manager_->address());
        send(manager_connection, testing::frame_header(wire::Kind::kJoin),
             JoinMessage{JoinMessage::Role::kWorker, 0, 0, {}}.encode());  // its pass is 0
        const TableSchema schema = testing::dense_table("numbers", kTableKeys);
        send(manager_connection, testing::frame_header(wire::Kind::kCreateTable, 1),
             TableMessage{0, schema.name, encode_schema(schema)}.encode());
        REQUIRE(answer(1) == Errc::kOk);
        connection_ = connect(shard_->address());
        send(connection_, testing::frame_header(wire::Kind::kHello), HelloMessage{}.encode());
    }

    /// Asks the shard to take values from this memory, or to put them there.
    void ask(wire::Kind kind, uint64_t request, std::span<const std::byte> memory, bool gone) {
        const auto region = other_->register_memory(
            {{const_cast<std::byte*>(memory.data()), memory.size()}, -1, 0}, Access::kRemote);
        REQUIRE(region.has_value());
        const auto exposed = worker_->expose(connection_, memory);
        REQUIRE(exposed.has_value());
        if (gone) other_->deregister_memory(*region);
        wire::FrameHeader header;
        header.kind = kind;
        header.flags = wire::kKeysRange | wire::kValuesRemote;
        header.value_type = static_cast<uint8_t>(ValueType::kFloat32);
        header.request = request;
        header.epoch = 1;
        header.count = kTableKeys;
        if (kind == wire::Kind::kPush) {
            header.set_predecessor(taken_);
            header.time = ++pushes_;
            if (!gone) taken_ = pushes_;
        }
        const wire::MemoryHandle handle{exposed->address, exposed->length_bytes, exposed->key};
        send(connection_, header, std::as_bytes(std::span(&handle, 1)));
    }

    /// How a request ended; an immediate is a success.
    [[nodiscard]] Errc answer(uint64_t request) {
        for (int i = 0; i < 200'000; ++i) {
            poll();
            for (const wire::FrameHeader& header : answers_) {
                if (header.request == request) return header.status;
            }
        }
        return Errc::kDeadline;
    }

private:
    uint32_t pushes_ = 0;
    uint32_t taken_ = 0;  ///< the last one whose memory was there

    static std::unique_ptr<transport::Device> device() {
        transport::shm::DeviceOptions options;
        options.secret.fill(std::byte{7});
        return std::move(transport::shm::make_device(options)).value();
    }

    static std::unique_ptr<transport::Endpoint> endpoint(transport::Device& device) {
        return std::move(device.make_endpoint({})).value();
    }

    [[nodiscard]] ConnectionId connect(const std::string& address) {
        const ConnectionId connection = worker_->connect(address).value();
        connected_ = 0;
        while (connected_ != connection)
            poll();
        return connection;
    }

    void send(ConnectionId connection, const wire::FrameHeader& header,
              std::span<const std::byte> body = {}) {
        REQUIRE(testing::send_frame(*worker_, connection, header, body) ==
                transport::Post::kPosted);
    }

    void poll() {
        (void)manager_->poll();
        (void)shard_->poll();
        std::array<transport::Completion, 16> completions;
        const size_t count = worker_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == Event::kConnected) connected_ = c.connection;
            if (c.event == Event::kImmediate) {
                answers_.emplace_back().request = c.immediate;
            }
            wire::Frame frame;
            if (c.event != Event::kReceived || wire::decode(c.message, frame) != Errc::kOk)
                continue;
            if (frame.header.kind == wire::Kind::kReply) answers_.push_back(frame.header);
        }
    }

    SteadyClock clock_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    std::unique_ptr<transport::Device> server_ = device();
    std::unique_ptr<transport::Device> other_ = device();
    testing::RegisteredMemory memory_{*server_, Access::kLocal};
    std::unique_ptr<Manager> manager_;
    std::unique_ptr<Shard> shard_;
    std::unique_ptr<transport::Endpoint> worker_;
    ConnectionId connected_ = 0;
    ConnectionId connection_ = 0;
    std::vector<wire::FrameHeader> answers_;
};

}  // namespace

TEST_SUITE("refused memory") {
    TEST_CASE("pushes and pulls whose memory is there no more are answered, and others go on") {
        OverShm job;
        std::vector<float> values(kTableKeys, 1);
        const auto bytes = std::as_bytes(std::span(values));
        uint64_t request = 10;
        for (const bool gone : {false, true, false}) {
            const Errc expected = gone ? Errc::kOutOfRange : Errc::kOk;
            job.ask(wire::Kind::kPush, ++request, bytes, gone);
            CHECK(job.answer(request) == expected);
            job.ask(wire::Kind::kPull, ++request, bytes, gone);
            CHECK(job.answer(request) == expected);
        }
    }
}

}  // namespace weir::test
