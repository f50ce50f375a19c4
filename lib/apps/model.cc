// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/model.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lib/data/input_file.h"
#include "lib/data/output_file.h"

namespace weir::apps {

namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string_view next_word(std::string_view& line) {
    const size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(end);
    return word;
}

/// The first word of a file that says what it is for.
constexpr std::string_view kHead = "weir-model";
constexpr uint32_t kVersion = 2;

template <class Number>
bool is_number(std::string_view word, Number& number) {
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
    return problem == std::errc{} && end == word.data() + word.size() && !word.empty();
}

/// What the words behind kHead say; else what is wrong.
std::string parse_head(std::string_view words, Model& model) {
    const std::string_view version = next_word(words);
    uint32_t number = 0;
    if (!is_number(version, number) || number != kVersion)
        return fmt::format(
            "its format is '{}', and this version of Weir reads {}: use the one that wrote it",
            version, kVersion);
    const std::string_view name = next_word(words);
    const std::optional<Loss> loss = loss_named(name);
    if (!loss) return fmt::format("expected logistic, softmax or squared, found '{}'", name);
    model.loss = *loss;
    if (*loss == Loss::kSoftmax) {
        Result<data::ClassLabels> classes = data::ClassLabels::parse(next_word(words));
        if (!classes) return classes.error().text();
        model.classes = *std::move(classes);
    }
    const std::string_view rest = next_word(words);
    return rest.empty() ? "" : fmt::format("expected the end of the line, found '{}'", rest);
}

/// Adds a line with a feature and its weights; else says what is wrong.
std::string parse_line(std::string_view line, Model& model) {
    const std::string_view word = next_word(line);
    uint64_t key = 0;
    if (!is_number(word, key))
        return fmt::format("expected a feature number from 0 to 2^64 - 1, found '{}'", word);
    model.keys.push_back(key);
    for (size_t k = 0; k < model.width(); ++k) {
        const std::string_view text = next_word(line);
        double weight = 0;
        if (text.empty() && k > 0)
            return fmt::format("expected {} weights, one for each class, found {}", model.width(),
                               k);
        if (text.empty())
            return "expected a weight after the feature number, found the end of the line";
        if (!is_number(text, weight) || !std::isfinite(weight))
            return fmt::format("expected a finite number as weight, found '{}'", text);
        model.weights.push_back(weight);
    }
    const std::string_view rest = next_word(line);
    return rest.empty()
               ? ""
               : fmt::format("expected the end of the line after the weight, found '{}'", rest);
}

/// Lines that are empty or comments say nothing.
std::string parse(std::string_view line, bool& is_first, Model& model) {
    line = line.substr(0, line.find('#'));
    std::string_view words = line;
    const std::string_view word = next_word(words);
    if (word.empty()) return "";
    if (std::exchange(is_first, false) && word == kHead) return parse_head(words, model);
    return parse_line(line, model);
}

/// Puts the features in rising order. Returns one that appears twice.
std::optional<uint64_t> sort(Model& model) {
    std::vector<size_t> order(model.keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return model.keys[i]; });
    Model sorted;
    for (const size_t i : order) {
        if (!sorted.keys.empty() && sorted.keys.back() == model.keys[i]) return model.keys[i];
        sorted.keys.push_back(model.keys[i]);
        const auto weights = model.weights.begin() + static_cast<std::ptrdiff_t>(i * model.width());
        sorted.weights.insert(sorted.weights.end(), weights,
                              weights + static_cast<std::ptrdiff_t>(model.width()));
    }
    model.keys = std::move(sorted.keys);
    model.weights = std::move(sorted.weights);
    return std::nullopt;
}

}  // namespace

