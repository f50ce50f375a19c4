// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/model.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <memory>
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

/// One line of a model file.
struct ModelLine {
    bool any = false;  ///< false for an empty line or a comment
    uint64_t key = 0;
    double weight = 0;
    std::string wrong;  ///< what is wrong with the line; empty if nothing is
};

ModelLine parse_line(std::string_view line) {
    ModelLine parsed;
    line = line.substr(0, line.find('#'));
    const std::string_view key = next_word(line);
    if (key.empty()) return parsed;
    parsed.any = true;
    const std::string_view weight = next_word(line);
    const std::string_view rest = next_word(line);
    const auto key_end = std::from_chars(key.data(), key.data() + key.size(), parsed.key);
    const auto weight_end =
        std::from_chars(weight.data(), weight.data() + weight.size(), parsed.weight);
    if (key_end.ec != std::errc{} || key_end.ptr != key.data() + key.size()) {
        parsed.wrong = fmt::format("expected a feature number from 0 to 2^64 - 1, found '{}'", key);
    } else if (weight.empty()) {
        parsed.wrong = "expected a weight after the feature number, found the end of the line";
    } else if (weight_end.ec != std::errc{} || weight_end.ptr != weight.data() + weight.size() ||
               !std::isfinite(parsed.weight)) {
        parsed.wrong = fmt::format("expected a finite number as weight, found '{}'", weight);
    } else if (!rest.empty()) {
        parsed.wrong =
            fmt::format("expected the end of the line after the weight, found '{}'", rest);
    }
    return parsed;
}

}  // namespace

Status write_model(const std::string& path, const Model& model) {
    std::string text;
    for (uint64_t i = 0; i < model.keys.size(); ++i)
        fmt::format_to(std::back_inserter(text), "{} {}\n", model.keys[i], model.weights[i]);
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
    std::vector<std::pair<uint64_t, double>> entries;
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
        const ModelLine parsed = parse_line(line);
        if (!parsed.wrong.empty()) {
            status = Error(Errc::kParse,
                           fmt::format("model {}:{}: {}", name, line_number, parsed.wrong));
        } else if (parsed.any) {
            entries.emplace_back(parsed.key, parsed.weight);
        }
    }
    if (status && std::ferror(file.get()) != 0) {
        status = Error(Errc::kIo, fmt::format("model {}: cannot be read", name), errno);
    }
    std::free(text);  // NOLINT: getline() allocated it
    WEIR_TRY(status);
    std::sort(entries.begin(), entries.end());
    Model model;
    for (const auto& [key, weight] : entries) {
        if (!model.keys.empty() && model.keys.back() == key) {
            return Error(
                Errc::kParse,
                fmt::format("model {}: feature {} has two lines; delete one of them", name, key));
        }
        model.keys.push_back(key);
        model.weights.push_back(weight);
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
    scores.clear();
    uint64_t met_count = 0;
    uint64_t i = 0;
    for (const uint32_t length : lines.lengths) {
        double score = 0;
        for (const uint64_t end = i + length; i < end; ++i) {
            const uint32_t index = dictionary_.find(lines.keys[i]);
            if (index == data::FeatureDictionary::kNotFound) continue;
            score += model_->weights[index] * static_cast<double>(lines.values[i]);
            ++met_count;
        }
        scores.push_back(score);
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
        evaluation.scores.add(lines.labels, scores);
        indices.resize(lines.keys.size());
        return features.insert(lines.keys, indices);
    };
    WEIR_ASSIGN(evaluation.read, data::stream_libsvm(paths, options, apply));
    evaluation.keys = features.take_keys();
    return evaluation;
}

}  // namespace weir::apps
