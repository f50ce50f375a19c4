// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr/lr_run.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "lib/apps/agree_on_error.h"
#include "lib/apps/allgather.h"
#include "lib/apps/lr/client_exchange.h"
#include "lib/apps/lr/make_solver.h"
#include "lib/base/counted.h"
#include "lib/base/fnv.h"
#include "lib/base/log.h"
#include "lib/data/examples.h"
#include "lib/data/shortage.h"
#include "lib/train/work_pieces.h"

namespace weir::apps {
namespace {

/// A hash of the text that a double holds exactly. The same for every build of the program.
double fingerprint(std::string_view text) {
    return static_cast<double>(fnv1a(text) >> 11);
}

double fingerprint(const Model& model) {
    const auto text_of = [](const auto& values) {
        return std::string_view(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof values[0]);
    };
    return fingerprint(text_of(model.keys)) + fingerprint(text_of(model.weights));
}

/// What LrOptions::stop says once reading has ended before its end, of which `outcome` tells; else 0.
Result<int> reason_to_stop(const LrRunOptions& options, Errc outcome) {
    const bool was_ended = outcome == Errc::kCancelled && options.solver.stop;
    return was_ended ? options.solver.stop() : 0;
}

/// Of the names of tables: those of weights that one loss can go on from begin alike.
std::string tables_of(const LrOptions& options) {
    if (options.loss == Loss::kLogistic) return "lr";
    if (options.loss == Loss::kSquared) return "lr-squared";
    return fmt::format("lr-softmax-{:08x}", fnv1a(options.classes.text()) >> 32);
}

/// A job that goes on from a checkpoint has new tables: its workers begin with the weights of old
/// ones.
std::string name_of_round(const LrRounds& rounds, uint64_t round) {
    const uint64_t from = rounds.resumed ? rounds.resumed->checkpoint : 0;
    if (from != 0)
        return round == 0 ? fmt::format("{}@{}", rounds.tables, from)
                          : fmt::format("{}@{}.{}", rounds.tables, from, round);
    return round == 0 ? rounds.tables : fmt::format("{}{}", rounds.tables, round);
}

/// Whether name_of_round() may have given it.
bool is_of_tables(std::string_view exchange, const std::string& tables) {
    if (!exchange.starts_with(tables)) return false;
    const std::string_view rest = exchange.substr(tables.size());
    return rest.empty() || rest[0] == '@' || (rest[0] >= '0' && rest[0] <= '9');
}

/// The exchange whose weights the checkpoint has: the last one that has trained them.
std::optional<std::string> trained_exchange(const LrRounds& rounds) {
    for (const ResumedFrom::SavedTable& table : rounds.resumed->tables) {
        const auto exchange = ClientExchange::exchange_of_weights(table.name);
        if (exchange && is_of_tables(*exchange, rounds.tables) && table.closed > 0)
            return std::string(*exchange);
    }
    return std::nullopt;
}

/// A job that goes on from what another training has left would begin from nothing, and nobody would know.
Status check_resumed(const LrRounds& rounds) {
    std::string other;
    for (const ResumedFrom::SavedTable& table : rounds.resumed->tables) {
        const auto exchange = ClientExchange::exchange_of_weights(table.name);
        if (!exchange) continue;
        if (is_of_tables(*exchange, rounds.tables)) return {};
        other = table.name;
    }
    if (other.empty()) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("checkpoint {} has the weights of another loss, of other classes or of a "
                    "solver that learns from a stream (table {}): go on with those that the "
                    "training had, or begin anew in another folder",
                    rounds.resumed->checkpoint, other));
}

/// What differs is a parameter of the table of weights.
Result<std::unique_ptr<ClientExchange>> exchange_of_round(Client& client,
                                                          const LrRunOptions& options,
                                                          const WorkShare& share,
                                                          const LrRounds& rounds) {
    Result<std::unique_ptr<ClientExchange>> made =
        make_exchange(client, name_of_round(rounds, share.round), {share.index, share.worker_count},
                      options.solver, options.filters);
    if (made.code() != Errc::kAlreadyExists) return made;
    return Error(
        Errc::kInvalidArgument,
        fmt::format("the ranks have different options (l1: this one {}, another one not; or "
                    "solver or tau); start all with the same",
                    options.solver.l1));
}

/// Fails if the workers have different options: they would take different steps, and wait for
/// each other without end.
Status check_same(BlockExchange& exchange, const LrRunOptions& options) {
    struct Option {
        const char* name;
        double value;
        bool is_number = true;
    };

    const LrOptions& solver = options.solver;
    const std::array<Option, 15> same{{
        {"solver", fingerprint(name_of(solver.kind)), false},
        {"loss", fingerprint(name_of(solver.loss)), false},
        {"classes", fingerprint(solver.classes.text()), false},
        {"l1", solver.l1},
        {"l2", solver.l2},
        {"history", static_cast<double>(solver.pairs_max)},
        {"passes", static_cast<double>(options.solver.pass_count_max)},
        {"tolerance", options.solver.tolerance},
        {"blocks", static_cast<double>(options.solver.block_count)},
        {"kkt", options.solver.kkt ? 1.0 : 0.0},
        {"tau", static_cast<double>(options.solver.tau)},
        {"seed", static_cast<double>(options.solver.seed)},
        {"number of test files", static_cast<double>(options.test.size())},
        {"labels", fingerprint(options.labels.text()), false},
        {"init", fingerprint(options.solver.init), false},
    }};
    std::array<double, 2 * same.size()> greatest;  // of each value and of its negative
    for (size_t i = 0; i < same.size(); ++i) {
        greatest[2 * i] = same[i].value;
        greatest[2 * i + 1] = -same[i].value;
    }
    WEIR_TRY(exchange.max(greatest));
    for (size_t i = 0; i < same.size(); ++i) {
        if (greatest[2 * i] == -greatest[2 * i + 1]) continue;
        const std::string range =
            same[i].is_number
                ? fmt::format(": from {} to {}", -greatest[2 * i + 1], greatest[2 * i])
                : "";
        return Error(Errc::kInvalidArgument,
                     fmt::format("the ranks have different options ({}{}); start all with the same",
                                 same[i].name, range));
    }
    return {};
}

/// Sums up the workers' reports on one set of files, training or test: the labels, examples and
/// bad lines in `report` become those of all workers.
///
/// labels_good: set to the result of check_labels()
/// Errors: the exchange's
Status sum_reports(ClientExchange& exchange, const LrRunOptions& options,
                   std::span<const std::string> paths, data::ReadReport& report,
                   Status& labels_good) {
    WEIR_ASSIGN(const std::vector<uint64_t> words, allgather(exchange, report.labels.encode()));
    report.labels = {};
    report.labels.add_encoded(words);
    labels_good = {};
    if (options.solver.loss == Loss::kLogistic)
        labels_good = data::check_labels(report.labels, options.labels, data::files_text(paths),
                                         options.names);
    std::array<double, 2> counts{static_cast<double>(report.example_count),
                                 static_cast<double>(report.bad_line_count)};
    WEIR_TRY(exchange.sum(counts));
    report.example_count = static_cast<uint64_t>(counts[0]);
    report.bad_line_count = static_cast<uint64_t>(counts[1]);
    if (report.bad_line_count == 0) return {};
    Status first;
    if (!report.first_bad_line.empty())
        first = Error(Errc::kInvalidArgument, report.first_bad_line);
    WEIR_TRY(agree_on_error(exchange, first));
    if (!first) report.first_bad_line = first.error().text();
    return {};
}

/// Adds the warnings about one set of files. `report`: of all workers
void add_warnings(const data::ReadReport& report, const LrRunOptions& options,
                  std::span<const std::string> paths, std::vector<std::string>& warnings) {
    const std::string where = data::files_text(paths);
    if (options.solver.loss == Loss::kLogistic) {
        std::string odd = data::label_warning(report.labels, options.labels, where);
        if (!odd.empty()) warnings.push_back(std::move(odd));
    }
    if (report.bad_line_count > report.example_count) {
        warnings.push_back(
            fmt::format("{}: more than half of the lines were left out, {} of {}; the first: {}",
                        where, report.bad_line_count, report.bad_line_count + report.example_count,
                        report.first_bad_line));
    }
}

data::LibsvmFormat format_of(const LrRunOptions& options) {
    data::LibsvmFormat format;
    format.labels = options.labels;
    format.names = options.names;
    format.any_label = options.solver.loss != Loss::kLogistic;
    format.classes = options.solver.classes;
    return format;
}

/// Of all workers' examples: the logistic loss by `scores`, which it sorts, another one by `sums`.
Result<Metrics> measure_loss(BlockExchange& exchange, Loss loss, Scores& scores,
                             const LossSums& sums, uint64_t example_count) {
    if (loss == Loss::kLogistic) return measure(exchange, scores);
    return measure(exchange, loss, sums, example_count);
}

Result<Evaluation> evaluate_part(const Model& model, const LrRunOptions& options, data::Part part) {
    data::StreamOptions stream;
    stream.part = part;
    stream.skip_bad = options.skip_bad;
    stream.format = format_of(options);
    stream.stop = options.stops_reading;
    return data::or_shortage([&] { return evaluate(model, options.test, stream); });
}

/// Evaluates the model on the test files, each worker on its part, and sums up the results. An
/// error of the files goes to run.tested of all workers; the model stays valid.
Status test(Client& client, ClientExchange& exchange, const LrRunOptions& options,
            std::span<const uint64_t> train_keys, LrRun& run) {
    Result<Evaluation> mine =
        evaluate_part(run.model, options, {exchange.worker_index(), exchange.worker_count()});
    if (!mine) run.tested = mine.error();
    WEIR_ASSIGN(const int reason_here, reason_to_stop(options, mine.code()));
    WEIR_TRY(client.barrier());  // parts take different times to read
    WEIR_TRY(agree_on_error(exchange, run.tested));
    if (run.tested.code() == Errc::kCancelled) {
        double reason = reason_here;
        WEIR_TRY(exchange.max({&reason, 1}));
        run.result.stop_reason = static_cast<int>(reason);
    }
    if (!run.tested) return {};
    data::ReadReport all = mine->read;
    WEIR_TRY(sum_reports(exchange, options, options.test, all, run.tested));
    run.bad_test_lines = {all.bad_line_count, all.first_bad_line};
    if (!run.tested) return {};
    if (all.example_count == 0) {
        std::string text = "the test files have no examples: " + options.test[0];
        if (const BadLines& bad = run.bad_test_lines; bad.count > 0)
            text += fmt::format("; {} {} left out, the first: {}", counted(bad.count, "bad line"),
                                bad.count == 1 ? "was" : "were", bad.first);
        run.tested = Error(Errc::kInvalidArgument, std::move(text));
        return {};
    }
    add_warnings(all, options, options.test, run.warnings);
    WEIR_ASSIGN(run.test, measure_loss(exchange, options.solver.loss, mine->scores, mine->sums,
                                       mine->read.example_count));
    WEIR_ASSIGN(run.unseen, count_unseen(exchange, train_keys, mine->keys));
    if (const auto& [feature_count, unseen_count] = run.unseen; unseen_count > 0) {
        const double share =
            100 * static_cast<double>(unseen_count) / static_cast<double>(feature_count);
        run.warnings.push_back(fmt::format(
            "{}: {} of {} features ({:.2g} %) are in no training line, and have no weight",
            data::files_text(options.test), unseen_count, feature_count, share));
    }
    return {};
}

/// Pieces of the training files for each worker of the first round: enough that the others share
/// what a lost one had.
constexpr uint32_t kPiecesPerWorker = 4;

/// This worker's share of the training files. Without rounds, one piece for each of its threads.
Result<WorkShare> take_share(Client& client, const LrRunOptions& options) {
    const uint32_t threads = std::max(options.threads, 1U);
    if (!options.takes_work) return share_of_all(client, client.worker_count_at_start() * threads);
    const uint64_t pieces = uint64_t{client.worker_count()} * std::max(kPiecesPerWorker, threads);
    return client.take_work(
        static_cast<uint32_t>(std::min<uint64_t>(pieces, WorkShare::kPiecesMax)),
        options.description);
}

/// The earlier round whose weights have come farthest; 0: none has any. If all workers have joined since,
/// none of them knows it.
Result<uint64_t> find_trained(Client& client, const LrRounds& rounds, uint64_t round,
                              std::vector<uint64_t> keys, uint32_t width) {
    std::ranges::sort(keys);
    std::vector<double> weights(keys.size() * width);
    uint64_t found = 0;
    uint64_t most = 0;
    for (uint64_t old = rounds.kept_from; old < round; ++old) {
        Result<uint64_t> shown =
            ClientExchange::read_weights(client, name_of_round(rounds, old), keys, weights, width);
        if (!shown && shown.code() != Errc::kNotFound) return shown;
        if (!shown || *shown <= most) continue;
        most = *shown;
        found = old;
    }
    return found;
}

/// What any worker of this round knows of earlier ones, or what the servers have of them, all know now,
/// whoever dies next.
Status agree_on_rounds(Client& client, ClientExchange& exchange, std::span<const uint64_t> keys,
                       uint64_t round, uint32_t width, LrRounds& rounds) {
    std::array<double, 2> greatest{static_cast<double>(rounds.trained),
                                   static_cast<double>(rounds.kept_from)};
    WEIR_TRY(exchange.max(greatest));
    rounds.trained = static_cast<uint64_t>(greatest[0]);
    rounds.kept_from = static_cast<uint64_t>(greatest[1]);
    if (rounds.trained != 0 || round <= 1) return {};
    double found = 0;
    if (exchange.worker_index() == 0) {
        WEIR_ASSIGN(const uint64_t trained,
                    find_trained(client, rounds, round, {keys.begin(), keys.end()}, width));
        found = static_cast<double>(trained);
    }
    WEIR_TRY(exchange.max({&found, 1}));
    rounds.trained = static_cast<uint64_t>(found);
    return {};
}

/// The exchange with the newest weights: of the last round that has trained them, without such a round of
/// the checkpoint that the job goes on from. None: the training begins with the model that is given.
std::optional<std::string> newest_exchange(const LrRounds& rounds) {
    if (rounds.trained != 0) return name_of_round(rounds, rounds.trained);
    return rounds.resumed->checkpoint != 0 ? trained_exchange(rounds) : std::nullopt;
}

/// The weights of this worker's features in an exchange that newest_exchange() has found.
Result<Model> read_newest(Client& client, std::span<const uint64_t> keys,
                          const std::string& exchange, uint32_t width) {
    Model model;
    model.keys.assign(keys.begin(), keys.end());
    std::ranges::sort(model.keys);
    model.weights.resize(model.keys.size() * width);
    WEIR_ASSIGN([[maybe_unused]] const uint64_t shown,
                ClientExchange::read_weights(client, exchange, model.keys, model.weights, width));
    return model;
}

/// As if it had followed these passes.
LrProgress behind(const std::vector<LrProgress>& history, LrProgress pass) {
    if (history.empty()) return pass;
    pass.pass += history.back().pass;
    pass.seconds += history.back().seconds;
    return pass;
}

/// The tables of the checkpoint: that of weights is needed until some round has trained them further.
Status drop_saved_tables(Client& client, LrRounds& rounds, bool is_trained) {
    if (rounds.resumed->checkpoint == 0 || rounds.has_dropped_saved) return {};
    WEIR_TRY(client.forget_unread_tables());
    if (!is_trained && rounds.trained == 0) return {};
    if (const auto exchange = trained_exchange(rounds))
        WEIR_TRY(drop_tables(client, *exchange, false));
    rounds.has_dropped_saved = true;
    return {};
}

/// Tables that no worker needs once all have read the weights from which this round starts, and those
/// weights, too, if `is_trained`: all know that this round has trained them further. Only the first
/// worker calls it. If it dies before it has, the next one does it.
Status drop_old_tables(Client& client, LrRounds& rounds, uint64_t round, bool is_trained) {
    const uint64_t needed = is_trained || rounds.trained == 0 ? round : rounds.trained;
    for (uint64_t old = rounds.kept_from; old < round; ++old)
        WEIR_TRY(drop_tables(client, name_of_round(rounds, old), old == needed));
    rounds.kept_from = std::min(needed, round);
    return drop_saved_tables(client, rounds, is_trained);
}

/// They would only take memory.
void try_to_drop_old_tables(Client& client, LrRounds& rounds, uint64_t round, bool is_trained) {
    if (const Status done = drop_old_tables(client, rounds, round, is_trained); !done)
        log(LogLevel::kDebug, "old tables stay: {}", done.error().text());
}

/// The solver's options in this round. `passes`: gets those of this round, as they are made.
LrOptions options_of_round(Client& client, const LrRunOptions& options, const WorkShare& share,
                           LrRounds& rounds, std::vector<LrProgress>& passes) {
    LrOptions solver = options.solver;
    const bool tells = share.index == 0 && options.solver.progress;
    solver.progress = [&, tells, is_first = share.index == 0,
                       round = share.round](const LrProgress& pass) {
        // With its second pass, all workers have followed the first one.
        if (is_first) try_to_drop_old_tables(client, rounds, round, pass.pass >= 2);
        rounds.trained = round;
        passes.push_back(behind(rounds.history, pass));
        rounds.events.note_pass(passes.back().seconds);
        if (is_first) rounds.events.collect(client, false);
        if (tells) options.solver.progress(passes.back());
    };
    return solver;
}

/// Whether there are weights that an earlier round has trained, or an earlier job.
/// Errors: kReassigned if this round is over
Result<bool> has_trained(Client& client, uint32_t width, const LrRounds& rounds) {
    // Before it has read the files, this worker knows no key: any will do.
    WEIR_ASSIGN(const uint64_t found, find_trained(client, rounds, rounds.round, {0}, width));
    return found != 0 || newest_exchange(rounds).has_value();
}

/// This worker's examples, in memory or on disk.
using TrainingData = std::variant<data::Examples, data::ColumnCache>;

std::span<const uint64_t> keys_of(const TrainingData& data) {
    const auto* const cache = std::get_if<data::ColumnCache>(&data);
    return cache != nullptr ? cache->keys() : std::get<data::Examples>(data).keys;
}

const data::ReadReport& report_of(const TrainingData& data) {
    const auto* const cache = std::get_if<data::ColumnCache>(&data);
    return cache != nullptr ? cache->report() : std::get<data::Examples>(data).report;
}

template <class Data>
Result<TrainingData> as_training_data(Result<Data> made) {
    if (!made) return made.error();
    return TrainingData(*std::move(made));
}

/// Where a job has trained before, what the cache cannot do is no reason to lose that.
Result<data::Examples> read_into_memory(const LrRunOptions& options, const data::ReadOptions& read,
                                        const Error& why) {
    log(LogLevel::kWarning,
        "{}; this worker keeps its examples in memory until the work is dealt out anew",
        why.text());
    return data::read_libsvm(options.train, read);
}

Result<TrainingData> read_once(const LrRunOptions& options, const data::ReadOptions& read,
                               bool is_first_round) {
    if (options.cache.folder.empty())
        return as_training_data(data::read_libsvm(options.train, read));
    if (options.solver.kind != BatchKind::kDelayed) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{}: only the solver delayed reads examples from disk; start this "
                                 "worker without",
                                 options.cache.names.cache));
    }
    Result<data::ColumnCache> cache = data::ColumnCache::open(options.train, read, options.cache);
    if (cache || is_first_round || cache.code() == Errc::kCancelled)
        return as_training_data(std::move(cache));
    return as_training_data(read_into_memory(options, read, cache.error()));
}

