// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/synth.h"

#include <cstdio>
#include <memory>
#include <string>

#include <fmt/core.h>

#include "lib/data/synth.h"
#include "tools/weir/progress.h"

namespace weir::tools {

void add_synth(CLI::App& app, Program& program) {
    struct Flags {
        data::SynthOptions options;
        std::string out;
    };

    const auto flags = std::make_shared<Flags>();
    CLI::App* const command = app.add_subcommand("synth", "write a synthetic click log (LIBSVM)");
    command->add_option("--out,-o", flags->out, "file to write")->required();
    command->add_option("--examples", flags->options.example_count, "examples")
        ->capture_default_str();
    command->add_option("--features", flags->options.feature_count, "features")
        ->capture_default_str();
    command->add_option("--per-example", flags->options.per_example, "features in every example")
        ->capture_default_str();
    command->add_option("--zipf", flags->options.zipf_exponent, "skew of the features")
        ->capture_default_str();
    command->add_option("--seed", flags->options.seed, "the same seed gives the same bytes")
        ->capture_default_str();
    command->callback([flags, &program] {
        program.run = [flags] {
            Progress progress;
            const auto done =
                data::write_click_log(flags->out, flags->options, [&](uint64_t examples) {
                    progress.show(
                        fmt::format("{} of {} examples", examples, flags->options.example_count));
                });
            progress.end();
            if (!done) {
                fmt::print(stderr, "weir: error: {}\n", done.error().message());
                return static_cast<int>(kExitFailure);
            }
            fmt::print("{}: {} examples, {} positive, {:.1f} MB in {:.1f} s\n", flags->out,
                       done->example_count, done->positive_count,
                       static_cast<double>(done->written_bytes) / 1e6, done->seconds);
            return static_cast<int>(kExitOk);
        };
    });
}

}  // namespace weir::tools
