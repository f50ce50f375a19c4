// SPDX-License-Identifier: Apache-2.0
#include "lib/job/resume_choice.h"

#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "lib/checkpoint/choose.h"
#include "lib/checkpoint/folder.h"
#include "lib/job/job_variables.h"

namespace weir {
namespace {

constexpr std::string_view kNotAsked = "none";
constexpr std::string_view kNothingThere = "0";

/// Two checkpoints of the same number still differ in their checksums.
std::string choice_of(const checkpoint::Manifest& manifest) {
    return fmt::format("{} {:016x}", manifest.number, checkpoint::checksum_of(manifest));
}

void go_on_from(checkpoint::Manifest manifest, JobCheckpoints& plan) {
    plan.options.resumed_from = manifest.number;
    plan.resume = std::move(manifest);
}

Status choose_automatically(checkpoint::Disk& disk, const checkpoint::CheckEnd& end,
                            JobCheckpoints& plan) {
    const std::string& folder = plan.options.resumed_folder;
    WEIR_ASSIGN(const std::vector<uint64_t> numbers, checkpoint::list_checkpoints(disk, folder));
    if (numbers.empty()) {
        plan.options.resumed_folder.clear();
        return {};
    }
    WEIR_ASSIGN(checkpoint::Chosen chosen, checkpoint::choose_newest_whole(disk, folder, end));
    for (const checkpoint::LeftOut& one : chosen.left_out) {
        log(LogLevel::kWarning, "the job does not go on from checkpoint {} of {}: {}", one.number,
            folder, one.why.message());
    }
    if (chosen.unread_count != 0) {
        log(LogLevel::kWarning,
            "there was no time to look at the bytes of {} of the {} chunks of checkpoint {}: if "
            "one "
            "is damaged, the job ends when it reads it; a longer WEIR_JOIN_TIMEOUT_S gives time to "
            "look at more before",
            chosen.unread_count, chosen.manifest.chunks.size(), chosen.manifest.number);
    }
    go_on_from(std::move(chosen.manifest), plan);
    return {};
}

Error refused(std::string why) {
    return {Errc::kInvalidArgument, std::move(why)};
}

}  // namespace

Status choose_resumed(const JobOptions& options, checkpoint::Disk& disk,
                      const checkpoint::CheckEnd& end, JobCheckpoints& plan) {
    if (options.resume.empty()) return {};
    if (options.resume == kResumeAuto) return choose_automatically(disk, end, plan);
    Result<checkpoint::Manifest> manifest =
        checkpoint::choose_checkpoint(disk, plan.options.resumed_folder, options.resume_number);
    if (!manifest) return of_option("resume", manifest.error());
    go_on_from(*std::move(manifest), plan);
    return {};
}

std::string text_of_choice(const JobOptions& options, const JobCheckpoints& plan) {
    if (options.resume.empty()) return std::string(kNotAsked);
    return plan.resume ? choice_of(*plan.resume) : std::string(kNothingThere);
}

Status take_choice(std::string_view choice, const JobOptions& options, checkpoint::Disk& disk,
                   const SearchEnd& end, JobCheckpoints& plan) {
    if (options.resume.empty()) return {};
    if (choice == kNotAsked) {
        return refused(fmt::format(
            "rank 0 was started without `resume`, and this rank with `resume` {}; start "
            "all ranks with the same options",
            options.resume));
    }
    const std::string& folder = plan.options.resumed_folder;
    uint64_t number = 0;
    const auto parsed = std::from_chars(choice.data(), choice.data() + choice.size(), number);
    if (parsed.ec != std::errc()) {
        return Error(Errc::kProtocol,
                     "rank 0 does not say which checkpoint it goes on from; use "
                     "the same version of Weir on all ranks");
    }
    if (options.resume_number != 0 && options.resume_number != number) {
        return refused(
            fmt::format("`resume_number`: this rank has {}, and rank 0 goes on from "
                        "checkpoint {}; start all ranks with the same options",
                        options.resume_number, number));
    }
    if (choice == kNothingThere) {
        plan.options.resumed_folder.clear();
        return {};
    }
    for (;;) {
        Result<checkpoint::Manifest> manifest = checkpoint::read_manifest(disk, folder, number);
        if (manifest && choice_of(*manifest) != choice) {
            return refused(
                fmt::format("{}: checkpoint {} is another one than that which rank 0 goes "
                            "on from; all servers must see the same folder",
                            folder, number));
        }
        if (manifest) {
            go_on_from(*std::move(manifest), plan);
            return {};
        }
        if (end.clock.now_ns() >= end.at_ns) {
            const Error& why = manifest.error();
            return Error(why.code(),
                         fmt::format("rank 0 goes on from checkpoint {}, which this rank cannot "
                                     "read; all servers must see the same folder: {}",
                                     number, why.text()),
                         why.os_error());
        }
        constexpr auto kPause = std::chrono::milliseconds(20);
        std::this_thread::sleep_for(kPause);
    }
}

}  // namespace weir