/// Of this worker's share.
data::ReadOptions reading_of(const LrRunOptions& options, const WorkShare& share) {
    data::ReadOptions read;
    read.parts.clear();
    for (const uint32_t piece : share.pieces)
        read.parts.push_back({piece, share.piece_count});
    read.thread_count = options.threads;
    read.skip_bad = options.skip_bad;
    read.format = format_of(options);
    return read;
}

/// This worker's part of the training files. If the training is to end meanwhile, what was trained before
/// must not be lost. Without the examples there are no results: reading goes on to its end, and the
/// training ends with its first pass.
Result<TrainingData> read_share(Client& client, const LrRunOptions& options, const WorkShare& share,
                                const LrRounds& rounds) {
    data::ReadOptions read = reading_of(options, share);
    read.stop = options.stops_reading;
    Result<TrainingData> examples = read_once(options, read, share.round <= 1);
    WEIR_ASSIGN(const int reason, reason_to_stop(options, examples.code()));
    if (reason == 0) return examples;
    WEIR_ASSIGN(const bool is_trained,
                has_trained(client, options.solver.function().width(), rounds));
    if (!is_trained) return examples;
    if (options.reads_on) options.reads_on(share.index == 0);
    read.stop = {};
    return read_once(options, read, share.round <= 1);
}

