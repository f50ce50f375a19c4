// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClassLabels: the labels that the classes of a softmax have in files.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace weir::data {

/// The labels of more than two classes, in the order of their places.
class ClassLabels {
public:
    static constexpr uint32_t kCountMax = 4096;

    ClassLabels() = default;

    /// From numbers and ranges of whole numbers, like "1-7" or "0,1,5". There are two classes at least.
    /// Errors: kInvalidArgument
    [[nodiscard]] static Result<ClassLabels> parse(std::string_view text);

    /// The place of the class with this label.
    [[nodiscard]] std::optional<uint32_t> place_of(float label) const noexcept;

    [[nodiscard]] float label_of(uint32_t place) const noexcept { return labels_[place]; }

    /// 0: of no classes.
    [[nodiscard]] uint32_t count() const noexcept { return static_cast<uint32_t>(labels_.size()); }

    /// As short as it gets; parse() takes it.
    [[nodiscard]] std::string text() const;

private:
    struct Place {
        float label;
        uint32_t place;
    };

    std::vector<float> labels_;
    std::vector<Place> places_;  ///< by rising labels
};

}  // namespace weir::data
