// SPDX-License-Identifier: Apache-2.0
#include "lib/job/resume_choice.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "tests/checkpoint/sim_disk.h"
#include "tests/checkpoint/small_checkpoint.h"

namespace weir {
namespace {

constexpr uint64_t kMinute = 60 * kSecond;

/// A folder that another host fills: it shows nothing for some looks.
class LateDisk final : public checkpoint::Disk {
public:
    LateDisk(checkpoint::Disk& disk, int late_looks) : disk_(disk), late_looks_(late_looks) {}

    Result<std::unique_ptr<checkpoint::NewFile>> create(const std::string& path) override {
        return disk_.create(path);
    }

    Result<std::vector<std::byte>> read(const std::string& path, uint64_t bytes_max) override {
        if (late_looks_-- > 0) return Error(Errc::kNotFound, path + ": not shown yet");
        return disk_.read(path, bytes_max);
    }

    Result<uint64_t> size(const std::string& path) override { return disk_.size(path); }

    Result<std::vector<std::string>> list(const std::string&) override {
        return std::vector<std::string>();
    }

    Status rename(const std::string& from, const std::string& to) override {
        return disk_.rename(from, to);
    }

    Status remove(const std::string& path) override { return disk_.remove(path); }

    Status sync_folder(const std::string& folder) override { return disk_.sync_folder(folder); }

private:
    checkpoint::Disk& disk_;
    int late_looks_;
};

JobOptions going_on_from(std::string folder, uint64_t number = 0) {
    JobOptions options;
    options.checkpoint_folder = "/d";
    options.resume = std::move(folder);
    options.resume_number = number;
    return options;
}

/// What another server goes on from, if rank 0 has chosen `choice`.
Result<JobCheckpoints> taken(std::string_view choice, const JobOptions& options,
                             checkpoint::Disk& disk, uint64_t wait_ns = 0) {
    const SteadyClock clock;
    WEIR_ASSIGN(JobCheckpoints plan, plan_checkpoints(options, disk));
    WEIR_TRY(take_choice(choice, options, disk, {clock, clock.now_ns() + wait_ns}, plan));
    return plan;
}

/// What rank 0 goes on from.
Result<JobCheckpoints> chosen(const JobOptions& options, checkpoint::Disk& disk) {
    WEIR_ASSIGN(JobCheckpoints plan, plan_checkpoints(options, disk));
    const SteadyClock clock;
    WEIR_TRY(choose_resumed(options, disk, {clock, clock.now_ns() + kMinute}, plan));
    return plan;
}

bool fails_with(const Result<JobCheckpoints>& result, Errc code, std::string_view text) {
    return result.code() == code && result.error().text().find(text) != std::string::npos;
}

void write_three(testing::SimDisk& disk) {
    for (uint64_t number = 1; number <= 3; ++number)
        REQUIRE(testing::write_small(disk, "/d", number, number, 2));
}

}  // namespace

TEST_SUITE("resume choice") {
    TEST_CASE("options that do not go together are refused") {
        testing::SimDisk disk;
        CHECK(fails_with(plan_checkpoints(going_on_from(std::string(kResumeAuto), 2), disk),
                         Errc::kInvalidArgument, "name the folder: `resume` DIR"));
        CHECK(fails_with(plan_checkpoints(going_on_from("", 2), disk), Errc::kInvalidArgument,
                         "give `resume` DIR"));
    }

    TEST_CASE(
        "rank 0 goes on from the newest, that of a number, the newest whole one, or nothing") {
        testing::SimDisk disk;
        const JobOptions automatic = going_on_from(std::string(kResumeAuto));
        const auto nothing = chosen(automatic, disk);
        REQUIRE(nothing);
        CHECK_FALSE(nothing->resume);
        CHECK(nothing->options.resumed_folder.empty());
        CHECK(chosen(going_on_from("/d"), disk).code() == Errc::kNotFound);
        write_three(disk);
        const auto number_of = [](const Result<JobCheckpoints>& plan) {
            REQUIRE(plan);
            CHECK(plan->options.resumed_folder == "/d");
            CHECK(plan->options.resumed_from == plan->resume->number);
            return plan->resume->number;
        };
        CHECK(number_of(chosen(going_on_from("/d"), disk)) == 3);
        CHECK(number_of(chosen(going_on_from("/d", 2), disk)) == 2);
        CHECK(number_of(chosen(automatic, disk)) == 3);
        CHECK(fails_with(chosen(going_on_from("/d", 7), disk), Errc::kNotFound, "1, 2 and 3"));
        disk.damage("/d/000003.manifest", {});
        CHECK(fails_with(chosen(going_on_from("/d"), disk), Errc::kParse, "`resume_number` 2"));
        CHECK(number_of(chosen(automatic, disk)) == 2);
        const std::string chunk = "/d/" + checkpoint::read_manifest(disk, "/d", 2)->chunks[1].name;
        auto bytes = disk.read(chunk, 1 << 20).value();
        bytes[bytes.size() / 2] ^= std::byte{1};
        disk.damage(chunk, bytes);
        CHECK(number_of(chosen(going_on_from("/d", 2), disk)) == 2);
        CHECK(number_of(chosen(automatic, disk)) == 1);
    }

    TEST_CASE("other servers take what rank 0 has chosen, also if their folder shows it late") {
        testing::SimDisk disk;
        write_three(disk);
        const JobOptions automatic = going_on_from(std::string(kResumeAuto));
        const std::string third = text_of_choice(automatic, chosen(automatic, disk).value());
        LateDisk late(disk, 5);
        const auto plan = taken(third, automatic, late, 20 * kSecond);
        REQUIRE(plan);
        CHECK(plan->resume->number == 3);
        CHECK(plan->options.resumed_from == 3);
        LateDisk too_late(disk, 1000);
        CHECK(fails_with(taken(third, automatic, too_late, 50 * kMillisecond), Errc::kNotFound,
                         "rank 0 goes on from checkpoint 3, which this rank cannot read"));
        // Rank 0 has left out the third, which this rank could read.
        const JobOptions second = going_on_from("/d", 2);
        const std::string text = text_of_choice(second, chosen(second, disk).value());
        CHECK(taken(text, automatic, disk)->resume->number == 2);
        // Rank 0 has seen none.
        testing::SimDisk none;
        const auto nothing =
            taken(text_of_choice(automatic, chosen(automatic, none).value()), automatic, disk);
        REQUIRE(nothing);
        CHECK_FALSE(nothing->resume);
        CHECK(nothing->options.resumed_folder.empty());
    }

    TEST_CASE("a server that was started otherwise, or has another folder, does not start") {
        testing::SimDisk disk;
        write_three(disk);
        const JobOptions newest = going_on_from("/d");
        const std::string third = text_of_choice(newest, chosen(newest, disk).value());
        CHECK_FALSE(taken(third, going_on_from(""), disk)->resume);
        CHECK(fails_with(taken(third, going_on_from("/d", 2), disk), Errc::kInvalidArgument,
                         "this rank has 2, and rank 0 goes on from checkpoint 3"));
        CHECK(taken(third, going_on_from("/d", 3), disk)->resume->number == 3);
        const std::string none = text_of_choice(going_on_from(""), {});
        CHECK(fails_with(taken(none, newest, disk), Errc::kInvalidArgument,
                         "rank 0 was started without `resume`"));
        CHECK(taken("", newest, disk).code() == Errc::kProtocol);
        testing::SimDisk other;
        REQUIRE(testing::write_small(other, "/d", 3, 4, 2));
        CHECK(fails_with(taken(third, newest, other), Errc::kInvalidArgument,
                         "all servers must see the same folder"));
    }
}

}  // namespace weir
