// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/synth.h"

#include <fmt/core.h>

#include "lib/data/shortage.h"
#include "tools/weir/command.h"
#include "tools/weir/progress.h"

namespace weir::tools {

int run_synth(const SynthFlags& flags) {
    Progress progress;
    const auto done = data::or_shortage([&] {
        return data::write_click_log(flags.out, flags.options, [&](uint64_t examples) {
            progress.show(fmt::format("{} of {} examples", examples, flags.options.example_count));
        });
    });
    progress.end();
    if (!done) return failure(done.error());
    fmt::print("{}: {} examples, {} positive, {:.1f} MB in {:.1f} s\n", flags.out,
               done->example_count, done->positive_count,
               static_cast<double>(done->written_bytes) / 1e6, done->seconds);
    return kExitOk;
}

}  // namespace weir::tools
