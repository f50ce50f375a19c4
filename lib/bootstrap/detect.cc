// SPDX-License-Identifier: Apache-2.0
/// \file
/// Chooses the bootstrap by the flags and the environment that the launcher left.

#include <atomic>
#include <charconv>
#include <optional>

#include <dlfcn.h>
#include <fmt/core.h>

#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/pmi1.h"
#include "lib/bootstrap/pmix.h"
#include "lib/bootstrap/rendezvous/rendezvous.h"
#include "lib/bootstrap/secret.h"

namespace weir {
namespace {

/// Variables by which a launcher tells a process its rank and the number of ranks.
struct RankVariables {
    std::string_view launcher;
    std::string_view rank;
    std::string_view size;
};

// Slurm's size of the step, not of the job: a batch script has SLURM_PROCID=0 and SLURM_NTASKS
// too, but is not a rank.
constexpr RankVariables kRankVariables[] = {
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE"},
};

Result<std::optional<uint32_t>> launcher_number(const Environment& environment,
                                                std::string_view name) {
    const std::string_view text = environment.get(name);
    if (text.empty()) return std::optional<uint32_t>();
    uint32_t number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || stop != text.data() + text.size() || number > 1'000'000) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("{}={}: a launcher sets this to a whole number; unset it", name, text));
    }
    return std::optional<uint32_t>(number);
}

/// This process's rank and size, as far as they are known.
struct Place {
    std::optional<uint32_t> rank;
    std::optional<uint32_t> size;
    std::string_view launcher;  // empty: WEIR_RANK and WEIR_SIZE or their flags
};

Result<Place> find_place(const Config& config) {
    Place place;
    WEIR_ASSIGN(const auto rank, config.optional_number("WEIR_RANK"));
    WEIR_ASSIGN(const auto size, config.optional_number("WEIR_SIZE"));
    if (rank) place.rank = static_cast<uint32_t>(*rank);
    if (size) place.size = static_cast<uint32_t>(*size);
    for (const RankVariables& variables : kRankVariables) {
        if (place.rank && place.size) break;
        WEIR_ASSIGN(const auto r, launcher_number(config.environment(), variables.rank));
        WEIR_ASSIGN(const auto s, launcher_number(config.environment(), variables.size));
        if (!r || !s) continue;
        if (!place.rank) place.rank = r;
        if (!place.size) place.size = s;
        place.launcher = variables.launcher;
    }
    return place;
}

/// Without the secret.
Result<boot::RendezvousOptions> rendezvous_options(const Config& config, const Place& place) {
    if (!place.rank || !place.size) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("{}: rank 0 to N-1 of each process and the size N are needed too: give "
                        "--rank R --size N (or WEIR_RANK and WEIR_SIZE)",
                        config.place("WEIR_RENDEZVOUS")));
    }
    boot::RendezvousOptions options{.rank = *place.rank, .size = *place.size};
    Result<HostPort> at = HostPort::parse(config.text("WEIR_RENDEZVOUS"));
    if (!at) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("{}: {}", config.place("WEIR_RENDEZVOUS"), at.error().text()));
    }
    options.at = *std::move(at);
    return options;
}

Result<std::unique_ptr<Bootstrap>> open_rendezvous(const Config& config, const Clock& clock) {
    WEIR_ASSIGN(const Place place, find_place(config));
    WEIR_ASSIGN(boot::RendezvousOptions options, rendezvous_options(config, place));
    if (const std::string path(config.text("WEIR_SECRET_FILE")); !path.empty()) {
        WEIR_ASSIGN(options.secret, read_secret_file(path));
    }
    return boot::make_rendezvous(std::move(options), clock);
}

/// Whether MPI has begun in this process. Every MPI can be asked at any time.
bool has_mpi_begun() noexcept {
    using Question = int (*)(int*);
    const auto is_initialized =
        reinterpret_cast<Question>(::dlsym(RTLD_DEFAULT, "MPI_Initialized"));
    int flag = 0;
    return is_initialized != nullptr && is_initialized(&flag) == 0 && flag != 0;
}

/// Errors: kUnavailable: another one in this process has the launcher's connection, or had it
Status take_pmi1() {
    static std::atomic<bool> was_taken = false;  // of the process, as the connection is
    const char* const user = has_mpi_begun()            ? "MPI"
                             : was_taken.exchange(true) ? "an earlier job"
                                                        : nullptr;
    if (user == nullptr) return {};
    return Error(
        Errc::kUnavailable,
        fmt::format("PMI-1: {} in this process uses the launcher's connection (PMI_FD), or "
                    "has used it; {}",
                    user, boot::kPmi1HasOneUser));
}