/// Adds the warnings about the weights. `began_with_given`: with LrOptions::init, not with those that this or
/// an earlier job has trained
void add_model_warnings(const LrOptions& options, bool began_with_given, LrRun& run) {
    const uint64_t given = options.init.keys.size();
    if (began_with_given && run.result.init_feature_count < given) {
        run.warnings.push_back(
            fmt::format("the model to start from: {} of {} features are in no training line; their "
                        "weights were left out",
                        given - run.result.init_feature_count, given));
    }
    if (run.result.nonzero_count == 0) {
        run.warnings.push_back(
            options.l1 > 0
                ? fmt::format("the model has no weights: with l1 = {} all weights are 0; give a "
                              "smaller l1",
                              options.l1)
                : "the model has no weights: no training line has a feature that tells anything");
    }
    constexpr uint32_t kManyPasses = 100;  // who gives fewer knows why
    const bool is_cut_off = options.kind == BatchKind::kDelayed &&
                            run.result.pass_count >= kManyPasses &&
                            run.result.end == LrEnd::kPassCount && options.tolerance > 0 &&
                            !(run.result.gap <= options.tolerance);
    if (is_cut_off)
        run.warnings.push_back(
            "all passes are done, and the objective has not settled: give more passes, or the "
            "solver prox, which takes fewer where features depend on each other");
}

