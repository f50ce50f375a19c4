// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/predict.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lib/apps/model.h"
#include "lib/base/counted.h"
#include "lib/base/json_text.h"
#include "lib/base/log.h"
#include "lib/data/libsvm_stream.h"
#include "lib/data/output_file.h"
#include "lib/data/shortage.h"
#include "lib/linalg/logistic.h"
#include "tools/weir/command.h"
#include "tools/weir/lr/metrics_text.h"
#include "tools/weir/paths.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

/// The results over all examples.
struct Predictions {
    data::ReadReport read;
    apps::Scores scores;             // of the examples that have a label
    apps::LossSums sums;             // of these, of another loss than the logistic one
    uint64_t labelled_count = 0;     // of that loss
    uint64_t positive_count = 0;     // predicted, of the logistic loss
    uint64_t weight_count = 0;       // of the model
    uint64_t known_value_count = 0;  // non-zeros whose feature has a weight
    std::optional<apps::Metrics> metrics;
    apps::Loss loss = apps::Loss::kLogistic;
    std::vector<std::string> warnings;
};

/// Writes a line for each example.
class Writer {
public:
    Writer(const PredictFlags& flags, const apps::Model& model, data::OutputFile file)
        : as_(flags.as.value_or(model.loss == apps::Loss::kSquared ? PredictAs::kScore
                                                                   : PredictAs::kProbability)),
          model_(model),
          negative_(flags.labels.value_of(-1)),
          positive_(flags.labels.value_of(1)),
          file_(std::move(file)) {}

    [[nodiscard]] Status write(std::span<const double> scores) {
        text_.clear();
        for (; !scores.empty(); scores = scores.subspan(model_.width())) {
            add(scores.first(model_.width()));
            text_.push_back('\n');
        }
        return file_.write({text_.data(), text_.size()});
    }

    [[nodiscard]] Status finish() { return file_.finish(); }

private:
    void add(std::span<const double> scores) {
        switch (as_) {
            case PredictAs::kProbability: return add_probabilities(scores);
            case PredictAs::kLabel: return add_label(scores);
            case PredictAs::kScore: break;
        }
        for (size_t k = 0; k < scores.size(); ++k)
            fmt::format_to(std::back_inserter(text_), "{}{}", k == 0 ? "" : " ", scores[k]);
    }

    void add_probabilities(std::span<const double> scores) {
        if (model_.loss == apps::Loss::kLogistic) {
            fmt::format_to(std::back_inserter(text_), "{:.10g}",
                           linalg::logistic_alpha(-scores[0]));
            return;
        }
        const double greatest = *std::ranges::max_element(scores);
        double sum = 0;
        for (const double score : scores)
            sum += std::exp(score - greatest);
        for (size_t k = 0; k < scores.size(); ++k)
            fmt::format_to(std::back_inserter(text_), "{}{:.10g}", k == 0 ? "" : " ",
                           std::exp(scores[k] - greatest) / sum);
    }

    void add_label(std::span<const double> scores) {
        if (model_.loss == apps::Loss::kLogistic) {
            text_.append(scores[0] > 0 ? positive_ : negative_);
            return;
        }
        const auto place = std::ranges::max_element(scores) - scores.begin();
        text_.append(data::label_text(model_.classes.label_of(static_cast<uint32_t>(place))));
    }

    PredictAs as_;
    const apps::Model& model_;
    std::string negative_;
    std::string positive_;
    data::OutputFile file_;
    fmt::memory_buffer text_;
};

/// What the model has no answer to.
Status check(const PredictFlags& flags, const apps::Model& model) {
    if (model.loss == apps::Loss::kSquared && flags.as && *flags.as != PredictAs::kScore) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("--as {}: the model {} is of the squared loss, which has no classes; "
                        "take --as score",
                        *flags.as == PredictAs::kLabel ? "label" : "probability", flags.model));
    }
    if (model.loss != apps::Loss::kLogistic && !flags.labels.is_default()) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("--labels: the model {} is of the {} loss, whose labels need no map",
                        flags.model, apps::name_of(model.loss)));
    }
    return {};
}

/// Adds the losses of examples that have a label.
void add_losses(const apps::LossFunction& function, std::span<const float> targets,
                std::span<const double> scores, Predictions& all) {
    std::vector<float> known;
    std::vector<float> of_known;
    for (size_t i = 0; i < targets.size(); ++i) {
        if (std::isnan(targets[i])) continue;
        known.push_back(targets[i]);
        for (const double score : scores.subspan(i * function.width(), function.width()))
            of_known.push_back(static_cast<float>(score));
    }
    function.take(known, of_known, all.sums);
    all.labelled_count += known.size();
}

/// The same as for a logistic loss.
void add_loss_metrics(const apps::Model& model, Predictions& all) {
    if (all.labelled_count == 0) return;
    all.metrics = apps::measure(model.loss, all.sums, all.labelled_count);
}