Status write_model(const std::string& path, const Model& model) {
    std::string text;
    if (model.loss != Loss::kLogistic) {
        const std::string classes = model.classes.text();
        text = fmt::format("{} {} {}{}{}\n", kHead, kVersion, name_of(model.loss),
                           classes.empty() ? "" : " ", classes);
    }
    const std::span<const double> weights(model.weights);
    for (size_t i = 0; i < model.keys.size(); ++i) {
        fmt::format_to(std::back_inserter(text), "{}", model.keys[i]);
        for (const double weight : weights.subspan(i * model.width(), model.width()))
            fmt::format_to(std::back_inserter(text), " {}", weight);
        text += '\n';
    }
    return data::write_whole_file(path, text);
}

Result<Model> read_model(const std::string& path) {
    const bool standard_input = path == data::kStandardInput;
    const std::string name = data::input_name(path);
    const File file(std::fopen(standard_input ? "/dev/stdin" : path.c_str(), "re"), &std::fclose);
    if (file == nullptr) {
        const int reason = errno;
        return Error(reason == ENOENT ? Errc::kNotFound : Errc::kIo,
                     fmt::format("model {}: cannot be opened", name), reason);
    }
    Model model;
    bool is_first = true;
    char* text = nullptr;
    size_t capacity = 0;
    uint64_t line_number = 0;
    Status status;
    while (status) {
        errno = 0;
        const ssize_t length = ::getline(&text, &capacity, file.get());
        if (length < 0) break;
        ++line_number;
        std::string_view line(text, static_cast<size_t>(length));
        if (line.ends_with('\n')) line.remove_suffix(1);
        const std::string wrong = parse(line, is_first, model);
        if (!wrong.empty())
            status = Error(Errc::kParse, fmt::format("model {}:{}: {}", name, line_number, wrong));
    }
    if (status && std::ferror(file.get()) != 0) {
        status = Error(Errc::kIo, fmt::format("model {}: cannot be read", name), errno);
    }
    std::free(text);  // NOLINT: getline() allocated it
    WEIR_TRY(status);
    if (const std::optional<uint64_t> twice = sort(model)) {
        return Error(
            Errc::kParse,
            fmt::format("model {}: feature {} has two lines; delete one of them", name, *twice));
    }
    return model;
}

Result<Scorer> Scorer::make(const Model& model) {
    Scorer scorer(model);
    std::vector<uint32_t> indices(model.keys.size());
    WEIR_TRY(scorer.dictionary_.insert(model.keys, indices));
    return scorer;
}

uint64_t Scorer::score(const data::ParsedLines& lines, std::vector<double>& scores) const {
    const size_t width = model_->width();
    scores.assign(lines.lengths.size() * width, 0);
    uint64_t met_count = 0;
    size_t i = 0;
    double* to = scores.data();
    for (const uint32_t length : lines.lengths) {
        for (const size_t end = i + length; i < end; ++i) {
            const uint32_t index = dictionary_.find(lines.keys[i]);
            if (index == data::FeatureDictionary::kNotFound) continue;
            for (size_t k = 0; k < width; ++k)
                to[k] += model_->weights[index * width + k] * static_cast<double>(lines.values[i]);
            ++met_count;
        }
        to += width;
    }
    return met_count;
}

Result<Evaluation> evaluate(const Model& model, std::span<const std::string> paths,
                            const data::StreamOptions& options) {
    WEIR_ASSIGN(const Scorer scorer, Scorer::make(model));
    Evaluation evaluation;
    data::FeatureDictionary features;
    std::vector<uint32_t> indices;
    std::vector<double> scores;
    const auto apply = [&](const data::ParsedLines& lines) -> Status {
        (void)scorer.score(lines, scores);
        if (model.loss == Loss::kLogistic)
            evaluation.scores.add(lines.labels, scores);
        else
            model.function().take(lines.numbers, scores, evaluation.sums);
        indices.resize(lines.keys.size());
        return features.insert(lines.keys, indices);
    };
    WEIR_ASSIGN(evaluation.read, data::stream_libsvm(paths, options, apply));
    evaluation.keys = features.take_keys();
    return evaluation;
}

}  // namespace weir::apps
