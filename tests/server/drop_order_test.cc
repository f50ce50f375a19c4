// SPDX-License-Identifier: Apache-2.0
/// \file
/// A shard that is told to drop a table, whatever waits there, is being read for it, or is needed of it.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/cluster/managed_shard.h"
#include "tests/passing_endpoint.h"

namespace weir::test {
namespace {

constexpr uint32_t kDroppedCells = 4;

/// The ends of a shard's reads of workers' memory, which the test may hold back.
struct HeldReads {
    bool are_held = false;
    std::vector<transport::Completion> held{};
};

class LateReadsEndpoint final : public testing::PassingEndpoint {
public:
    LateReadsEndpoint(std::unique_ptr<Endpoint> inner, std::shared_ptr<HeldReads> reads)
        : PassingEndpoint(std::move(inner)), reads_(std::move(reads)) {}

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        size_t shown = 0;
        for (; !reads_->are_held && !reads_->held.empty(); reads_->held.pop_back())
            completions[shown++] = reads_->held.back();
        const size_t count = inner().poll(completions.subspan(shown));
        for (const Completion& c :
             std::vector(completions.begin() + shown, completions.begin() + shown + count)) {
            if (reads_->are_held && c.event == transport::Event::kRead) {
                reads_->held.push_back(c);
            } else {
                completions[shown++] = c;
            }
        }
        return shown;
    }

private:
    std::shared_ptr<HeldReads> reads_;
};

/// A shard with table 0 of four cells and a window, and one of its two workers.
class DroppingShard : public ManagedShard {
public:
    explicit DroppingShard(const ManagedShardOptions& own = {})
        : ManagedShard(2, own), worker_(raw.hello(shard(), 0, 1)) {
        TableSchema schema = dense_table("cells", kDroppedCells);
        schema.max_delay = 1;
        make_table(0, schema);
        run();
    }

    void drop(uint64_t number) {
        send(wire::Kind::kDropTable, {}, number);
        run();
    }

    /// About all cells, with what it needs in its message. Returns its number.
    uint64_t request(wire::Kind kind, uint64_t iteration) {
        const std::array<float, kDroppedCells> ones{1, 1, 1, 1};
        const auto values = std::as_bytes(std::span(ones));
        return send_request(kind, iteration, wire::kKeysRange | wire::kValuesInline,
                            kind == wire::Kind::kPush ? values : values.first(0));
    }

    /// The same, with the values of a push, and the keys of a pull, in memory that the shard has to read.
    uint64_t request_from_memory(wire::Kind kind, uint64_t iteration) {
        const std::array<uint64_t, kDroppedCells> keys{0, 1, 2, 3};
        const bool is_push = kind == wire::Kind::kPush;
        const size_t bytes = is_push ? kDroppedCells * sizeof(float) : sizeof keys;
        std::byte* const memory = raw.memory().allocate(bytes, 64);
        REQUIRE(memory != nullptr);
        std::memset(memory, 0, bytes);
        if (!is_push) std::memcpy(memory, keys.data(), bytes);
        const auto exposed = raw.endpoint().expose(worker_, {memory, bytes});
        REQUIRE(exposed.has_value());
        const wire::MemoryHandle at{exposed->address, exposed->length_bytes, exposed->key};
        return send_request(kind, iteration,
                            is_push ? wire::kKeysRange | wire::kValuesRemote
                                    : wire::kKeysRemote | wire::kValuesInline,
                            std::as_bytes(std::span(&at, 1)));
    }

    /// How it ended; nothing if it waits.
    [[nodiscard]] std::optional<Errc> status(uint64_t request) const {
        const RawWorker::Answer* const answer = raw.answer(request);
        return answer == nullptr ? std::nullopt : std::optional(answer->header.status);
    }

private:
    uint64_t send_request(wire::Kind kind, uint64_t iteration, int flags,
                          std::span<const std::byte> body) {
        wire::FrameHeader header = testing::frame_header(kind, ++requests_);
        header.value_type = static_cast<uint8_t>(ValueType::kFloat32);
        header.flags = static_cast<decltype(header.flags)>(flags);
        header.count = kDroppedCells;
        header.epoch = static_cast<uint32_t>(view.epoch);
        if (iteration != 0) {
            header.flags |= wire::kIteration;
            header.iteration = iteration;
            if (kind == wire::Kind::kPush) {
                header.flags |= wire::kAggregate;
                header.parts = 1;
                header.time = ++time_;
            }
        }
        raw.send(worker_, header, body);
        run();
        return header.request;
    }

    transport::ConnectionId worker_;
    uint64_t requests_ = 0;
    uint32_t time_ = 0;
};

}  // namespace

