// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Labels: which label values mean which class, and which values a set of files has.

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

    /// From text like "1:-1,2:+1": each value with its class. Both classes must be there.
    /// Errors: kInvalidArgument
    [[nodiscard]] static Result<LabelMap> parse(std::string_view text);

    /// -1 or +1; 0 for a value that stands for neither.
    [[nodiscard]] int8_t class_of(float value) const noexcept;

    /// The first value that stands for the class -1 or +1, as a person would write it.
    [[nodiscard]] std::string value_of(int8_t which) const;

    [[nodiscard]] bool is_default() const noexcept { return entries_.empty(); }

    /// What parse() takes; empty for the default.
    [[nodiscard]] std::string text() const;

private:
    struct Entry {
        float value;
        int8_t which;
    };

    std::vector<Entry> entries_;  // none: the default
};

/// The different label values of some lines, and how many lines have each.
class LabelCensus {
public:
    struct Entry {
        float value = 0;
        uint64_t line_count = 0;
    };

    /// Different values that are told apart; those that come later are counted together.
    static constexpr uint32_t kValueCountMax = 16;

    void add(float value, uint64_t line_count = 1) noexcept;
    void add(const LabelCensus& other) noexcept;

    [[nodiscard]] std::span<const Entry> entries() const noexcept {
        return {entries_.data(), entry_count_};
    }

    [[nodiscard]] uint64_t line_count() const noexcept;

    /// As numbers that another worker can read back.
    [[nodiscard]] std::vector<uint64_t> encode() const;
    /// Adds what one or more encode() gave, end to end.
    void add_encoded(std::span<const uint64_t> words) noexcept;

private:
    std::array<Entry, kValueCountMax> entries_ = {};
    uint32_t entry_count_ = 0;
    uint64_t other_count_ = 0;  // lines with further values
};

/// A label value as a person writes it: "2", "0.5".
[[nodiscard]] std::string label_text(float value);

/// Whether the labels of these lines can be told apart by `labels`. They cannot where a value that
/// stands for no class is a class of its own, and not a bad line here and there: where one class or
/// both are missing beside it, or at least ten lines and one in twenty have it. (A map that was given
/// may leave out classes: only the first of the two is an error then.)
/// Errors: kParse, with the values and the flag that says what they mean. `where`: the files
[[nodiscard]] Status check_labels(const LabelCensus& census, const LabelMap& labels,
                                  const std::string& where);

/// "a.svm", "a.svm and 3 more files": for messages.
[[nodiscard]] std::string files_text(std::span<const std::string> paths);

/// What is odd about labels that check_labels() lets pass, for people; empty: nothing.
[[nodiscard]] std::string label_warning(const LabelCensus& census, const LabelMap& labels,
                                        const std::string& where);

}  // namespace weir::data
