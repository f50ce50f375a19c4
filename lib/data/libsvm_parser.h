// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// parse_libsvm: parses the LIBSVM text format, one example per line:
/// `label feature:value feature:value ... # comment`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/data/class_labels.h"
#include "lib/data/labels.h"

namespace weir::data {

/// Parsed examples, one after the other. The object is cleared and reused for each piece of text.
struct ParsedLines {
    std::vector<int8_t> labels;  ///< -1 or +1, per example; 0 where a line has none, or any_label
    /// With any_label, per example: what stands there, of classes the place; NaN where a line has no label.
    std::vector<float> numbers;
    std::vector<uint32_t> lengths;  ///< non-zeros per example
    std::vector<uint64_t> keys;     ///< feature numbers, in the order of the line
    std::vector<float> values;  ///< parallel to keys; finite, not 0 (zeros in the text are dropped)
    bool all_ones = true;       ///< every value is 1
    uint64_t line_count = 0;    ///< lines seen: examples, empty ones, comments and bad ones
    LabelCensus label_census;   ///< of the examples, and of lines whose label stands for no class

    void clear();
};

/// The variants of the format that a line may have.
struct LibsvmFormat {
    LabelMap labels;
    bool label_optional = false;  ///< a line may begin with its first feature
    OptionNames names = {};       ///< for messages
    bool any_label = false;       ///< any finite number is one, and `labels` says nothing
    ClassLabels classes = {};     ///< with any_label: only these are labels; empty: any number
};

/// Where and why a line is not in the format.
struct BadLine {
    uint64_t line_index = 0;         ///< in the parsed text, from 0
    uint64_t next_offset = 0;        ///< of the first byte after the line
    uint64_t column = 0;             ///< in bytes, from 1
    std::string_view expected = {};  ///< static text, "a feature number" for example
    std::string found = {};          ///< the text found there, shortened and made printable
    bool unknown_label = false;      ///< the label is a number that stands for no class
};

/// Parses lines from the start of `text` and appends them to `lines`, until the end or a bad
/// line. Returns the bad line, of which nothing is appended, or nullopt at the end. To go on
/// after a bad line, call again with the text from next_offset on.
///
/// Labels: those of format.labels, of format.classes, or any_label. Features: 0 to 2^64 - 1, in any order, none twice in a line.
/// Values: decimal numbers within float32; no NaN, no infinity. Line ends: LF or CR LF.
[[nodiscard]] std::optional<BadLine> parse_libsvm(std::string_view text, ParsedLines& lines,
                                                  const LibsvmFormat& format = {});

}  // namespace weir::data
