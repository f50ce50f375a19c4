// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/online/online_run.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "lib/apps/online/online_learner.h"
#include "lib/base/fnv.h"
#include "lib/base/log.h"
#include "lib/data/example_stream.h"
#include "lib/train/work_pieces.h"

namespace weir::apps {
namespace {

using std::chrono::steady_clock;

/// How often a worker says how far it is, hears how far all are, and asks whether it is to go on.
constexpr std::chrono::milliseconds kToldEvery(250);

/// Pieces of the stream, whatever the number of workers: a job that goes on from a checkpoint may have others. A power
/// of two; more workers have nothing to do.
constexpr uint32_t kPieces = 256;

/// History is thinned out when it has so many points.
constexpr size_t kHistoryMax = 2048;

struct SolverKind {
    OnlineSolver solver;
    std::string_view name;
    double rate;  ///< unless OnlineOptions::alpha says another one
};

constexpr std::array kSolvers{SolverKind{OnlineSolver::kFtrl, "ftrl", 0.1},
                              SolverKind{OnlineSolver::kAdagrad, "adagrad", 0.1},
                              SolverKind{OnlineSolver::kAdam, "adam", 0.001}};

const SolverKind& kind_of(OnlineSolver solver) {
    return kSolvers[static_cast<size_t>(solver)];
}

Rule rule_of(const OnlineOptions& options) {
    switch (options.solver) {
        case OnlineSolver::kAdagrad: return adagrad(options.rate());
        case OnlineSolver::kAdam: return adam(options.rate());
        case OnlineSolver::kFtrl: break;
    }
    return ftrl(options.rate(), options.beta, options.l1, options.l2);
}

/// Of the files, by name: where they lie may differ from host to host.
uint64_t fingerprint_of_files(const OnlineOptions& options) {
    std::string names;
    for (const std::string& path : options.stream)
        names += std::filesystem::path(path).filename().string() + '\n';
    return fnv1a(names);
}

/// What all workers must have alike, but for what their tables are asked for.
std::string text_of(const OnlineOptions& options) {
    return fmt::format("{} {} {} {} {}", options.classes.text(), options.labels.text(),
                       options.batch, options.skip_bad, fingerprint_of_files(options));
}

/// One worker's part of one round.
class OnlineTrainer {
public:
    OnlineTrainer(Client& client, const OnlineOptions& options, OnlineRounds& rounds,
                  WorkShare share)
        : client_(client),
          options_(options),
          rounds_(rounds),
          share_(std::move(share)),
          places_(share_.pieces.size()) {}

    Status open();
    Status learn();
    Result<OnlineRun> results();

private:
    [[nodiscard]] std::string table_name(std::string_view what) const {
        return fmt::format("{}.{}.{}", name_of(options_.solver), name_of(options_.loss), what);
    }

    [[nodiscard]] Status check_same();
    [[nodiscard]] Status check_resumed();
    [[nodiscard]] Status make_tables();
    [[nodiscard]] Status open_stream();
    [[nodiscard]] Status learn_from(data::ParsedLines& lines);

    [[nodiscard]] bool is_due() const { return steady_clock::now() - told_ >= kToldEvery; }

    [[nodiscard]] uint32_t lines_of_batch() const;
    [[nodiscard]] Status tell();
    [[nodiscard]] Status look_around();
    [[nodiscard]] Status hear();
    void note_progress();
    [[nodiscard]] Status read_model(OnlineRun& run);

    Client& client_;
    const OnlineOptions& options_;
    OnlineRounds& rounds_;
    WorkShare share_;
    std::vector<uint64_t>
        places_;  ///< of each of this worker's pieces: what is behind it is not learned

    std::optional<Table<float>> weights_;
    std::optional<Table<uint64_t>> place_table_;
    std::optional<Table<double>> sum_table_;
    std::optional<Table<uint64_t>> stop_table_;
    std::optional<OnlineLearner> learner_;
    std::optional<data::ExampleStream> stream_;

