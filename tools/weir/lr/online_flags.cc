// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/online_flags.h"

#include <array>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "tools/weir/numbers.h"

namespace weir::tools {
namespace {

/// Lines of a mini-batch: more of them are in no chunk of the stream.
constexpr uint64_t kBatchMax = 65'536;

struct OwnFlag {
    const char* name;
    bool is_of_ftrl_alone = false;
};

constexpr std::array kOfOnline{OwnFlag{"--stream"},  OwnFlag{"--loss"},  OwnFlag{"--classes"},
                               OwnFlag{"--alpha"},   OwnFlag{"--batch"}, OwnFlag{"--beta", true},
                               OwnFlag{"--l2", true}};
constexpr std::array kOfBatch{"--train",     "--test",   "--init",  "--passes",
                              "--tolerance", "--blocks", "--kkt",   "--seed",
                              "--threads",   "--tau",    "--cache", "--memory"};

}  // namespace

void add_classes(CLI::App& command, data::ClassLabels& classes) {
    command
        .add_option_function<std::string>(
            "--classes",
            [&classes](const std::string& text) { classes = *data::ClassLabels::parse(text); },
            "labels of the classes of a softmax, such as 1-7 or 0,1,5")
        ->option_text("LIST")
        ->check([](const std::string& text) {
            const auto parsed = data::ClassLabels::parse(text);
            return parsed ? "" : parsed.error().text();
        });
}

void add_online_flags(CLI::App& command, LrFlags& flags) {
    apps::OnlineOptions& online = flags.online;
    command
        .add_option_function<std::string>(
            "--solver", [&flags](const std::string& text) { flags.take_solver(text); },
            "prox: block steps to the optimum, on examples in memory (--train), all workers at one "
            "block; delayed: the same, but workers wait for nobody who is at most --tau blocks "
            "behind; ftrl, adagrad, adam: online, on examples that are read once (--stream); "
            "default: prox")
        ->option_text("WORD")
        ->check([](const std::string& text) {
            const bool is_known = apps::batch_kind_named(text) || apps::solver_named(text);
            return is_known ? "" : text + ": must be prox, delayed, ftrl, adagrad or adam";
        });
    command.add_option("--stream", online.stream,
                       "LIBSVM files (plain or gzip) to learn from once, in their order, or -");
    command
        .add_option_function<std::string>(
            "--loss", [&online](const std::string& text) { online.loss = *apps::loss_named(text); },
            "online: logistic (labels -1 and +1), softmax (--classes), or squared (any numbers); "
            "default: "
            "logistic")
        ->option_text("WORD")
        ->check([](const std::string& text) {
            return apps::loss_named(text) ? "" : text + ": must be logistic, softmax or squared";
        });
    add_classes(command, online.classes);
    command
        .add_option("--alpha", online.alpha,
                    "online: learning rate, of ftrl its alpha; default: 0.1, of adam 0.001")
        ->check(number(0, false));
    command.add_option("--beta", online.beta, "ftrl: beta of the learning rates")
        ->check(number(0, true))
        ->capture_default_str();
    command.add_option("--l2", online.l2, "ftrl: weight of |w|^2 / 2")
        ->check(number(0, true))
        ->capture_default_str();
    command
        .add_option("--batch", online.batch,
                    "online: lines of a mini-batch; the first ones are shorter")
        ->check(count(1, kBatchMax))
        ->capture_default_str();
}

void check_online_flags(const CLI::App& command, const LrFlags& flags) {
    if (flags.joins()) return;
    const auto is_given = [&](const char* name) { return command.count(name) > 0; };
    if (!flags.is_online()) {
        for (const OwnFlag& flag : kOfOnline) {
            if (is_given(flag.name))
                throw CLI::RequiresError(flag.name, flag.is_of_ftrl_alone
                                                        ? "--solver ftrl"
                                                        : "--solver ftrl, adagrad or adam");
        }
        if (!is_given("--train")) throw CLI::RequiredError("--train");
        for (const char* const name : {"--tau", "--cache", "--memory"}) {
            if (is_given(name) && flags.run.solver.kind != apps::BatchKind::kDelayed)
                throw CLI::RequiresError(name, "--solver delayed");
        }
        return;
    }
    const std::string solver(apps::name_of(*flags.solver));
    for (const char* const name : kOfBatch) {
        if (is_given(name))
            throw CLI::ValidationError(
                name,
                fmt::format("belongs to solvers of --train; {} learns from --stream FILE, once",
                            solver));
    }
    if (!is_given("--stream")) throw CLI::RequiredError("--stream");
    const bool is_ftrl = *flags.solver == apps::OnlineSolver::kFtrl;
    for (const char* const name : {"--beta", "--l1", "--l2"}) {
        if (!is_ftrl && is_given(name))
            throw CLI::ValidationError(
                name, fmt::format("belongs to --solver ftrl; {} has none", solver));
    }
    const bool is_softmax = flags.online.loss == apps::Loss::kSoftmax;
    if (is_softmax && flags.online.classes.count() == 0)
        throw CLI::RequiredError("--classes, the labels of the softmax, such as 1-7,");
    if (!is_softmax && is_given("--classes"))
        throw CLI::RequiresError("--classes", "--loss softmax");
    if (flags.online.loss != apps::Loss::kLogistic && is_given("--labels"))
        throw CLI::ValidationError("--labels", "belongs to --loss logistic");
}

}  // namespace weir::tools
