// SPDX-License-Identifier: Apache-2.0
#include "lib/job/manager_settings.h"

#include <cstddef>

#include <fmt/core.h>

#include "lib/base/fnv.h"
#include "lib/base/log.h"
#include "weir_features.h"

namespace weir {
namespace {

constexpr std::string_view kSettingsKey = "weir-settings";
constexpr size_t kNamedMax = 4;  // settings that a message names

std::string text_of(uint64_t ns, uint64_t unit_ns, std::string_view unit) {
    return fmt::format("{} {}", static_cast<double>(ns) / static_cast<double>(unit_ns), unit);
}

std::string or_none(std::string text) {
    return text.empty() ? "none" : std::move(text);
}

/// Short, however many there are.
std::string text_of(std::span<const uint32_t> ranks) {
    std::string text;
    for (const uint32_t rank : ranks)
        text += fmt::format("{}{}", text.empty() ? "" : ",", rank);
    if (text.size() <= 40) return or_none(text);
    return fmt::format("{} ({}..., {:08x})", ranks.size(), text.substr(0, 20), fnv1a(text) >> 32);
}

/// Also of two checkpoints with the same number in folders of the same name.
std::string text_of_resumed(const ManagerOptions& options) {
    if (!options.resume) return "nothing";
    return fmt::format("{}, number {} ({:08x})", options.checkpoints.resumed_folder,
                       options.checkpoints.resumed_from.value_or(0),
                       checkpoint::checksum_of(*options.resume) >> 32);
}

}  // namespace

ManagerSettings::ManagerSettings(std::span<const uint32_t> manager_ranks) {
    add("`managers`", std::to_string(manager_ranks.size()));
    if (manager_ranks.size() > 1)
        add("the ranks with managers (`servers`)", text_of(manager_ranks));
}

ManagerSettings::ManagerSettings(std::span<const uint32_t> manager_ranks,
                                 const ManagerOptions& options)
    : ManagerSettings(manager_ranks) {
    const CheckpointOptions& to = options.checkpoints;
    add("the version of Weir", WEIR_VERSION);
    add("`servers`", std::to_string(options.server_count));
    add("`shards_per_server`", std::to_string(options.shards_per_server));
    add("the number of workers (`workers`, `colocate`)", std::to_string(options.worker_count));
    add("the ranks with workers (`colocate`)", text_of(options.worker_ranks));
    add("`replicas`", std::to_string(options.replicas));
    add("`on_worker_loss`", std::string(to_string(options.on_worker_loss)));
    add("`work_lease`", text_of(options.work_lease_ns, kSecond, "s"));
    add("WEIR_LEASE_MS", text_of(options.lease_ns, kMillisecond, "ms"));
    add("WEIR_JOIN_TIMEOUT_S", text_of(options.join_timeout_ns, kSecond, "s"));
    add("`checkpoint_folder`", or_none(to.folder));
    add("`checkpoint_every`",
        to.every_ns == 0 && to.every_iterations == 0
            ? "none"
            : fmt::format("{}, {} iterations", text_of(to.every_ns, kSecond, "s"),
                          to.every_iterations));
    add("the checkpoint to go on from (`resume`)", text_of_resumed(options));
}

void ManagerSettings::add(std::string_view name, std::string value) {
    values_.emplace_back(name, std::move(value));
}

const std::string* ManagerSettings::find(std::string_view name) const {
    for (const auto& [own, value] : values_)
        if (own == name) return &value;
    return nullptr;
}

/// Names and values, each with a 0 behind it, which is in no name of a folder.
std::string ManagerSettings::encode() const {
    std::string text;
    for (const auto& [name, value] : values_)
        text.append(name).append(1, '\0').append(value).append(1, '\0');
    return text;
}

std::optional<ManagerSettings> ManagerSettings::decode(std::string_view text) {
    ManagerSettings settings;
    while (!text.empty()) {
        const size_t end = text.find('\0');
        const size_t second = end == text.npos ? end : text.find('\0', end + 1);
        if (end == 0 || second == text.npos) return std::nullopt;
        settings.add(text.substr(0, end), std::string(text.substr(end + 1, second - end - 1)));
        text.remove_prefix(second + 1);
    }
    if (settings.values_.empty()) return std::nullopt;
    return settings;
}

Status ManagerSettings::publish(Bootstrap& bootstrap) const {
    return bootstrap.put(kSettingsKey, encode());
}

std::string ManagerSettings::differences(std::span<const ManagerSettings> of_ranks,
                                         bool are_of_rank_0) {
    std::string text;
    size_t count = 0;
    for (const auto& [name, value] : of_ranks.front().values_) {
        if (name.starts_with(kOfRank0) != are_of_rank_0) continue;
        std::vector<size_t> others;
        for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
            const std::string* const its = of_ranks[rank].find(name);
            if (its != nullptr && *its != value) others.push_back(rank);
        }
        if (others.empty() || ++count > kNamedMax) continue;
        text += fmt::format("{}{}: rank 0 has {}, rank {} has {}", count == 1 ? "" : "; ",
                            std::string_view(name).substr(are_of_rank_0 ? 1 : 0), value, others[0],
                            *of_ranks[others[0]].find(name));
        if (others.size() > 1) text += fmt::format(" ({} ranks differ)", others.size());
    }
    if (count > kNamedMax) text += fmt::format("; and {} more", count - kNamedMax);
    return text;
}

std::string ManagerSettings::ignored(std::span<const ManagerSettings> of_ranks) {
    return differences(of_ranks, true);
}

Status ManagerSettings::compare(std::span<const ManagerSettings> of_ranks) {
    const std::string text = differences(of_ranks, false);
    if (text.empty()) return {};
    return Error(
        Errc::kInvalidArgument,
        fmt::format("the managers of this job would not do the same, so it does not start: "
                    "{}; start all ranks with the same options and variables",
                    text));
}

Status ManagerSettings::compare(Bootstrap& bootstrap) {
    std::vector<ManagerSettings> of_ranks;
    for (uint32_t rank = 0; rank < bootstrap.size(); ++rank) {
        const Result<std::string> text = bootstrap.get(rank, kSettingsKey);
        if (!text && text.code() != Errc::kNotFound) return text.error();
        std::optional<ManagerSettings> settings =
            text ? decode(*text) : std::optional<ManagerSettings>();
        if (!settings)
            return Error(Errc::kProtocol,
                         fmt::format("rank {} does not say with which settings it was started; use "
                                     "the same version of Weir on all ranks",
                                     rank));
        of_ranks.push_back(*std::move(settings));
    }
    WEIR_TRY(compare(of_ranks));
    const std::string text = bootstrap.rank() == 0 ? ignored(of_ranks) : std::string();
    if (!text.empty()) {
        log(LogLevel::kWarning,
            "ranks were started with other settings, and what rank 0 was started with counts: {}; "
            "start all ranks with the same options and variables",
            text);
    }
    return {};
}

}  // namespace weir