    ProgressiveSums all_;     ///< of all workers, as the servers had them last
    ProgressiveSums before_;  ///< as they were at the point of the history before
    uint64_t bad_lines_ = 0;  ///< of this round's stream, those that were told
    bool is_resumed_ = false;
    uint64_t stop_reason_ = 0;
    steady_clock::time_point told_{};
    Status interrupted_;  ///< why reading a stream was ended
};

/// As every collective, it waits for the slowest. Options of the rule are compared by those that make the tables.
Status OnlineTrainer::check_same() {
    const auto print = static_cast<double>(fnv1a(text_of(options_)) >> 11);
    std::array<double, 2> greatest{print, -print};
    WEIR_TRY(client_.allreduce(greatest, Reduce::kMax));
    if (greatest[0] == -greatest[1]) return {};
    return Error(
        Errc::kInvalidArgument,
        "the ranks have different options (classes, labels, lines of a batch, bad lines that "
        "may be left out, or files); start all with the same");
}

/// A job that goes on from what another training has left would begin from nothing, and nobody would know.
Status OnlineTrainer::check_resumed() {
    WEIR_ASSIGN(const ResumedFrom from, client_.resumed_from());
    is_resumed_ = from.checkpoint != 0;
    if (!is_resumed_) return {};
    const std::string wanted = table_name("weights");
    std::string names;
    for (const ResumedFrom::SavedTable& table : from.tables) {
        if (table.name == wanted) return {};
        names += (names.empty() ? "" : ", ") + table.name;
    }
    return Error(
        Errc::kInvalidArgument,
        fmt::format("checkpoint {} has no table {}, but {}: go on with the solver and the loss "
                    "that wrote it, or begin anew in another folder",
                    from.checkpoint, wanted, names.empty() ? "none" : names));
}

Status OnlineTrainer::make_tables() {
    TableOptions weights;
    weights.width = options_.function().width();
    weights.rule = rule_of(options_);
    weights.filters = options_.filters;
    Result<Table<float>> made = client_.create_table<float>(table_name("weights"), weights);
    if (made.code() == Errc::kAlreadyExists || made.code() == Errc::kTypeMismatch) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("{}: all ranks, and a job that goes on from a checkpoint, need the same "
                        "options of the solver",
                        made.error().text()));
    }
    WEIR_ASSIGN(weights_, std::move(made));
    TableOptions places{.layout = Layout::kDense, .key_count = kPieces, .rule = weir::max()};
    const std::string of_files = fmt::format("places-{:016x}", fingerprint_of_files(options_));
    WEIR_ASSIGN(place_table_, client_.create_table<uint64_t>(table_name(of_files), places));
    TableOptions sums{
        .layout = Layout::kDense, .key_count = ProgressiveSums::kCount, .rule = add()};
    WEIR_ASSIGN(sum_table_, client_.create_table<double>(table_name("sums"), sums));
    TableOptions stop{.layout = Layout::kDense, .key_count = 1, .rule = weir::max()};
    stop.in_checkpoints = false;
    WEIR_ASSIGN(stop_table_, client_.create_table<uint64_t>(table_name("stop"), stop));
    return {};
}

/// What of a stream was learned cannot be read again: it goes on with what comes.
Status OnlineTrainer::open_stream() {
    if (data::ExampleStream::is_stream(options_.stream) && share_.worker_count > 1) {
        return Error(Errc::kInvalidArgument,
                     "standard input cannot be read by several workers; start the job with one, or "
                     "write the examples to files");
    }
    const std::vector<uint64_t> keys(share_.pieces.begin(), share_.pieces.end());
    WEIR_TRY(place_table_->pull(keys, places_).wait());
    data::ExampleStream::Options reading{
        .pieces = share_.pieces, .piece_count = kPieces, .places = places_};
    reading.skip_bad = options_.skip_bad - std::min(options_.skip_bad, rounds_.bad_lines);
    reading.format.labels = options_.labels;
    reading.format.names = options_.names;
    reading.format.any_label = options_.loss != Loss::kLogistic;
    reading.format.classes = options_.classes;
    reading.stop = [this] {  // nothing comes: what came is learned, and told
        interrupted_ = is_due() ? look_around() : Status();
        return !interrupted_ || stop_reason_ != 0;
    };
    WEIR_ASSIGN(stream_, data::ExampleStream::open(options_.stream, std::move(reading)));
    return {};
}

Status OnlineTrainer::open() {
    WEIR_TRY(check_same());
    WEIR_TRY(check_resumed());
    WEIR_TRY(make_tables());
    learner_.emplace(client_, *weights_, options_.function(),
                     [this](uint32_t piece, uint64_t place) {
                         places_[piece] = std::max(places_[piece], place);
                     });
    WEIR_TRY(open_stream());
    WEIR_TRY(hear());
    before_ = all_;
    if (!rounds_.begun) rounds_.resumed = all_.progress(options_.loss, before_);
    if (is_resumed_ && share_.index == 0) WEIR_TRY(client_.forget_unread_tables());
    told_ = steady_clock::now();
    if (!rounds_.begun) rounds_.begun = told_;
    return client_.barrier();  // nobody counts what others have just learned as older
}

