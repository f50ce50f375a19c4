// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/lr_flags.h"

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <CLI/CLI.hpp>

#include "lib/store/table_schema.h"
#include "tools/weir/job_checkpoint_flags.h"
#include "tools/weir/lr/lr.h"
#include "tools/weir/lr/online_flags.h"
#include "tools/weir/lr/predict.h"
#include "tools/weir/numbers.h"
#include "tools/weir/shared_flags.h"

namespace weir::tools {
namespace {

constexpr const char* kWorkLease = "--work-lease";

constexpr const char* kLrFooter =
    "--solver lbfgs minimises the sum of losses + l2/2 |w|^2 + l1 |w|_1. Weights and history stay "
    "on the\n"
    "servers; gradients go up and steps come down. With --l2 the distance to the optimum is "
    "proven. "
    "--l2\n"
    "stands beside the sum of losses: --l2 2 is -c 0.5 of liblinear.\n"
    "--solver ftrl, adagrad, adam: each example is predicted, which the printed loss, accuracy and "
    "AUC\n"
    "are of, and then learned from, once. Workers wait for nobody (eventual consistency). AUC is "
    "of all\n"
    "examples so far, from a histogram of w.x. --stream - is read as it comes, by one worker. "
    "With\n"
    "--on-worker-loss reassign and with --resume the training goes on where the files were left, "
    "which it\n"
    "knows by their names. Weights are computed as float32.\n"
    "--skip-bad N of a stream: N bad lines of each worker's share; the first is named.\n"
    "--join: the job says what is trained, and its data are dealt out anew. Give --train and "
    "--test\n"
    "only if this host has the files under other names. --workers, --threads and --grace are "
    "those\n"
    "of this process.\n"
    "Memory: the workers share the files, and all examples must fit into their memory: 4 bytes\n"
    "per non-zero value where all values are 1, else 8, and about as much again while reading;\n"
    "with --solver delayed --cache they lie on disk.\n"
    "Precision: values are stored as float32; weights are computed as float64.\n"
    "--labels: lines with any other label are bad lines. Several labels may stand for one class.\n"
    "Without it, labels that form classes of their own, like 1 and 2, are an error, whatever\n"
    "--skip-bad says.\n"
    "--skip-bad N: each worker leaves out up to N bad lines of its share of the --train files,\n"
    "whatever the number of --threads, and again up to N of its share of the --test files. One\n"
    "more bad line at any worker ends the job.\n"
    "--test: the files are read after the training. An error in them fails the command, but the\n"
    "model, the plot and the JSON (with test_* null) are written.\n"
    "--init: changes neither the optimum nor its proof; a model near the optimum saves passes.\n"
    "Weights of features that no training line has are left out.\n"
    "--checkpoint: the newest three checkpoints are kept; `weir checkpoint` reads them. If one "
    "cannot\n"
    "be written, a warning says why, and the training goes on.\n"
    "--checkpoint-every N: an iteration of prox is a piece of a block, of which that has one to "
    "eight,\n"
    "and each move of all weights, a few in a pass; of delayed a block; of lbfgs a step. --json "
    "says\n"
    "how many blocks there are. The next one begins N iterations after the last, or up to a\n"
    "sixteenth more.\n"
    "--resume: the weights of the newest checkpoint (or --resume-number N) are those to start "
    "from,\n"
    "with any numbers of servers, shards and workers; they count more than --init. The training\n"
    "does not begin if the checkpoint cannot be read; auto takes the newest that is whole.\n"
    "--plot: the plot marks when servers and workers were lost, joined or left, when checkpoints "
    "were\n"
    "complete or failed, and when another manager led; --json has the same, with the reasons, as\n"
    "events.\n"
    "--filters: codecs change no bit of the result. auto uses them where they save time: never "
    "between\n"
    "processes of one host that share memory. Selectors are for the weights alone, and what they "
    "hold\n"
    "back or leave out may keep the training from the optimum, but for significant=0.\n"
    "-: standard input (in a job of one process) or standard output, each for one flag only. If\n"
    "standard output is taken, the summary goes to standard error.\n"
    "SIGINT, SIGTERM: the training ends after this pass on all ranks, and the results so far are\n"
    "written. Every rank ends with exit code 130 (SIGINT) or 143 (SIGTERM). SIGINT twice, or "
    "SIGTERM\n"
    "again after a second, ends the process at once. A rank that only serves goes on until the "
    "workers have ended; but if it\n"
    "gets the signal and rank 0 does not, it hands over what it holds to the other servers after "
    "a\n"
    "second, as with `weir leave`, and ends with 0, and the training goes on. Of several "
    "managers,\n"
    "this holds for the rank whose manager leads: alone, it lets another one lead, and leaves. "
    "(mpirun\n"
    "kills its ranks one second after it was interrupted itself, unless it is given\n"
    "--mca odls_base_sigkill_timeout 25.)";

constexpr const char* kPredictFooter =
    "The predictions: one line for each example, in the order of the files: 1 / (1 + exp(-w.x)); "
    "of a\n"
    "softmax the probability of each class, in the order of --classes; of a squared loss w.x.\n"
    "A line may begin with a label or with its first feature. If lines have labels, the summary\n"
    "gives accuracy, AUC and log loss, or the squared error. Empty lines, comments and bad lines "
    "get no prediction.";

/// Fails for a flag that makes no sense with --join.
void check_join_flags(const CLI::App& command, const LrFlags& flags) {
    if (!flags.joins()) return;
    const std::set<std::string> own = {"--join",    "--train", "--test", "--stream", "--workers",
                                       "--threads", "--grace", "--help", "--cache",  "--memory"};
    for (const CLI::Option* const option : command.get_options()) {
        const std::string name = option->get_name();
        if (option->count() == 0 || own.contains(name)) continue;
        throw CLI::ValidationError(name, "cannot be given with --join: the job has decided it");
    }
}

/// A check for CLI11. The limits are those of Job::start().
std::string work_lease(const std::string& text) {
    if (text == "0" || count(5, 86'400)(text).empty()) return "";
    return text +
           ": must be 0 (a worker is waited for without end), or a whole number of seconds "
           "from 5 to 86400";
}

/// Fails for the flag of a job that does not go on when a worker is lost.
void check_work_lease(const CLI::App& command, const LrFlags& flags) {
    if (command.count(kWorkLease) == 0 ||
        flags.job.options.on_worker_loss == OnWorkerLoss::kReassign)
        return;
    throw CLI::RequiresError(kWorkLease, "--on-worker-loss reassign");
}

}  // namespace

void add_lr(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<LrFlags>();
    CLI::App* const command =
        app.add_subcommand("lr", "train a sparse linear model on LIBSVM files");
    apps::LrRunOptions& run = flags->run;
    command->add_option("--train", run.train,
                        "LIBSVM files (plain or gzip), or -; needed, but with --join");
    command->add_option("--test", run.test, "files to test the model on");
    command->add_option("--init", flags->init, "model to start from, as --model writes it");
    add_online_flags(*command, *flags);
    command
        ->add_option("--l1", run.solver.l1,
                     "weight of |w|_1 in the objective; default: 1, of lbfgs 0")
        ->check(number(0, true));
    command
        ->add_option("--passes", run.solver.pass_count_max,
                     "passes over all features, at most; of lbfgs, steps")
        ->check(count(1, kCountMax))
        ->capture_default_str();
    command
        ->add_option("--tolerance", run.solver.tolerance,
                     "end when the objective is proven to be this close to the optimum: 0.01 is 1 "
                     "%; 0: after "
                     "--passes, or a signal; default: 0.0005, of lbfgs 1e-7")
        ->check(number(0, true));
    command
        ->add_option("--blocks", run.solver.block_count,
                     "blocks of features; 0: chosen from the data")
        ->check(count(0, kCountMax))
        ->capture_default_str();
    command
        ->add_option_function<std::string>(
            "--kkt", [&run](const std::string& text) { run.solver.kkt = text == "on"; },
            "on: most passes leave out the features that are to stay 0 (KKT filter), which saves "
            "traffic; or off; default: on")
        ->option_text("WORD")
        ->check([](const std::string& text) {
            return text == "on" || text == "off" ? "" : text + ": must be on or off";
        });
    command
        ->add_option("--tau", run.solver.tau,
                     "delayed: how many blocks a worker may be ahead of the slowest one")
        ->check(count(0, TableSchema::kMaxDelayMax))
        ->capture_default_str();
    run.cache.names = {"--cache", "--memory"};
    CLI::Option* const cache = command->add_option(
        "--cache", run.cache.folder,
        "delayed: folder for the examples of each worker, which then need not fit into memory; "
        "later jobs with the same files find them there");
    cache->check([](const std::string& text) {
        return text.empty() ? "is empty: give the name of a folder" : "";
    });
    CLI::Option* const memory =
        command
            ->add_option("--memory", run.cache.memory_bytes,
                         "with --cache: bytes of memory for the examples of each worker, such as "
                         "500M or 4G")
            ->transform(CLI::AsSizeValue(false))
            ->option_text("SIZE");
    cache->needs(memory);
    memory->needs(cache);
    command->add_option("--seed", run.solver.seed, "seed of the blocks and of their order")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    command->add_option("--threads", run.threads, "reading threads per worker")
        ->check(count(1, 256))
        ->capture_default_str();
    command->add_option("--skip-bad", run.skip_bad, "bad lines to leave out, per worker")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    add_labels(*command, run.labels);
    command->add_option("--model", flags->model, "file for the model, one line per feature; or -");
    add_filters(*command, run.filters, "auto");
    add_json(*command, flags->json);
    command->add_option("--plot", flags->plot,
                        "FILE.svg for the objective and filtered features, or the progressive "
                        "loss, against time; or -");
    command->footer(kLrFooter);
    add_job(*command, flags->job);
    add_checkpoint_flags(*command, flags->job);
    add_grace(*command, flags->grace_s,
              "seconds after SIGTERM in which the training must end, or its process ends without "
              "results; a rank that only serves must have handed over all, or ends without; 0: as "
              "long as it takes");
    add_worker_loss(*command, flags->job,
                    {"reassign", OnWorkerLoss::kReassign, "continue",
                     "the model would lack the part of the data that the dead worker had; take "
                     "reassign, with which the others train on that part, too, or stop"});
    command
        ->add_option_function<std::string>(
            kWorkLease,
            [flags](const std::string& text) {
                flags->job.options.work_lease = std::chrono::seconds(std::stoul(text));
                flags->job.give("WEIR_WORK_LEASE_S", "--work-lease", text);
            },
            "with --on-worker-loss reassign: a worker whose process has shown no sign of life for "
            "so many seconds (5 to 86400), and a quarter more, counts as dead; 0: it is waited "
            "for; default: 30")
        ->option_text("SECONDS")
        ->check(work_lease);
    command
        ->add_option("--join", flags->join,
                     "join a running `weir lr --on-worker-loss reassign` with more workers: "
                     "the --rendezvous of the job, or its --contact file")
        ->option_text(kContactType);
    command->callback([flags, command, &chosen] {
        check_online_flags(*command, *flags);
        take_defaults(*command, *flags);
        check_join_flags(*command, *flags);
        check_work_lease(*command, *flags);
        chosen.run = [flags](Config& config) { return run_lr(*flags, config); };
    });
}

void add_predict(CLI::App& app, Command& chosen) {
    const auto flags = std::make_shared<PredictFlags>();
    CLI::App* const command =
        app.add_subcommand("predict", "apply a model of `weir lr` to LIBSVM files");
    command->add_option("--model,-m", flags->model, "model, as `weir lr --model` writes it")
        ->required();
    command->add_option("FILE", flags->files, "LIBSVM files (plain or gzip), or -")->required();
    command->add_option("--out,-o", flags->out, "file for the predictions, or -")
        ->capture_default_str();
    static const std::map<std::string, PredictAs> kAs{{"probability", PredictAs::kProbability},
                                                      {"label", PredictAs::kLabel},
                                                      {"score", PredictAs::kScore}};
    command
        ->add_option(
            "--as", flags->as,
            "value of each line: probability (of the class +1, of a softmax of each class), "
            "label, or score (w.x); default: probability, of a squared loss score")
        ->option_text("WORD")
        ->transform(CLI::Transformer(kAs))
        ->check([](const std::string& text) {
            return text.size() == 1 ? "" : text + ": must be probability, label or score";
        });
    add_labels(*command, flags->labels);
    command->add_option("--skip-bad", flags->skip_bad, "bad lines to leave out")
        ->check(count(0, kLongCountMax))
        ->capture_default_str();
    add_json(*command, flags->json);
    command->footer(kPredictFooter);
    command->callback(
        [flags, &chosen] { chosen.run = [flags](Config&) { return run_predict(*flags); }; });
}

}  // namespace weir::tools