Result<std::unique_ptr<BatchSolver>> solver_of_round(Client& client, const LrRunOptions& options,
                                                     const WorkShare& share,
                                                     const std::string& name,
                                                     ClientExchange& exchange, TrainingData&& data,
                                                     LrOptions of_round) {
    if (auto* const cache = std::get_if<data::ColumnCache>(&data)) {
        DelayedSolver::InMemory in_memory;
        if (share.round > 1)
            in_memory = [&](const Error& why) {
                return read_into_memory(options, reading_of(options, share), why);
            };
        return make_solver(exchange, std::move(*cache), std::move(of_round), in_memory);
    }
    return make_solver(client, name, exchange, options.filters,
                       std::move(std::get<data::Examples>(data)), std::move(of_round));
}

Result<LrRun> run_round(Client& client, const LrRunOptions& options, LrRounds& rounds,
                        std::vector<LrProgress>& passes) {
    Result<WorkShare> taken = take_share(client, options);
    rounds.are_over = taken.code() == Errc::kNotFound;
    WEIR_ASSIGN(const WorkShare share, std::move(taken));
    rounds.round = share.round;
    rounds.tables = tables_of(options.solver);
    if (!rounds.resumed) {
        WEIR_ASSIGN(rounds.resumed, client.resumed_from());
        WEIR_TRY(check_resumed(rounds));
    }
    WEIR_ASSIGN(const std::unique_ptr<ClientExchange> exchange,
                exchange_of_round(client, options, share, rounds));
    LrRun run;
    run.is_first = share.index == 0;
    Result<TrainingData> examples = read_share(client, options, share, rounds);
    if (!examples) return examples.error();
    run.read = report_of(*examples);
    // Some workers read longer than others: the barrier waits for the slowest.
    WEIR_TRY(client.barrier());
    WEIR_TRY(check_same(*exchange, options));
    data::ReadReport all = run.read;
    Status labels_good;
    WEIR_TRY(sum_reports(*exchange, options, options.train, all, labels_good));
    WEIR_TRY(labels_good);
    run.bad_lines = {all.bad_line_count, all.first_bad_line};
    add_warnings(all, options, options.train, run.warnings);
    LrOptions of_round = options_of_round(client, options, share, rounds, passes);
    const uint32_t width = options.solver.function().width();
    WEIR_TRY(agree_on_rounds(client, *exchange, keys_of(*examples), share.round, width, rounds));
    const std::optional<std::string> newest = newest_exchange(rounds);
    if (newest) {
        WEIR_ASSIGN(of_round.init, read_newest(client, keys_of(*examples), *newest, width));
    }
    WEIR_ASSIGN(const std::unique_ptr<BatchSolver> solver,
                solver_of_round(client, options, share, name_of_round(rounds, share.round),
                                *exchange, *std::move(examples), std::move(of_round)));
    run.data_bytes = solver->data_bytes();
    WEIR_ASSIGN(run.result, solver->solve());
    // The first worker writes the model; the others need it only for the test files.
    const bool wanted = run.is_first || !options.test.empty();
    WEIR_ASSIGN(run.model, solver->model(wanted));
    run.model.loss = options.solver.loss;
    run.model.classes = options.solver.classes;
    Scores scores;
    scores.add(solver->labels(), solver->margins());
    WEIR_ASSIGN(run.train, measure_loss(*exchange, options.solver.loss, scores, solver->loss_sums(),
                                        run.read.example_count));
    add_model_warnings(options.solver, !newest, run);
    const bool stopped = run.result.end == LrEnd::kStopped;
    if (!options.test.empty() && !stopped)
        WEIR_TRY(test(client, *exchange, options, solver->keys(), run));
    WEIR_ASSIGN(run.traffic, count_traffic(client));
    WEIR_TRY(client.barrier());
    return run;
}

}  // namespace

Result<LrRun> run_lr(Client& client, const LrRunOptions& options, LrRounds& rounds) {
    std::vector<LrProgress> passes;
    Result<LrRun> run = run_round(client, options, rounds, passes);
    if (run.code() == Errc::kReassigned) {
        rounds.history.insert(rounds.history.end(), passes.begin(), passes.end());
        rounds.restarts.push_back(rounds.history.empty() ? 0 : rounds.history.back().seconds);
        return run;
    }
    if (!run) return run;
    if (run->is_first) rounds.events.collect(client, true);
    run->events = rounds.events.placed();
    run->restarts = rounds.restarts;
    if (rounds.history.empty()) return run;
    LrResult& result = run->result;
    std::vector<LrProgress> history = rounds.history;
    for (const LrProgress& pass : result.history)
        history.push_back(behind(rounds.history, pass));
    result.history = std::move(history);
    result.pass_count = result.history.back().pass;
    result.seconds += rounds.history.back().seconds;
    return run;
}

}  // namespace weir::apps