void add_warnings(const PredictFlags& flags, Predictions& all) {
    const std::string where = data::files_text(flags.files);
    if (all.weight_count == 0) {
        all.warnings.push_back(fmt::format(
            "the model {} has no weights: it predicts the same for every example", flags.model));
    } else if (all.known_value_count == 0 && all.read.nonzero_count > 0) {
        all.warnings.push_back(
            fmt::format("{}: none of the features has a weight in the model {}: are they numbered "
                        "as in training?",
                        where, flags.model));
    }
    if (all.read.bad_line_count > all.read.example_count) {
        all.warnings.push_back(
            fmt::format("{}: more than half of the lines were left out, {} of {}; the first: {}",
                        where, all.read.bad_line_count,
                        all.read.bad_line_count + all.read.example_count, all.read.first_bad_line));
    }
}

Result<Predictions> predict(const PredictFlags& flags) {
    WEIR_ASSIGN(const apps::Model model, apps::read_model(flags.model));
    WEIR_TRY(check(flags, model));
    WEIR_ASSIGN(const apps::Scorer scorer, apps::Scorer::make(model));
    WEIR_ASSIGN(data::OutputFile file, data::OutputFile::create(flags.out));
    Writer writer(flags, model, std::move(file));
    const bool is_logistic = model.loss == apps::Loss::kLogistic;
    Predictions all;
    all.loss = model.loss;
    all.weight_count = model.keys.size();
    data::StreamOptions options;
    options.skip_bad = flags.skip_bad;
    options.format = {flags.labels, true, kFlagNames, !is_logistic, model.classes};
    std::vector<double> scores;
    const auto apply = [&](const data::ParsedLines& lines) -> Status {
        all.known_value_count += scorer.score(lines, scores);
        if (is_logistic) {
            for (const double score : scores)
                all.positive_count += score > 0 ? 1 : 0;
            all.scores.add(lines.labels, scores);
        } else {
            add_losses(model.function(), lines.numbers, scores, all);
        }
        return writer.write(scores);
    };
    WEIR_ASSIGN(all.read, data::stream_libsvm(flags.files, options, apply));
    if (is_logistic) {
        WEIR_TRY(data::check_labels(all.read.labels, flags.labels, data::files_text(flags.files),
                                    kFlagNames));
    }
    WEIR_TRY(writer.finish());
    add_loss_metrics(model, all);
    if (all.scores.positive.size() + all.scores.negative.size() > 0)
        all.metrics = apps::measure(all.scores);
    add_warnings(flags, all);
    return all;
}

nlohmann::json to_json(const PredictFlags& flags, const Predictions& all) {
    nlohmann::json json{{"version", WEIR_VERSION},
                        {"model", flags.model},
                        {"files", flags.files},
                        {"out", flags.out},
                        {"labels", nullptr},
                        {"loss", apps::name_of(all.loss)},
                        {"skip_bad", flags.skip_bad},
                        {"examples", all.read.example_count},
                        {"labelled_examples", all.metrics ? all.metrics->example_count : 0},
                        {"predicted_positive", nullptr},
                        {"weights", all.weight_count},
                        {"values", all.read.nonzero_count},
                        {"values_with_weight", all.known_value_count},
                        {"bad_lines", all.read.bad_line_count},
                        {"read_bytes", all.read.text_bytes},
                        {"seconds", all.read.seconds},
                        {"warnings", all.warnings}};
    if (!flags.labels.is_default()) json["labels"] = flags.labels.text();
    if (all.loss == apps::Loss::kLogistic) json["predicted_positive"] = all.positive_count;
    add_metrics(json, "", all.metrics);
    return json;
}

/// Prints the summary, on stderr if standard output has the predictions or the JSON.
Status report(const PredictFlags& flags, const Predictions& all) {
    std::FILE* const to = is_stdout(flags.out) || is_stdout(flags.json) ? stderr : stdout;
    for (const std::string& warning : all.warnings)
        log(LogLevel::kWarning, "{}", warning);
    fmt::print(to, "examples        {}{}\n", all.read.example_count,
               all.loss == apps::Loss::kLogistic
                   ? fmt::format(", {} predicted positive", all.positive_count)
                   : "");
    if (all.metrics) fmt::print(to, "with labels     {}\n", metrics_text(*all.metrics));
    if (all.read.bad_line_count > 0)
        fmt::print(to, "left out        {}; the first: {}\n",
                   counted(all.read.bad_line_count, "bad line"), all.read.first_bad_line);
    (void)std::fflush(to);
    if (flags.json.empty()) return {};
    return data::write_whole_file(flags.json, json_text(to_json(flags, all)));
}

Status run(const PredictFlags& flags) {
    std::vector<NamedPath> inputs{{"--model", flags.model}};
    for (const std::string& path : flags.files)
        inputs.push_back({"FILE", path});
    const std::vector<NamedPath> outputs{{"--out", flags.out}, {"--json", flags.json}};
    WEIR_TRY(check_paths(inputs, outputs));
    WEIR_TRY(check_outputs(outputs));
    WEIR_ASSIGN(const Predictions all, predict(flags));
    return report(flags, all);
}

}  // namespace

int run_predict(const PredictFlags& flags) {
    const Status status = data::or_shortage([&] { return run(flags); });
    return status ? kExitOk : failure(status.error());
}

}  // namespace weir::tools
