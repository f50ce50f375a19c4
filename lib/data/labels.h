// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Labels: the classes that label values stand for, and the label values that a set of files has.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace weir::data {

/// The class that each label value stands for. By default -1 and 0 stand for -1, and +1 for +1.
class LabelMap {
public:
    LabelMap() = default;

    /// From text like "1:-1,2:+1": each value with its class. Both classes must occur.
    /// Errors: kInvalidArgument
    [[nodiscard]] static Result<LabelMap> parse(std::string_view text);

    /// -1 or +1; 0 for a value that stands for neither.
    [[nodiscard]] int8_t class_of(float value) const noexcept;

    /// The first value that stands for the class `which` (-1 or +1), as label_text() writes it;
    /// for the default map "-1" or "+1".
    [[nodiscard]] std::string value_of(int8_t which) const;

    [[nodiscard]] bool is_default() const noexcept { return entries_.empty(); }

    /// The map as text that parse() takes; empty for the default.
    [[nodiscard]] std::string text() const;

private:
    struct Entry {
        float value;
        int8_t which;
    };

    std::vector<Entry> entries_;  // empty: the default
};

/// The different label values of some lines, and how many lines have each.
class LabelCensus {
public:
    struct Entry {
        float value = 0;
        uint64_t line_count = 0;
    };

    /// The most values that are counted one by one. Further values are counted together.
    static constexpr uint32_t kValueCountMax = 16;

    void add(float value, uint64_t line_count = 1) noexcept;
    void add(const LabelCensus& other) noexcept;

    [[nodiscard]] std::span<const Entry> entries() const noexcept {
        return {entries_.data(), entry_count_};
    }

    [[nodiscard]] uint64_t line_count() const noexcept;

    /// As numbers that another worker can read back.
    [[nodiscard]] std::vector<uint64_t> encode() const;
    /// Adds the results of one or more encode(), laid end to end.
    void add_encoded(std::span<const uint64_t> words) noexcept;

private:
    std::array<Entry, kValueCountMax> entries_ = {};
    uint32_t entry_count_ = 0;
    uint64_t other_count_ = 0;  // lines with further values
};

/// What messages call the options of reading. A program puts the names here that its users know,
/// its flags for example.
struct OptionNames {
    std::string_view labels = "labels";      ///< the LabelMap
    std::string_view skip_bad = "skip_bad";  ///< how many bad lines may be left out
    std::string_view classes = "classes";    ///< the ClassLabels
};

/// A label value as a person writes it: "2", "0.5".
[[nodiscard]] std::string label_text(float value);

/// Fails if label values that stand for no class look like a class of their own, and not like a
/// few bad lines:
/// - one class or both do not occur beside them, or
/// - `labels` is the default, and at least ten lines and one line in twenty have such a value. (A
///   map that the user gave may leave out values.)
///
/// where:  the files, for messages
/// names:  what messages call the label map
/// Errors: kParse, with the values and a map that would say what they mean
[[nodiscard]] Status check_labels(const LabelCensus& census, const LabelMap& labels,
                                  const std::string& where, const OptionNames& names = {});

/// The files for messages: "a.svm", "a.svm and 3 more files".
[[nodiscard]] std::string files_text(std::span<const std::string> paths);

/// A warning for the user about unusual labels that check_labels() accepts: all examples of one
/// class, or both -1 and 0 with the default map. Empty if there is nothing to warn of.
[[nodiscard]] std::string label_warning(const LabelCensus& census, const LabelMap& labels,
                                        const std::string& where);

}  // namespace weir::data
