// SPDX-License-Identifier: Apache-2.0
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lib/apps/online/online_run.h"
#include "tools/weir/lr/online_report.h"
#include "tools/weir/lr/training.h"
#include "tools/weir/progress.h"
#include "tools/weir/stop_signals.h"

namespace weir::tools {
namespace {

/// On a stream of examples.
class OnlineTraining final : public TrainingInRounds<apps::OnlineRounds, apps::OnlineRun> {
public:
    using TrainingInRounds::TrainingInRounds;

    Status train(const TrainingHooks& hooks) override;

    std::string_view says_anew() const override {
        return "those that are there now go on where the parts of the stream were left";
    }

    bool is_to_be_continued() const override { return true; }

    Status outcome() const override {
        if (run_.stop_reason == 0) return {};
        return stopped_by(
            run_.stop_reason,
            fmt::format("the training ended after {} examples; the results so far are written",
                        run_.total.examples));
    }

    Status report() override { return report_online(flags_, run_, shape_); }

protected:
    Status report_events() override { return report_online_events(flags_, run_, shape_); }
};

Status OnlineTraining::train(const TrainingHooks& hooks) {
    Progress progress;
    apps::OnlineOptions options = flags_.online;
    options.stop = hooks.stop;
    options.takes_work = hooks.takes_work;
    options.description = hooks.description;
    if (hooks.speaks)
        options.progress = [&](const apps::OnlineProgress& p) {
            progress.show(progress_text(options.loss, p));
        };
    Result<apps::OnlineRun> run = apps::run_online(client_, options, rounds_);
    progress.end();
    if (!run) return run.error();
    run_ = *std::move(run);
    return {};
}

}  // namespace

std::unique_ptr<Training> make_online_training(Client& client, const LrFlags& flags,
                                               const JobShape& shape) {
    return std::make_unique<OnlineTraining>(client, flags, shape);
}

}  // namespace weir::tools