/// What is under way while a batch is predicted was not learned yet. That must be little of what was learned, or the
/// first steps of several workers add up to too long ones.
uint32_t OnlineTrainer::lines_of_batch() const {
    constexpr uint64_t kFirstLines = 8;
    constexpr uint64_t kLearnedPerLine = 2048;
    const uint64_t learned =
        rounds_.resumed.examples + stream_->report().example_count * share_.worker_count;
    const uint64_t lines = std::max(kFirstLines, learned / kLearnedPerLine);
    return static_cast<uint32_t>(std::min<uint64_t>(lines, options_.batch));
}

/// Of what was learned the others know now: whoever takes over goes on behind it. Places come when the gradients
/// have taken effect, and a checkpoint that has the places has these.
Status OnlineTrainer::tell() {
    WEIR_TRY(learner_->finish());
    const uint64_t bad_lines = stream_->report().bad_line_count;
    learner_->sums().add_bad_lines(bad_lines - bad_lines_);
    rounds_.bad_lines += bad_lines - bad_lines_;
    bad_lines_ = bad_lines;
    if (rounds_.first_bad_line.empty() && !stream_->report().first_bad_line.empty()) {
        rounds_.first_bad_line = stream_->report().first_bad_line;
        log(LogLevel::kWarning, "a bad line is left out: {}", rounds_.first_bad_line);
    }
    const std::vector<uint64_t> keys(share_.pieces.begin(), share_.pieces.end());
    const KeyRange sums{0, ProgressiveSums::kCount};
    WEIR_TRY(client_
                 .push({place_table_->pushing(keys, places_),
                        sum_table_->pushing(sums, std::as_const(learner_->sums()).values())})
                 .wait());
    learner_->sums().clear();
    told_ = steady_clock::now();
    return {};
}

/// What all workers have told.
Status OnlineTrainer::hear() {
    const KeyRange sums{0, ProgressiveSums::kCount};
    const KeyRange reason{0, 1};
    const std::span<uint64_t> stop(&stop_reason_, 1);
    return client_
        .pull({sum_table_->pulling(sums, all_.values()), stop_table_->pulling(reason, stop)})
        .wait();
}

void OnlineTrainer::note_progress() {
    OnlineProgress now = all_.progress(options_.loss, before_);
    now.seconds = std::chrono::duration<double>(told_ - *rounds_.begun).count();
    const bool is_new = rounds_.history.empty() || rounds_.history.back().examples != now.examples;
    if (now.examples == 0 || !is_new) return;
    const OnlineProgress last = rounds_.history.empty() ? rounds_.resumed : rounds_.history.back();
    if (now.seconds > last.seconds)
        now.features_per_s =
            static_cast<double>(now.features - last.features) / (now.seconds - last.seconds);
    before_ = all_;
    if (rounds_.history.size() >= kHistoryMax) {
        size_t kept = 0;
        for (size_t i = 1; i < rounds_.history.size(); i += 2)
            rounds_.history[kept++] = rounds_.history[i];
        rounds_.history.resize(kept);
    }
    rounds_.history.push_back(now);
    rounds_.events.note_pass(now.seconds);
    if (share_.index != 0) return;
    rounds_.events.collect(client_, false);
    if (options_.progress) options_.progress(now);
}

/// Tells, hears, and finds out whether this round goes on. Pushes and pulls of other workers are not waited for, so
/// nothing else says that one is gone.
Status OnlineTrainer::look_around() {
    WEIR_TRY(tell());
    if (options_.stop) {
        WEIR_ASSIGN(const int reason, options_.stop());
        const std::array<uint64_t, 1> told{static_cast<uint64_t>(reason)};
        if (reason != 0) WEIR_TRY(stop_table_->push(KeyRange{0, 1}, told).wait());
    }
    WEIR_TRY(hear());
    note_progress();
    if (options_.takes_work) {  // refused once the round is over
        WEIR_ASSIGN([[maybe_unused]] const Table<uint64_t> same,
                    client_.open_table<uint64_t>(table_name("stop")));
    }
    if (client_.worker_count() >= share_.worker_count) return {};
    WEIR_TRY(client_.barrier());
    return Error(Errc::kPeerLost, "a worker has left before the stream was at its end");
}

Status OnlineTrainer::learn_from(data::ParsedLines& lines) {
    WEIR_TRY(learner_->take(lines, stream_->piece(), stream_->place()));
    return is_due() ? look_around() : Status();
}