Result<boot::Pmi1Options> pmi1_options(const Environment& environment) {
    WEIR_ASSIGN(const auto fd, launcher_number(environment, "PMI_FD"));
    WEIR_ASSIGN(const auto rank, launcher_number(environment, "PMI_RANK"));
    WEIR_ASSIGN(const auto size, launcher_number(environment, "PMI_SIZE"));
    if (!rank || !size || *rank >= *size) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("PMI_FD is set, but PMI_RANK='{}' and PMI_SIZE='{}' do not name a rank: "
                        "unset PMI_FD, or start under mpiexec or srun",
                        environment.get("PMI_RANK"), environment.get("PMI_SIZE")));
    }
    return boot::Pmi1Options{.fd = static_cast<int>(*fd), .rank = *rank, .size = *size};
}

Result<std::unique_ptr<Bootstrap>> open_pmi1(const Environment& environment, const Clock& clock,
                                             uint64_t deadline_ns) {
    WEIR_ASSIGN(const boot::Pmi1Options options, pmi1_options(environment));
    WEIR_TRY(take_pmi1());
    return boot::Pmi1Bootstrap::open(options, clock, deadline_ns);
}

/// The error for a rank or size in flags, without --rendezvous, where the launcher gives both.
Error numbered_twice(const Config& config, const Place& place) {
    const bool rank = config.source("WEIR_RANK") == ConfigSource::kFlag;
    return {
        Errc::kInvalidArgument,
        fmt::format("{}: {} gives this process its rank and the size of the job; leave --rank "
                    "and --size out, or add --rendezvous HOST:PORT, the same on all ranks",
                    rank ? config.place("WEIR_RANK") : config.place("WEIR_SIZE"), place.launcher)};
}

/// The error for several ranks without a way to find each other.
Error no_way(const Config& config, const Place& place) {
    if (place.launcher.empty()) {
        return {Errc::kInvalidArgument,
                fmt::format("{}={}: ranks started by hand also need --rendezvous HOST:PORT (or "
                            "WEIR_RENDEZVOUS), the same on all of them",
                            config.place("WEIR_SIZE"), *place.size)};
    }
    return {Errc::kUnavailable,
            fmt::format(
                "started as rank {} of {} by {}, which does not help ranks to find each other: use "
                "srun --mpi=pmix or --mpi=pmi2, mpirun with PMIx, or --rendezvous HOST:PORT",
                place.rank.value_or(0), *place.size, place.launcher)};
}

}  // namespace

Result<Meeting> plan_meeting(const Config& config) {
    using Way = Meeting::Way;
    const Environment& environment = config.environment();
    const auto is_flag = [&](VariableRef variable) {
        return config.source(variable) == ConfigSource::kFlag;
    };
    const bool by_flags =
        is_flag("WEIR_RENDEZVOUS") || is_flag("WEIR_RANK") || is_flag("WEIR_SIZE");
    const bool under_pmix =
        !environment.get("PMIX_NAMESPACE").empty() && !environment.get("PMIX_RANK").empty();
    const bool under_pmi1 = !environment.get("PMI_FD").empty();
    const bool meets = !config.text("WEIR_RENDEZVOUS").empty();
    if (!by_flags) {
        if (under_pmix && boot::have_pmix()) return Meeting{.way = Way::kPmix};
        if (under_pmi1) {
            WEIR_ASSIGN(const boot::Pmi1Options options, pmi1_options(environment));
            return Meeting{Way::kPmi1, options.rank, options.size};
        }
        if (under_pmix && !meets) return Meeting{.way = Way::kPmix};  // says what is missing
    }
    WEIR_ASSIGN(const Place place, find_place(config));
    if (meets) WEIR_TRY(rendezvous_options(config, place));
    if (place.rank && !place.size) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("{}={}: the size of the job is missing: give --size N and --rendezvous "
                        "HOST:PORT too, or no rank for a job of one process",
                        config.place("WEIR_RANK"), *place.rank));
    }
    if (place.rank && place.rank >= place.size) {
        return Error(Errc::kInvalidArgument, fmt::format("{}={}: ranks of a job of {} are 0 to {}",
                                                         config.place("WEIR_RANK"), *place.rank,
                                                         *place.size, *place.size - 1));
    }
    if (meets) return Meeting{Way::kRendezvous, place.rank, place.size};
    if (place.size.value_or(1) > 1) {
        const bool launched = !place.launcher.empty() && (under_pmix || under_pmi1);
        return by_flags && launched ? numbered_twice(config, place) : no_way(config, place);
    }
    return Meeting{Way::kAlone, place.rank, place.size};
}

Result<std::unique_ptr<Bootstrap>> detect_bootstrap(const Config& config, const Clock& clock) {
    WEIR_ASSIGN(const uint64_t deadline_ns, join_deadline_ns(config, clock));
    WEIR_ASSIGN(const Meeting meeting, plan_meeting(config));
    switch (meeting.way) {
        case Meeting::Way::kRendezvous: return open_rendezvous(config, clock);
        case Meeting::Way::kPmix: return boot::open_pmix(clock, deadline_ns);
        case Meeting::Way::kPmi1: return open_pmi1(config.environment(), clock, deadline_ns);
        case Meeting::Way::kAlone: break;
    }
    return make_bootstrap_alone();
}

}  // namespace weir
