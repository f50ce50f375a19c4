// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>

#include "lib/apps/lr/lr_types.h"

namespace weir::apps {
namespace {

constexpr std::array<std::string_view, 3> kBatchNames{"prox", "delayed", "lbfgs"};

}  // namespace

std::string_view name_of(BatchKind kind) noexcept {
    return kBatchNames[static_cast<size_t>(kind)];
}

std::optional<BatchKind> batch_kind_named(std::string_view name) noexcept {
    const auto found = std::ranges::find(kBatchNames, name);
    if (found == kBatchNames.end()) return std::nullopt;
    return static_cast<BatchKind>(found - kBatchNames.begin());
}

}  // namespace weir::apps
