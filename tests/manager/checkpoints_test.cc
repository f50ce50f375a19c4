// SPDX-License-Identifier: Apache-2.0
/// \file
/// When the manager begins a checkpoint.

#include "lib/manager/checkpoints.h"

#include <memory>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "lib/checkpoint/folder.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/node/fake_endpoint.h"

namespace weir::testing {
namespace {

constexpr uint64_t kEveryNs = 600 * kSecond;

/// A job without shards.
struct DueCheckpoints {
    DueCheckpoints() { checkpoints.start({}); }

    [[nodiscard]] CheckpointOptions options() {
        CheckpointOptions made;
        made.folder = "d";
        made.every_ns = kEveryNs;
        made.is_asked_for = [this] { return std::exchange(is_wanted, false); };
        made.disk = disk;
        return made;
    }

    /// Whether one would begin though copies are being made.
    [[nodiscard]] bool begins_at_once() {
        return checkpoints.is_due() && checkpoints.needs_no_rest();
    }

    /// It begins, and fails because a server is lost.
    void begin_in_vain() {
        checkpoints.begin({}, {}, {});
        checkpoints.lose_shards(Error(Errc::kPeerLost, "a server is lost"));
    }

    bool is_wanted = false;
    ManualClock clock;
    FakeEndpoint endpoint;
    Outbox outbox{endpoint};
    std::shared_ptr<SimDisk> files = std::make_shared<SimDisk>();
    std::shared_ptr<checkpoint::DiskQueue> disk = std::make_shared<checkpoint::DiskQueue>(
        files, std::shared_ptr<const Clock>(std::shared_ptr<const Clock>(), &clock));
    Checkpoints checkpoints{options(), outbox, clock};
};

}  // namespace

TEST_SUITE("checkpoints") {
    TEST_CASE("one that is due by time waits for copies and moves, but not for ever") {
        DueCheckpoints job;
        CHECK_FALSE(job.checkpoints.is_due());
        job.clock.advance(kEveryNs);
        CHECK_FALSE(job.begins_at_once());
        CHECK(job.checkpoints.is_due());
        job.clock.advance(Checkpoints::kRestNs - 1);
        CHECK_FALSE(job.begins_at_once());
        CHECK(job.checkpoints.report().rest_wait_ns == Checkpoints::kRestNs - 1);
        job.clock.advance(1);
        CHECK(job.begins_at_once());
        CHECK(job.checkpoints.report().rest_wait_ns == 0);
    }

    TEST_CASE("one that failed because of a server waits again before it is tried again") {
        DueCheckpoints job;
        job.clock.advance(kEveryNs);
        REQUIRE(job.checkpoints.is_due());
        job.clock.advance(Checkpoints::kRestNs);
        job.begin_in_vain();
        job.clock.advance(Checkpoints::kShortPauseNs);
        CHECK_FALSE(job.begins_at_once());
        CHECK(job.checkpoints.is_due());
        job.clock.advance(Checkpoints::kRestNs);
        CHECK(job.begins_at_once());
    }

    TEST_CASE("the manager looks often for what the disk does for it, not for what shards do") {
        DueCheckpoints job;
        CHECK_FALSE(job.checkpoints.waits_for_disk());
        job.checkpoints.begin({{.number = 0, .connection = 7}}, {}, {});
        CHECK(job.checkpoints.waits_for_disk());  // for its number
        REQUIRE(job.disk->run_one());
        REQUIRE(job.checkpoints.poll() == 1);
        CHECK(job.checkpoints.is_under_way());
        CHECK_FALSE(job.checkpoints.waits_for_disk());
    }

    TEST_CASE("what became of each is kept, the last first, of so many as a message can tell") {
        DueCheckpoints job;
        CHECK(job.checkpoints.written() == WrittenMessage());
        job.begin_in_vain();
        job.clock.advance(kSecond);
        job.checkpoints.begin({}, {}, {});
        while (job.disk->run_one()) {
        }  // also what was begun for the first one
        REQUIRE(job.checkpoints.poll() == 1);
        job.checkpoints.lose_shards(Error(Errc::kPeerLost, std::string(1000, 'x')));
        const WrittenMessage two = job.checkpoints.written();
        CHECK(two.ended_count == 2);
        REQUIRE(two.checkpoints.size() == 2);
        CHECK(two.checkpoints[0].number == 1);
        CHECK(two.checkpoints[0].age_ns == 0);
        CHECK(two.checkpoints[0].failure == std::string(WrittenMessage::kFailureBytesMax, 'x'));
        CHECK(two.checkpoints[1].number == 0);  // it had none yet
        CHECK(two.checkpoints[1].age_ns == kSecond);
        CHECK(two.checkpoints[1].failure == "a server is lost");
        for (size_t i = 0; i < WrittenMessage::kCheckpointsMax; ++i)
            job.begin_in_vain();
        CHECK(job.checkpoints.written().ended_count == 2 + WrittenMessage::kCheckpointsMax);
        CHECK(job.checkpoints.written().checkpoints.size() == WrittenMessage::kCheckpointsMax);
    }

    TEST_CASE("a disk that hangs holds up no shards for long, and is not asked again at once") {
        DueCheckpoints job;
        const std::vector<ShardPeer> shards{{.number = 3, .connection = 7}};
        job.clock.advance(kEveryNs);
        REQUIRE(job.checkpoints.is_due());
        job.checkpoints.begin(shards, {}, {});  // and the disk does not even number it
        job.clock.advance(Checkpoints::kDiskNs - 1);
        CHECK(job.checkpoints.poll() == 0);
        CHECK(job.checkpoints.needs_shards());
        job.clock.advance(1);
        CHECK(job.checkpoints.poll() == 1);
        CHECK_FALSE(job.checkpoints.is_under_way());
        CHECK(job.checkpoints.report().last_failure.find(
                  "hangs: what it was given earlier has not moved for 60 s") != std::string::npos);
        job.clock.advance(Checkpoints::kDiskNs - 1);
        CHECK_FALSE(job.checkpoints.is_due());
        job.clock.advance(1);
        REQUIRE(job.checkpoints.is_due());
        while (job.disk->run_one()) {
        }  // it lives again; but that of the shard hangs
        job.checkpoints.begin(shards, {}, {});
        REQUIRE(job.disk->run_one());
        REQUIRE(job.checkpoints.poll() == 1);
        using Step = CheckpointReport::Step;
        REQUIRE(job.checkpoints.take(3, {.step = Step::kFrozen, .number = 1}));
        REQUIRE(job.checkpoints.take(3, {.step = Step::kTaken, .number = 1}));
        for (int chunk = 0; chunk < 3; ++chunk) {
            job.clock.advance(Checkpoints::kDiskNs);
            CHECK(job.checkpoints.poll() == 0);
            REQUIRE(job.checkpoints.take(3, {.step = Step::kChunk, .number = 1}));
        }
        job.clock.advance(Checkpoints::kDiskNs + 1);
        CHECK(job.checkpoints.poll() == 1);
        CHECK_FALSE(job.checkpoints.is_under_way());
        CHECK_FALSE(job.checkpoints.is_due());
        CHECK(job.checkpoints.report().last_failure.find(
                  "shard 3 has written nothing to d for 60 s") != std::string::npos);
    }

    TEST_CASE("a disk that is slow, and moves, fails nothing, neither number nor manifest") {
        DueCheckpoints job;
        // What it does before, step by step.
        const auto give_steps = [&] {
            for (int step = 0; step < 4; ++step)
                (void)job.disk->add([](checkpoint::Disk&) { return 0; });
        };
        const auto do_steps = [&](uint64_t each_ns) {
            for (int step = 0; step < 4; ++step) {
                job.clock.advance(each_ns);
                CHECK(job.checkpoints.poll() == 0);
                REQUIRE(job.disk->run_one());
            }
            job.clock.advance(each_ns);
            CHECK(job.checkpoints.poll() == 0);
            REQUIRE(job.disk->run_one());
            REQUIRE(job.checkpoints.poll() == 1);
        };
        using Step = CheckpointReport::Step;
        give_steps();
        job.checkpoints.begin({{.number = 3, .connection = 7}}, {}, {});
        do_steps(Checkpoints::kDiskNs - 1);
        for (const Step step : {Step::kFrozen, Step::kTaken})
            REQUIRE(job.checkpoints.take(3, {.step = step, .number = 1}));
        give_steps();
        REQUIRE(job.checkpoints.take(3, {.step = Step::kSaved, .number = 1}));
        do_steps(Checkpoints::kManifestNs - 1);
        CHECK(job.checkpoints.report().last_number == 1);
    }

    TEST_CASE("none begins while old ones are removed, unless the disk hangs in that") {
        DueCheckpoints job;
        const auto complete = [&](uint64_t number) {
            job.checkpoints.begin({{.number = 3, .connection = 7}}, {}, {});
            using Step = CheckpointReport::Step;
            REQUIRE(job.disk->run_one());
            REQUIRE(job.checkpoints.poll() == 1);
            for (const Step step : {Step::kFrozen, Step::kTaken, Step::kSaved})
                REQUIRE(job.checkpoints.take(3, {.step = step, .number = number}));
            REQUIRE(job.disk->run_one());
            REQUIRE(job.checkpoints.poll() == 1);
            REQUIRE(job.checkpoints.report().last_number == number);
        };
        complete(1);
        job.is_wanted = true;
        job.clock.advance(checkpoint::DiskQueue::kHangNs - 1);
        CHECK(job.checkpoints.poll() == 0);
        CHECK_FALSE(job.checkpoints.is_due());
        CHECK(job.checkpoints.waits_for_disk());
        REQUIRE(job.disk->run_one());
        CHECK(job.checkpoints.poll() == 1);
        CHECK(job.checkpoints.is_due());
        complete(2);
        job.is_wanted = true;
        job.clock.advance(checkpoint::DiskQueue::kHangNs);
        CHECK(job.checkpoints.poll() == 1);
        REQUIRE(job.checkpoints.is_due());
        job.checkpoints.begin({{.number = 3, .connection = 7}}, {}, {});
        REQUIRE(job.checkpoints.poll() == 1);
        CHECK(job.checkpoints.report().last_failure.find("hangs") != std::string::npos);
    }

    TEST_CASE("what failed ones left goes before the next one begins, and nothing of others") {
        DueCheckpoints job;
        SimDisk& files = *job.files;
        const auto write = [&](uint64_t number, uint32_t writer) {
            REQUIRE(checkpoint::write_file(files, "d", checkpoint::chunk_name(number, 0, 0, writer),
                                           {}));
        };
        const auto begin = [&] {
            job.checkpoints.begin({{.number = 3, .connection = 7}}, {}, {});
            while (job.disk->run_one() || job.checkpoints.poll() != 0) {
            }
        };
        const auto fail = [&](uint64_t number) {
            REQUIRE(job.checkpoints.take(
                3,
                {.step = CheckpointReport::Step::kFailed, .number = number, .status = Errc::kIo}));
            return !job.checkpoints.is_under_way();
        };
        const std::vector<std::string> foreign{checkpoint::chunk_name(4, 0, 0, 0)};
        write(4, 0);
        begin();
        CHECK(*files.list("d") == foreign);
        write(5, 3);
        REQUIRE(fail(5));
        begin();
        CHECK(*files.list("d") == foreign);
        // A number is never given twice: a slow server may still write a file of the one before.
        CHECK_FALSE(fail(5));
        write(5, 2);
        write(6, 3);
        REQUIRE(fail(6));
        begin();
        CHECK(*files.list("d") == foreign);
        // What has a higher number than this one is of another job.
        write(9, 1);
        REQUIRE(fail(7));
        begin();
        CHECK(files.list("d")->size() == 2);
        CHECK(fail(10));
    }

    TEST_CASE("files of one whose manifest may still come stay") {
        DueCheckpoints job;
        const std::vector<ShardPeer> shards{{.number = 3, .connection = 7}};
        const auto begin = [&] {
            job.checkpoints.begin(shards, {}, {});
            REQUIRE(job.disk->run_one());
            REQUIRE(job.checkpoints.poll() == 1);
        };
        begin();
        const std::vector<std::string> chunk{checkpoint::chunk_name(1, 0, 0, 3)};
        REQUIRE(checkpoint::write_file(*job.files, "d", chunk[0], {}));
        using Step = CheckpointReport::Step;
        for (const Step step : {Step::kFrozen, Step::kTaken, Step::kSaved})
            REQUIRE(job.checkpoints.take(3, {.step = step, .number = 1}));
        job.clock.advance(Checkpoints::kManifestNs + 1);
        REQUIRE(job.checkpoints.poll() == 1);
        REQUIRE_FALSE(job.checkpoints.is_under_way());
        job.files->fill();  // it does not come from here
        while (job.disk->run_one()) {
        }
        job.files->empty_out();
        begin();
        CHECK(*job.files->list("d") == chunk);
    }

    TEST_CASE("while a disk hangs, one that somebody asks for fails at once, and no other begins") {
        DueCheckpoints job;
        const std::vector<ShardPeer> shards{{.number = 3, .connection = 7}};
        const auto fails_with = [&](const char* why) {
            CHECK_FALSE(job.checkpoints.is_under_way());
            CHECK(job.checkpoints.report().last_failure.find(why) != std::string::npos);
            job.clock.advance(Checkpoints::kDiskNs - 1);
            CHECK_FALSE(job.checkpoints.is_due());
            job.clock.advance(1);
            CHECK(job.checkpoints.is_due());
        };
        job.clock.advance(kEveryNs);
        REQUIRE(job.checkpoints.is_due());
        job.begin_in_vain();  // and the disk does not even number it
        job.clock.advance(checkpoint::DiskQueue::kHangNs);
        job.checkpoints.begin(shards, {}, {});
        REQUIRE(job.checkpoints.poll() == 1);
        fails_with("hangs: what it was given earlier has not moved for 20 s");
        while (job.disk->run_one()) {
        }  // it lives again; but that of the shard hangs
        job.checkpoints.begin(shards, {}, {});
        REQUIRE(job.disk->run_one());
        REQUIRE(job.checkpoints.poll() == 1);
        REQUIRE(job.checkpoints.take(3, {.step = CheckpointReport::Step::kFailed,
                                         .number = 1,
                                         .status = Errc::kDeadline,
                                         .why = "it hangs"}));
        fails_with("shard 3: it hangs");
    }

    TEST_CASE(
        "shards that do not stop, or do not come to their iteration, end it, for a short time") {
        DueCheckpoints job;
        const std::vector<ShardPeer> shards{{.number = 3, .connection = 7}};
        using Step = CheckpointReport::Step;
        const auto fails_late = [&](uint64_t late_ns, const char* why) {
            job.clock.advance(late_ns);
            CHECK(job.checkpoints.poll() == 0);
            job.clock.advance(1);
            CHECK(job.checkpoints.poll() == 1);
            CHECK_FALSE(job.checkpoints.is_under_way());
            CHECK(job.checkpoints.report().last_failure.find(why) != std::string::npos);
            CHECK_FALSE(job.checkpoints.is_due());
            job.clock.advance(Checkpoints::kPauseNs);
            CHECK(job.checkpoints.is_due());
        };
        job.clock.advance(kEveryNs);
        REQUIRE(job.checkpoints.is_due());
        const auto begin = [&] {
            job.checkpoints.begin(shards, {}, {});
            REQUIRE(job.disk->run_one());
            REQUIRE(job.checkpoints.poll() == 1);
        };
        begin();
        fails_late(Checkpoints::kFreezeNs, "shard 3 did not stop for it within 5 s");
        begin();
        REQUIRE(job.checkpoints.take(3, {.step = Step::kFrozen, .number = 2}));
        fails_late(Checkpoints::kTakeNs, "shard 3 did not come to its instant within 60 s");
    }

    TEST_CASE(
        "old ones are removed when managers have agreed that there is a newer one, not before") {
        ManualClock clock;
        FakeEndpoint endpoint;
        Outbox outbox{endpoint};
        const auto files = std::make_shared<SimDisk>();
        const auto disk = std::make_shared<checkpoint::DiskQueue>(
            files, std::shared_ptr<const Clock>(std::shared_ptr<const Clock>(), &clock));
        const auto agreed = std::make_shared<AgreedDisk>(disk);
        CheckpointOptions options;
        options.folder = "d";
        options.kept_count = 1;
        options.disk = disk;
        options.agreed_disk = agreed;
        Checkpoints checkpoints(options, outbox, clock);
        checkpoints.start({});
        using Step = CheckpointReport::Step;
        // What the manager that leads has done on the disk.
        const auto done = [&] {
            std::optional<std::pair<uint64_t, DiskAnswer>> answer = agreed->lead();
            while (disk->run_one()) {
            }
            return answer ? answer : agreed->lead();
        };
        const auto agree = [&] {
            if (const auto answer = done()) agreed->answered(answer->first, answer->second);
            (void)checkpoints.poll();
        };
        const auto come_to_manifest = [&](uint64_t number) {
            checkpoints.begin({{.number = 3, .connection = 7}}, {}, {});
            agree();
            REQUIRE(checkpoints.take(3, {.step = Step::kFrozen, .number = number}));
            REQUIRE(checkpoints.take(3, {.step = Step::kTaken, .number = number}));
            REQUIRE(checkpoints.take(3, {.step = Step::kSaved, .number = number}));
        };
        const auto listed = [&] { return *checkpoint::list_checkpoints(*files, "d"); };
        come_to_manifest(1);
        agree();
        (void)done();
        CHECK(listed() == std::vector<uint64_t>{1});
        come_to_manifest(2);
        (void)done();  // the manifest is there, and nobody has agreed on that
        CHECK(listed() == std::vector<uint64_t>{1, 2});
        agreed->change_leader();
        (void)checkpoints.poll();
        CHECK_FALSE(checkpoints.is_under_way());
        CHECK(checkpoints.resume_advice().find("checkpoint 1") != std::string::npos);
        (void)done();
        CHECK(listed() == std::vector<uint64_t>{1, 2});
        clock.advance(Checkpoints::kPauseNs);
        come_to_manifest(3);
        agree();
        CHECK(listed().size() == 3);
        (void)done();
        CHECK(listed() == std::vector<uint64_t>{3});
    }

    TEST_CASE("a manifest that is not taken ends it after ten minutes") {
        DueCheckpoints job;
        job.checkpoints.begin({{.number = 3, .connection = 7}}, {}, {});
        REQUIRE(job.disk->run_one());
        REQUIRE(job.checkpoints.poll() == 1);
        using Step = CheckpointReport::Step;
        for (const Step step : {Step::kFrozen, Step::kTaken, Step::kSaved})
            REQUIRE(job.checkpoints.take(3, {.step = step, .number = 1}));
        CHECK_FALSE(job.checkpoints.needs_shards());
        job.clock.advance(Checkpoints::kManifestNs - 1);
        CHECK(job.checkpoints.poll() == 0);
        job.clock.advance(1);
        CHECK(job.checkpoints.poll() == 1);
        CHECK_FALSE(job.checkpoints.is_under_way());
        CHECK(job.checkpoints.report().last_failure.find(
                  "the disk of d, or the network to it, hangs") != std::string::npos);
    }

    TEST_CASE("one that somebody asks for waits a shorter time") {
        DueCheckpoints job;
        job.is_wanted = true;
        CHECK_FALSE(job.begins_at_once());
        CHECK(job.checkpoints.is_due());
        job.clock.advance(Checkpoints::kAskedRestNs);
        CHECK(job.begins_at_once());
    }

    TEST_CASE("the time that one has waited for which nobody asks any more does not count") {
        DueCheckpoints job;
        job.checkpoints.ask({.connection = 1});
        REQUIRE(job.checkpoints.is_due());
        job.checkpoints.forget(1);
        job.clock.advance(Checkpoints::kAskedRestNs);
        CHECK_FALSE(job.checkpoints.is_due());
        job.checkpoints.ask({.connection = 2});
        CHECK(job.checkpoints.is_due());
        CHECK_FALSE(job.begins_at_once());
    }
}

}  // namespace weir::testing
