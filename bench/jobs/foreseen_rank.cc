// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/foreseen_rank.h"

#include <charconv>
#include <string_view>

#include <fmt/core.h>

namespace weir::bench {
namespace {

Result<std::optional<uint32_t>> rank_in(const Config& config, std::string_view name) {
    const std::string_view text = config.environment().get(name);
    if (text.empty()) return std::optional<uint32_t>();
    uint32_t rank = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    if (error == std::errc{} && stop == text.data() + text.size())
        return std::optional<uint32_t>(rank);
    return Error(
        Errc::kInvalidArgument,
        fmt::format("{}={}: a launcher sets this to a whole number; unset it", name, text));
}

}  // namespace

// Looks at the variables in the order in which detect_bootstrap() looks for launchers.
Result<std::optional<uint32_t>> foreseen_rank(const Config& config) {
    const auto is_flag = [&](VariableRef name) {
        return config.source(name) == ConfigSource::kFlag;
    };
    if (!is_flag("WEIR_RENDEZVOUS") && !is_flag("WEIR_RANK") && !is_flag("WEIR_SIZE")) {
        WEIR_ASSIGN(const std::optional<uint32_t> pmix, rank_in(config, "PMIX_RANK"));
        if (pmix && !config.environment().get("PMIX_NAMESPACE").empty()) return pmix;
        if (!config.environment().get("PMI_FD").empty()) return rank_in(config, "PMI_RANK");
    }
    WEIR_ASSIGN(const std::optional<uint64_t> ours, config.optional_number("WEIR_RANK"));
    if (ours) return std::optional<uint32_t>(static_cast<uint32_t>(*ours));
    for (const std::string_view name : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
        WEIR_ASSIGN(const std::optional<uint32_t> rank, rank_in(config, name));
        if (rank) return rank;
    }
    return std::optional<uint32_t>();
}

}  // namespace weir::bench
