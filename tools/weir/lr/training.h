// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Training: what a worker of `weir lr` does, whichever solver trains.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/job/job.h"
#include "lib/weir.h"
#include "tools/weir/lr/lr.h"

namespace weir::tools {

/// How the job and its signals reach a training; as the options of apps::run_lr() and apps::run_online() have them.
struct TrainingHooks {
    std::function<Result<int>()> stop;
    std::function<bool()> stops_reading;
    std::function<void(bool is_first)> reads_on;
    bool takes_work = false;
    std::string description;
    bool speaks = false;  ///< this worker shows the progress
};

/// Thread: the client's
class Training {
public:
    Training() = default;
    virtual ~Training() = default;
    Training(const Training&) = delete;
    Training& operator=(const Training&) = delete;

    /// One round, to its end.
    /// Errors: kReassigned: once more; else as apps::run_lr()
    [[nodiscard]] virtual Status train(const TrainingHooks& hooks) = 0;

    /// Of all rounds so far.
    [[nodiscard]] virtual bool has_trained() const = 0;
    /// The work was done before this worker could take a share.
    [[nodiscard]] virtual bool is_over() const = 0;
    /// As WorkShare::round, of the last round in which this worker had a share.
    [[nodiscard]] virtual uint64_t round() const = 0;
    /// What follows when workers have come or gone.
    [[nodiscard]] virtual std::string_view says_anew() const = 0;

    // Of a round that has come to its end.

    /// This worker writes the results.
    [[nodiscard]] virtual bool is_first() const = 0;
    /// The same for all workers: ok, a signal (stopped_by()), or an error beside results.
    [[nodiscard]] virtual Status outcome() const = 0;
    /// A later job is to go on from the end, too, and not only from where a signal has ended the training.
    [[nodiscard]] virtual bool is_to_be_continued() const = 0;
    /// Prints the summary and writes the files. Errors: kIo
    [[nodiscard]] virtual Status report() = 0;
    /// Writes those files again that tell what happened in the job, if more has.
    [[nodiscard]] virtual Status report_later_events() = 0;
};

/// What trainings have alike. `Rounds`, `Run`: of apps::run_lr() or apps::run_online().
template <class Rounds, class Run>
class TrainingInRounds : public Training {
public:
    TrainingInRounds(Client& client, const LrFlags& flags, const JobShape& shape)
        : client_(client), flags_(flags), shape_(shape) {}

    [[nodiscard]] bool has_trained() const override { return !rounds_.history.empty(); }

    [[nodiscard]] bool is_over() const override { return rounds_.are_over; }

    [[nodiscard]] uint64_t round() const override { return rounds_.round; }

    [[nodiscard]] bool is_first() const override { return run_.is_first; }

    [[nodiscard]] Status report_later_events() override {
        rounds_.events.collect(client_, true);
        std::vector<TrainingEvent> events = rounds_.events.placed();
        if (events.size() == run_.events.size()) return {};
        run_.events = std::move(events);
        return report_events();
    }

protected:
    [[nodiscard]] virtual Status report_events() = 0;

    Client& client_;
    const LrFlags& flags_;
    const JobShape& shape_;
    Rounds rounds_;
    Run run_;
};

/// As `flags` says. Borrows both.
[[nodiscard]] std::unique_ptr<Training> make_training(Client& client, const LrFlags& flags,
                                                      const JobShape& shape);
[[nodiscard]] std::unique_ptr<Training> make_online_training(Client& client, const LrFlags& flags,
                                                             const JobShape& shape);

}  // namespace weir::tools
