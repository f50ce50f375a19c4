// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/online_flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "lib/apps/lbfgs/solver.h"
#include "tools/weir/numbers.h"

namespace weir::tools {
namespace {

/// Lines of a mini-batch: more of them are in no chunk of the stream.
constexpr uint64_t kBatchMax = 65'536;

/// Solvers, in the order in which messages name them.
enum Solvers : uint32_t {
    kProx = 1,
    kDelayed = 2,
    kLbfgs = 4,
    kFtrl = 8,
    kAdagrad = 16,
    kAdam = 32
};

constexpr std::array<std::string_view, 6> kSolverNames{"prox", "delayed", "lbfgs",
                                                       "ftrl", "adagrad", "adam"};
constexpr uint32_t kBlocks = kProx | kDelayed;
constexpr uint32_t kBatch = kBlocks | kLbfgs;
constexpr uint32_t kOnline = kFtrl | kAdagrad | kAdam;

struct OwnFlag {
    const char* name;
    uint32_t solvers;  ///< that have it
};

/// Flags that some solvers do not have.
constexpr std::array kOwnFlags{
    OwnFlag{"--stream", kOnline},        OwnFlag{"--alpha", kOnline},
    OwnFlag{"--batch", kOnline},         OwnFlag{"--beta", kFtrl},
    OwnFlag{"--loss", kLbfgs | kOnline}, OwnFlag{"--classes", kLbfgs | kOnline},
    OwnFlag{"--l1", kBatch | kFtrl},     OwnFlag{"--l2", kLbfgs | kFtrl},
    OwnFlag{"--history", kLbfgs},        OwnFlag{"--train", kBatch},
    OwnFlag{"--test", kBatch},           OwnFlag{"--init", kBatch},
    OwnFlag{"--passes", kBatch},         OwnFlag{"--tolerance", kBatch},
    OwnFlag{"--threads", kBatch},        OwnFlag{"--blocks", kBlocks},
    OwnFlag{"--kkt", kBlocks},           OwnFlag{"--seed", kBlocks},
    OwnFlag{"--tau", kDelayed},          OwnFlag{"--cache", kDelayed},
    OwnFlag{"--memory", kDelayed}};

/// "prox", "prox or lbfgs", "prox, lbfgs or ftrl".
std::string names_of(uint32_t solvers) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < kSolverNames.size(); ++i) {
        if ((solvers >> i & 1) != 0) names.push_back(kSolverNames[i]);
    }
    std::string text(names[0]);
    for (size_t i = 1; i < names.size(); ++i)
        text += fmt::format("{}{}", i + 1 == names.size() ? " or " : ", ", names[i]);
    return text;
}

uint32_t solver_of(const LrFlags& flags) {
    const auto at = std::ranges::find(kSolverNames, flags.solver_name());
    return 1U << (at - kSolverNames.begin());
}

/// Fails for a flag that the solver does not have.
void check_own_flags(const CLI::App& command, const LrFlags& flags) {
    for (const OwnFlag& flag : kOwnFlags) {
        if (command.count(flag.name) == 0 || (flag.solvers & solver_of(flags)) != 0) continue;
        std::string text = "belongs to --solver " + names_of(flag.solvers);
        if (flags.is_online() && flag.solvers == kBatch)
            text += fmt::format("; {} learns from --stream FILE, once", flags.solver_name());
        throw CLI::ValidationError(flag.name, text);
    }
}

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
            "behind; lbfgs: L-BFGS to it, of any loss, with --l2, --l1 (OWL-QN) or both; ftrl, "
            "adagrad, adam: online, on examples that are read once (--stream); default: prox")
        ->option_text("WORD")
        ->check([](const std::string& text) {
            const bool is_known = apps::batch_kind_named(text) || apps::solver_named(text);
            return is_known ? "" : text + ": must be prox, delayed, lbfgs, ftrl, adagrad or adam";
        });
    command.add_option("--stream", online.stream,
                       "LIBSVM files (plain or gzip) to learn from once, in their order, or -");
    command
        .add_option_function<std::string>(
            "--loss", [&online](const std::string& text) { online.loss = *apps::loss_named(text); },
            "lbfgs and online: logistic (labels -1 and +1), softmax (--classes), or squared "
            "(any numbers); default: logistic")
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
    command
        .add_option("--l2", online.l2,
                    "lbfgs, ftrl: weight of |w|^2 / 2 in the objective; default: 0, of lbfgs 1")
        ->check(number(0, true));
    command
        .add_option("--history", flags.run.solver.pairs_max,
                    "lbfgs: steps that the servers remember, 1 to 30")
        ->check(count(1, apps::LbfgsDirection::kPairsMax))
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
    check_own_flags(command, flags);
    const char* const input = flags.is_online() ? "--stream" : "--train";
    if (!is_given(input)) throw CLI::RequiredError(input);
    const bool is_softmax = flags.online.loss == apps::Loss::kSoftmax;
    if (is_softmax && flags.online.classes.count() == 0)
        throw CLI::RequiredError("--classes, the labels of the softmax, such as 1-7,");
    if (!is_softmax && is_given("--classes"))
        throw CLI::RequiresError("--classes", "--loss softmax");
    if (flags.online.loss != apps::Loss::kLogistic && is_given("--labels"))
        throw CLI::ValidationError("--labels", "belongs to --loss logistic");
}

void take_defaults(const CLI::App& command, LrFlags& flags) {
    if (flags.joins() || solver_of(flags) != kLbfgs) return;
    apps::LrOptions& solver = flags.run.solver;
    if (command.count("--l1") == 0) solver.l1 = 0;
    if (command.count("--l2") == 0) flags.online.l2 = 1;
    if (command.count("--tolerance") == 0) solver.tolerance = apps::LbfgsSolver::kTolerance;
}

}  // namespace weir::tools
