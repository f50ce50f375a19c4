// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerSettings: what the ranks of a job must have been started with alike. Several managers do the same only
/// if they begin the same; so the ranks compare it before there is a manager.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/manager/manager.h"

namespace weir {

class ManagerSettings {
public:
    /// Of a rank without a manager, or with the only one.
    explicit ManagerSettings(std::span<const uint32_t> manager_ranks);
    /// Of a rank that has one of several.
    ManagerSettings(std::span<const uint32_t> manager_ranks, const ManagerOptions& options);

    /// As people call it.
    void add(std::string_view name, std::string value);

    /// One that does not have to be equal: with one manager, rank 0's counts.
    void add_of_rank_0(std::string_view name, std::string value) {
        add(kOfRank0 + std::string(name), std::move(value));
    }

    [[nodiscard]] Status publish(Bootstrap& bootstrap) const;

    [[nodiscard]] std::string encode() const;
    [[nodiscard]] static std::optional<ManagerSettings> decode(std::string_view text);

    /// Compares those of all ranks, by rank, as far as two have the same setting.
    /// Errors: kInvalidArgument, naming the settings that differ, their values and the ranks
    [[nodiscard]] static Status compare(std::span<const ManagerSettings> of_ranks);

    /// How other ranks differ from rank 0 in what does not have to be equal; empty: they do not.
    [[nodiscard]] static std::string ignored(std::span<const ManagerSettings> of_ranks);

    /// The same for what the ranks have published. Rank 0 warns of what is ignored.
    /// Errors: as well kProtocol; those of the bootstrap
    [[nodiscard]] static Status compare(Bootstrap& bootstrap);

private:
    static constexpr char kOfRank0 = '~';  ///< before the names of those settings

    ManagerSettings() = default;
    /// "--replicas: rank 0 has 1, rank 2 has 0": of those settings, or of all others.
    [[nodiscard]] static std::string differences(std::span<const ManagerSettings> of_ranks,
                                                 bool are_of_rank_0);
    [[nodiscard]] const std::string* find(std::string_view name) const;

    std::vector<std::pair<std::string, std::string>> values_;  ///< by name
};

}  // namespace weir
