// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/synth.h"

#include <array>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "lib/base/json_text.h"
#include "lib/data/shortage.h"
#include "tools/weir/command.h"
#include "tools/weir/paths.h"
#include "tools/weir/progress.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {

namespace {

std::string synth_json(const SynthFlags& flags, const data::SynthReport& done) {
    return json_text(nlohmann::ordered_json{{"file", flags.out},
                                            {"examples", done.example_count},
                                            {"positive", done.positive_count},
                                            {"bytes", done.written_bytes},
                                            {"seconds", done.seconds}});
}

}  // namespace

int run_synth(const SynthFlags& flags) {
    const std::array<NamedPath, 2> outputs{NamedPath{"--out", flags.out},
                                           NamedPath{"--json", flags.json}};
    if (const Status good = check_paths({}, outputs); !good) return failure(good.error());
    if (const Status good = check_outputs(outputs); !good) return failure(good.error());
    Progress progress;
    const auto done = data::or_shortage([&] {
        return data::write_click_log(flags.out, flags.options, [&](uint64_t examples) {
            progress.show(fmt::format("{} of {} examples", examples, flags.options.example_count));
        });
    });
    progress.end();
    if (!done) return failure(done.error());
    const std::string text = fmt::format(
        "{}: {} examples, {} positive, {:.1f} MB in {:.1f} s\n", flags.out, done->example_count,
        done->positive_count, static_cast<double>(done->written_bytes) / 1e6, done->seconds);
    const Status told = print_result(flags.json, text, synth_json(flags, *done));
    return told ? int{kExitOk} : failure(told.error());
}

}  // namespace weir::tools
