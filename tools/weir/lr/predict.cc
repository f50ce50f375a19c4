// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/lr/predict.h"

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
    uint64_t positive_count = 0;     // predicted
    uint64_t weight_count = 0;       // of the model
    uint64_t known_value_count = 0;  // non-zeros whose feature has a weight
    std::optional<apps::Metrics> metrics;
    std::vector<std::string> warnings;
};

/// Writes a line for each score.
class Writer {
public:
    Writer(const PredictFlags& flags, data::OutputFile file)
        : as_(flags.as),
          negative_(flags.labels.value_of(-1)),
          positive_(flags.labels.value_of(1)),
          file_(std::move(file)) {}

    [[nodiscard]] Status write(std::span<const double> scores) {
        text_.clear();
        for (const double score : scores) {
            switch (as_) {
                case PredictAs::kProbability:
                    fmt::format_to(std::back_inserter(text_), "{:.10g}\n",
                                   linalg::logistic_alpha(-score));
                    break;
                case PredictAs::kLabel:
                    text_.append(score > 0 ? positive_ : negative_);
                    text_.push_back('\n');
                    break;
                case PredictAs::kScore:
                    fmt::format_to(std::back_inserter(text_), "{}\n", score);
                    break;
            }
        }
        return file_.write({text_.data(), text_.size()});
    }

    [[nodiscard]] Status finish() { return file_.finish(); }

private:
    PredictAs as_;
    std::string negative_;
    std::string positive_;
    data::OutputFile file_;
    fmt::memory_buffer text_;
};

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
    WEIR_ASSIGN(const apps::Scorer scorer, apps::Scorer::make(model));
    WEIR_ASSIGN(data::OutputFile file, data::OutputFile::create(flags.out));
    Writer writer(flags, std::move(file));
    Predictions all;
    all.weight_count = model.keys.size();
    data::StreamOptions options;
    options.skip_bad = flags.skip_bad;
    options.format = {flags.labels, true, kFlagNames};
    std::vector<double> scores;
    const auto apply = [&](const data::ParsedLines& lines) -> Status {
        all.known_value_count += scorer.score(lines, scores);
        for (const double score : scores)
            all.positive_count += score > 0 ? 1 : 0;
        all.scores.add(lines.labels, scores);
        return writer.write(scores);
    };
    WEIR_ASSIGN(all.read, data::stream_libsvm(flags.files, options, apply));
    WEIR_TRY(data::check_labels(all.read.labels, flags.labels, data::files_text(flags.files),
                                kFlagNames));
    WEIR_TRY(writer.finish());
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
                        {"skip_bad", flags.skip_bad},
                        {"examples", all.read.example_count},
                        {"labelled_examples", all.metrics ? all.metrics->example_count : 0},
                        {"predicted_positive", all.positive_count},
                        {"weights", all.weight_count},
                        {"values", all.read.nonzero_count},
                        {"values_with_weight", all.known_value_count},
                        {"bad_lines", all.read.bad_line_count},
                        {"read_bytes", all.read.text_bytes},
                        {"seconds", all.read.seconds},
                        {"warnings", all.warnings}};
    if (!flags.labels.is_default()) json["labels"] = flags.labels.text();
    add_metrics(json, "", all.metrics);
    return json;
}

/// Prints the summary, on stderr if standard output has the predictions or the JSON.
Status report(const PredictFlags& flags, const Predictions& all) {
    std::FILE* const to = is_stdout(flags.out) || is_stdout(flags.json) ? stderr : stdout;
    for (const std::string& warning : all.warnings)
        log(LogLevel::kWarning, "{}", warning);
    fmt::print(to, "examples        {}, {} predicted positive\n", all.read.example_count,
               all.positive_count);
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
