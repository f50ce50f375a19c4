// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/apps/lr/lr_run.h"
#include "lib/base/log.h"
#include "lib/data/shortage.h"
#include "tools/weir/lr/lr_report.h"
#include "tools/weir/lr/training.h"
#include "tools/weir/paths.h"
#include "tools/weir/progress.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

/// On examples that all lie in memory.
class BatchTraining final : public TrainingInRounds<apps::LrRounds, apps::LrRun> {
public:
    using TrainingInRounds::TrainingInRounds;

    Status train(const TrainingHooks& hooks) override;

    std::string_view says_anew() const override {
        return "those that are there now read their parts of the training files anew, and go on "
               "from the "
               "last weights";
    }

    bool is_to_be_continued() const override { return false; }

    Status outcome() const override;

    Status report() override { return tools::report(flags_, run_, shape_); }

protected:
    Status report_events() override { return tools::report_events(flags_, run_, shape_); }
};

Status BatchTraining::train(const TrainingHooks& hooks) {
    Progress progress;
    apps::LrRunOptions options = flags_.run;
    options.solver.stop = hooks.stop;
    options.stops_reading = hooks.stops_reading;
    options.reads_on = hooks.reads_on;
    options.takes_work = hooks.takes_work;
    options.description = hooks.description;
    if (hooks.speaks) {
        options.solver.progress = [&](const apps::LrProgress& p) {
            const std::string gap = p.gap <= kTellingGap ? ", gap " + percent(p.gap) : "";
            const std::string filtered =
                p.filtered_share > 0 ? ", " + share_text(p.filtered_share) + " filtered" : "";
            progress.show(fmt::format("pass {:4}  {:7.2f} s  objective {:.6g}, {} non-zeros{}{}",
                                      p.pass, p.seconds, p.objective, p.nonzero_count, filtered,
                                      gap));
        };
    }
    Result<apps::LrRun> run = apps::run_lr(client_, options, rounds_);
    progress.end();
    if (!run) return run.error();
    run_ = *std::move(run);
    return {};
}

Status BatchTraining::outcome() const {
    const int signal = run_.result.stop_reason;
    if (signal == 0) return run_.tested;
    if (run_.result.end != apps::LrEnd::kStopped)
        return stopped_by(signal,
                          "the test files were being read; the results of the training "
                          "are written");
    return stopped_by(signal, fmt::format("the training ended after pass {}; the results so far "
                                          "are written",
                                          run_.result.pass_count));
}

}  // namespace

std::unique_ptr<Training> make_training(Client& client, const LrFlags& flags,
                                        const JobShape& shape) {
    if (flags.is_online()) return make_online_training(client, flags, shape);
    return std::make_unique<BatchTraining>(client, flags, shape);
}

}  // namespace weir::tools