Status OnlineTrainer::learn() {
    data::ParsedLines lines;
    while (stop_reason_ == 0) {
        const Result<bool> found = stream_->next(lines, lines_of_batch());
        if (!found && found.code() == Errc::kCancelled) {
            WEIR_TRY(interrupted_);
            continue;
        }
        if (!found) {
            WEIR_TRY(tell());  // what came before it is good
            return found.error();
        }
        if (!*found) break;
        WEIR_TRY(learn_from(lines));
    }
    WEIR_TRY(look_around());
    WEIR_TRY(client_.barrier());
    WEIR_TRY(hear());
    note_progress();
    return {};
}

Status OnlineTrainer::read_model(OnlineRun& run) {
    struct Row {
        uint64_t key;
        size_t at;
    };

    const size_t width = options_.function().width();
    std::vector<Row> rows;
    std::vector<float> values;
    Scan<float> scan = weights_->scan();
    while (scan.next()) {
        run.feature_count += scan.keys().size();
        for (size_t i = 0; i < scan.keys().size(); ++i) {
            const std::span<const float> row = scan.values().subspan(i * width, width);
            if (std::ranges::all_of(row, [](float weight) { return weight == 0; })) continue;
            rows.push_back({scan.keys()[i], values.size()});
            values.insert(values.end(), row.begin(), row.end());
        }
    }
    WEIR_TRY(scan.status());
    std::ranges::sort(rows, {}, &Row::key);
    run.model.loss = options_.loss;
    run.model.classes = options_.classes;
    for (const Row& row : rows) {
        run.model.keys.push_back(row.key);
        for (size_t k = 0; k < width; ++k)
            run.model.weights.push_back(static_cast<double>(values[row.at + k]));
    }
    return {};
}

Result<OnlineRun> OnlineTrainer::results() {
    OnlineRun run;
    run.is_first = share_.index == 0;
    run.total = all_.progress(options_.loss, before_);
    run.total.seconds = std::chrono::duration<double>(steady_clock::now() - *rounds_.begun).count();
    run.stop_reason = static_cast<int>(stop_reason_);
    run.resumed = rounds_.resumed;
    run.first_bad_line = rounds_.first_bad_line;
    if (run.is_first) WEIR_TRY(read_model(run));
    if (run.total.examples > 0 && run.is_first && run.model.keys.empty()) {
        run.warnings.push_back(
            "the model has no weights: all are 0; give a smaller l1, or more examples");
    }
    if (run.total.examples == 0) run.warnings.push_back("no example was read: the model is empty");
    if (run.total.bad_lines > run.total.examples) {
        run.warnings.push_back(fmt::format("more than half of the lines were left out: {} of {}",
                                           run.total.bad_lines,
                                           run.total.bad_lines + run.total.examples));
    }
    WEIR_ASSIGN(run.traffic, count_traffic(client_));
    if (run.is_first) rounds_.events.collect(client_, true);
    run.events = rounds_.events.placed();
    run.history = rounds_.history;
    run.restarts = rounds_.restarts;
    WEIR_TRY(client_.barrier());
    return run;
}

Result<OnlineRun> run_round(Client& client, const OnlineOptions& options, OnlineRounds& rounds) {
    Result<WorkShare> taken = options.takes_work ? client.take_work(kPieces, options.description)
                                                 : share_of_all(client, kPieces);
    rounds.are_over = taken.code() == Errc::kNotFound;
    WEIR_ASSIGN(WorkShare share, std::move(taken));
    rounds.round = share.round;
    OnlineTrainer trainer(client, options, rounds, std::move(share));
    WEIR_TRY(trainer.open());
    WEIR_TRY(trainer.learn());
    return trainer.results();
}

}  // namespace

std::string_view name_of(OnlineSolver solver) noexcept {
    return kind_of(solver).name;
}

std::optional<OnlineSolver> solver_named(std::string_view name) noexcept {
    const auto found = std::ranges::find(kSolvers, name, &SolverKind::name);
    return found == kSolvers.end() ? std::nullopt : std::optional(found->solver);
}

double OnlineOptions::rate() const noexcept {
    return alpha != 0 ? alpha : kind_of(solver).rate;
}

Result<OnlineRun> run_online(Client& client, const OnlineOptions& options, OnlineRounds& rounds) {
    Result<OnlineRun> run = run_round(client, options, rounds);
    if (run.code() == Errc::kReassigned)
        rounds.restarts.push_back(rounds.history.empty() ? 0 : rounds.history.back().seconds);
    return run;
}

}  // namespace weir::apps