TEST_SUITE("drop_order") {
    TEST_CASE("a shard answers what waits in a table that it drops, and what comes later") {
        DroppingShard job;
        const uint64_t pushed = job.request(wire::Kind::kPush, 0);
        const uint64_t part = job.request(wire::Kind::kPush, 1);
        const uint64_t pull = job.request(wire::Kind::kPull, 1);
        CHECK(job.status(pushed) == Errc::kOk);
        CHECK_FALSE(job.status(part).has_value());
        CHECK_FALSE(job.status(pull).has_value());
        job.drop(0);
        CHECK(job.status(part) == Errc::kNotFound);
        CHECK(job.status(pull) == Errc::kNotFound);
        CHECK(job.status(job.request(wire::Kind::kPush, 0)) == Errc::kNotFound);
        CHECK(job.shard().tables()[0] == nullptr);
        CHECK(job.dropped() == std::vector<uint64_t>{0});
        job.drop(0);  // again
        job.drop(7);  // never made
        CHECK(job.dropped() == std::vector<uint64_t>{0, 0, 7});
        job.make_table(1, dense_table("others", kDroppedCells));
        CHECK_FALSE(job.shard().finished());
    }

    TEST_CASE(
        "a push that is being read when a checkpoint still needs the table is not acknowledged") {
        const auto disk =
            std::make_shared<checkpoint::DiskQueue>(std::make_shared<testing::SimDisk>());
        const auto reads = std::make_shared<HeldReads>();
        DroppingShard job({.around =
                               [&](auto inner) {
                                   return std::make_unique<LateReadsEndpoint>(std::move(inner),
                                                                              reads);
                               },
                           .disk = disk});
        CheckpointOrder order{.step = CheckpointOrder::Step::kFreeze, .number = 1};
        job.send(wire::Kind::kCheckpoint, order.encode());
        order.step = CheckpointOrder::Step::kTake;
        order.folder = "d";
        order.tables = {{0, 0}};
        job.send(wire::Kind::kCheckpoint, order.encode());
        job.run();
        REQUIRE(job.has_reported(CheckpointReport::Step::kTaken));
        reads->are_held = true;
        const uint64_t read = job.request_from_memory(wire::Kind::kPush, 0);
        REQUIRE(reads->held.size() == 1);
        job.drop(0);
        REQUIRE(job.shard().tables()[0] != nullptr);
        CHECK(job.dropped().size() == 1);
        reads->are_held = false;
        job.run();
        CHECK(job.status(read) == Errc::kNotFound);
        while (disk->run_one())
            job.run();
        CHECK(job.shard().tables()[0] == nullptr);
        CHECK_FALSE(job.shard().finished());
    }

    TEST_CASE("what is being read from its worker is answered when that is over, not before") {
        struct Request {
            wire::Kind kind;
            uint64_t iteration;
        };

        for (const Request request : {Request{wire::Kind::kPush, 0}, Request{wire::Kind::kPush, 1},
                                      Request{wire::Kind::kPull, 0}}) {
            CAPTURE(static_cast<int>(request.kind));
            CAPTURE(request.iteration);
            const auto reads = std::make_shared<HeldReads>();
            DroppingShard job({.around = [&](auto inner) {
                return std::make_unique<LateReadsEndpoint>(std::move(inner), reads);
            }});
            reads->are_held = true;
            const uint64_t read = job.request_from_memory(request.kind, request.iteration);
            REQUIRE(reads->held.size() == 1);
            const uint64_t behind = job.request(wire::Kind::kPush, 0);
            job.drop(0);
            CHECK(job.shard().tables()[0] == nullptr);
            CHECK(job.status(behind).has_value());  // the worker's memory has nothing of it
            CHECK_FALSE(job.status(read).has_value());
            reads->are_held = false;
            job.run();
            CHECK(job.status(read) == Errc::kNotFound);
            const auto is_answer = [&](const RawWorker::Answer& answer) {
                return answer.header.request == read;
            };
            CHECK(std::ranges::count_if(job.raw.answers(), is_answer) == 1);
            CHECK_FALSE(job.shard().finished());
        }
    }

    TEST_CASE(
        "a table that a checkpoint needs goes when that is over, however often it is dropped") {
        const auto disk =
            std::make_shared<checkpoint::DiskQueue>(std::make_shared<testing::SimDisk>());
        DroppingShard job({.disk = disk});
        const uint64_t part = job.request(wire::Kind::kPush, 1);
        CheckpointOrder order{.step = CheckpointOrder::Step::kFreeze, .number = 1};
        job.send(wire::Kind::kCheckpoint, order.encode());
        order.step = CheckpointOrder::Step::kTake;
        order.folder = "d";
        order.tables = {{0, 0}};
        job.send(wire::Kind::kCheckpoint, order.encode());
        job.run();
        REQUIRE(job.has_reported(CheckpointReport::Step::kTaken));
        for (int i = 0; i < 2; ++i) {
            job.drop(0);
            REQUIRE(job.shard().tables()[0] != nullptr);
            CHECK(job.status(part) == Errc::kNotFound);
            CHECK(job.status(job.request(wire::Kind::kPush, 0)) == Errc::kNotFound);
            CHECK(job.dropped().size() == static_cast<size_t>(i) + 1);
        }
        CHECK_FALSE(job.has_reported(CheckpointReport::Step::kSaved));
        while (disk->run_one())
            job.run();
        CHECK(job.has_reported(CheckpointReport::Step::kSaved));
        CHECK(job.shard().tables()[0] == nullptr);
        job.make_table(1, dense_table("others", kDroppedCells));
        CHECK_FALSE(job.shard().finished());
    }

    TEST_CASE("a shard refuses a table whose rule is another one than its own of that name") {
        DroppingShard job;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema schema = dense_table("others", kDroppedCells);
        schema.rule = "sgd";
        schema.parameters.value[0] = 0.5;
        schema.rule_hash =
            (*rules.find("sgd"))->hash(schema.parameters, schema.value_type, schema.width);
        job.make_table(1, schema);
        schema.rule_version = 2;
        ++schema.rule_hash;
        job.send(wire::Kind::kCreateTable,
                 TableMessage{2, schema.name, encode_schema(schema)}.encode());
        job.run();
        CHECK(job.made() == Errc::kTypeMismatch);
        schema.rule = "sdg";
        job.send(wire::Kind::kCreateTable,
                 TableMessage{3, schema.name, encode_schema(schema)}.encode());
        job.run();
        CHECK(job.made() == Errc::kNotFound);
        CHECK_FALSE(job.shard().finished());
    }

    TEST_CASE("a shard ends with an error when the manager drops what can be no table") {
        DroppingShard job;
        job.drop(uint64_t{1} << 32);
        REQUIRE(job.shard().finished());
        CHECK(job.shard().outcome().code() == Errc::kProtocol);
    }
}

}  // namespace weir::test
