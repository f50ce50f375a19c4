// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/job_checkpoint_flags.h"

#include <charconv>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/weir/numbers.h"

namespace weir::tools {

std::optional<Interval> parse_interval(std::string_view text) noexcept {
    constexpr uint64_t kValueMax = 1'000'000'000'000;
    uint64_t count = 0;
    const char* const end = text.data() + text.size();
    const auto [behind, error] = std::from_chars(text.data(), end, count);
    if (error != std::errc() || count == 0 || count > kValueMax) return std::nullopt;
    const std::string_view unit(behind, static_cast<size_t>(end - behind));
    if (unit.empty()) return Interval{.iterations = count};
    constexpr uint64_t kSecondsMax = 1'000'000'000;  // 30 years
    const uint64_t seconds = unit == "s"   ? count
                             : unit == "m" ? count * 60
                             : unit == "h" ? count * 3600
                                           : 0;
    if (seconds == 0 || seconds > kSecondsMax) return std::nullopt;
    return Interval{.time = std::chrono::seconds(seconds)};
}

void add_checkpoint_flags(CLI::App& command, JobFlags& job) {
    JobOptions& options = job.options;
    const auto is_named = [](const std::string& path) {
        return path.empty() ? "the name of the folder is empty" : "";
    };
    CLI::Option* const folder =
        command
            .add_option("--checkpoint", options.checkpoint_folder,
                        "folder to write checkpoints to, which all servers see; without "
                        "--checkpoint-every one is written only when it is asked for: by "
                        "`weir checkpoint now`, by SIGUSR1 to rank 0 (of several managers, to the "
                        "rank of any), by `weir stop` or a signal that ends the training, or by "
                        "client.checkpoint() of a program")
            ->option_text("DIR")
            ->check(is_named)
            ->each(job.gives("WEIR_CHECKPOINT_DIR", "--checkpoint"));
    command
        .add_option_function<std::string>(
            "--checkpoint-every",
            [&job](const std::string& text) {
                const Interval interval = *parse_interval(text);
                job.options.checkpoint_every = interval.time;
                job.options.checkpoint_every_iterations = interval.iterations;
                const auto seconds =
                    std::chrono::duration_cast<std::chrono::seconds>(interval.time);
                job.give("WEIR_CHECKPOINT_EVERY_S", "--checkpoint-every",
                         std::to_string(seconds.count()));
            },
            "how often: 30s, 10m, 2h, or a number of iterations")
        ->option_text("TIME|N")
        ->needs(folder)
        ->check([](const std::string& text) {
            return parse_interval(text) ? ""
                                        : text +
                                              ": must be a time, such as 30s, 10m or 2h, or a "
                                              "number of iterations";
        });
    CLI::Option* const resume =
        command
            .add_option("--resume", options.resume,
                        "folder with the checkpoint to go on from; auto: that of --checkpoint, if "
                        "it has one that is not damaged")
            ->option_text("DIR|auto")
            ->check(is_named)
            ->each(job.gives("WEIR_RESUME", "--resume"));
    command
        .add_option("--resume-number", options.resume_number,
                    "which checkpoint of DIR; default: the newest")
        ->needs(resume)
        ->check(count(1, kLongCountMax));
}

}  // namespace weir::tools
