// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/info/info_report.h"

#include <algorithm>

#include <fmt/core.h>

#include "lib/base/bytes.h"
#include "lib/job/devices.h"
#include "lib/store/memory_with_caches.h"
#include "transport/net/own_address.h"
#include "transport/pool/jemalloc_arena.h"
#include "transport/shm/shm.h"

namespace weir::tools {
namespace {

std::string compiler() {
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "g++ " __VERSION__;
#endif
}

std::vector<Feature> features() {
    transport::FirstFit no_memory;
    const bool jemalloc = transport::JemallocArena::make(no_memory).has_value();
    return {{"verbs", "RDMA devices (libibverbs)", WEIR_HAVE_VERBS != 0},
            {"rdmacm", "connecting through rdma_cm", WEIR_HAVE_RDMACM != 0},
            {"pmix", "mpirun and srun --mpi=pmix (PMIx)", WEIR_HAVE_PMIX != 0},
            {"jemalloc", "jemalloc inside of memory pools", jemalloc},
            {"hwloc", "placement by hwloc", WEIR_HAVE_HWLOC != 0},
            {"raft", "a replicated log (libraft)", WEIR_HAVE_RAFT != 0}};
}

TransportInfo shm_transport() {
    TransportInfo info{.name = "shm", .usable = true, .reason = {}, .use = "ranks of one host"};
    const auto device = transport::shm::make_device({});
    if (!device) {
        info.usable = false;
        info.reason = device.error().message();
    }
    return info;
}

/// Adds the transport verbs and the RDMA devices of this host.
void add_verbs(InfoReport& report) {
    TransportInfo info{.name = "verbs", .usable = false, .reason = {}, .use = "any ranks, by RDMA"};
#if WEIR_HAVE_VERBS
    Result<std::vector<transport::verbs::DeviceInfo>> devices = transport::verbs::list_devices();
    if (devices) {
        report.devices = *std::move(devices);
    } else {
        info.reason = devices.error().message();
    }
    for (const transport::verbs::DeviceInfo& device : report.devices) {
        if (device.why_not.empty()) {
            info.usable = true;
        } else {
            info.reason += (info.reason.empty() ? "" : "; ") + device.why_not;
        }
    }
    if (info.usable) info.reason.clear();
#else
    info.reason = "this build has no verbs: install libibverbs-dev and build again";
#endif
    report.transports.push_back(std::move(info));
}

/// tcp needs a network interface that leads to other hosts only for ranks of other hosts.
TransportInfo tcp_transport(const Config& config) {
    TransportInfo info{.name = "tcp", .usable = true, .reason = {}, .use = {}};
    transport::SocketAddress own = transport::own_address();
    if (const std::string_view wanted = config.text("WEIR_BIND"); !wanted.empty()) {
        const auto found = transport::find_own_address(wanted);
        info.usable = found.has_value();
        if (!found) info.reason = fmt::format("WEIR_BIND is {}", found.error().text());
        if (found) own = *found;
    }
    info.use =
        own.is_loopback()
            ? std::string("ranks of this host only: no network interface is up")
            : fmt::format("any ranks without a common RDMA network; this host is {}", own.host());
    return info;
}

std::string pool_pages(const Topology& topology, uint64_t size_bytes, std::string_view policy) {
    if (policy == "never") return "normal pages";
    for (auto pages = topology.huge_pages.rbegin(); pages != topology.huge_pages.rend(); ++pages) {
        const uint64_t needed = (size_bytes + pages->page_bytes - 1) / pages->page_bytes;
        if (needed * pages->page_bytes - size_bytes <= size_bytes / 8 &&
            pages->free_count >= needed) {
            return fmt::format("huge pages of {}", bytes_text(pages->page_bytes));
        }
    }
    const bool transparent = topology.transparent_huge_pages_shared == "always" ||
                             topology.transparent_huge_pages_shared == "within_size" ||
                             topology.transparent_huge_pages_shared == "advise";
    return transparent ? "normal pages, transparently huge" : "normal pages";
}

PoolFit pool_fit(const Config& config, const InfoReport& report) {
    PoolFit fit;
    const Result<uint64_t> mib = config.number("WEIR_POOL_MIB");
    if (!mib) {
        fit.advice = mib.error().message();
        return fit;
    }
    fit.size_bytes = *mib * kMiB;
    fit.lists_bytes_max = fit.size_bytes / kCacheShare;
    fit.fits_memory = fit.size_bytes <= report.available_memory_bytes;
    fit.fits_locked_memory = fit.size_bytes <= report.locked.room_bytes();
    fit.pages = pool_pages(report.topology, fit.size_bytes, config.text("WEIR_HUGE_PAGES"));
    if (!fit.fits_memory) {
        fit.advice = fmt::format("set WEIR_POOL_MIB below {} or stop other programs",
                                 std::max<uint64_t>(1, report.available_memory_bytes / kMiB));
    } else if (!fit.fits_locked_memory) {
        fit.advice = locked_memory_advice(report.locked, fit.size_bytes);
    }
    return fit;
}

std::vector<RegisteredInfo> would_register([[maybe_unused]] const Config& config,
                                           const PoolFit& pool) {
    if (pool.size_bytes == 0) return {};  // WEIR_POOL_MIB is invalid
    std::vector<RegisteredInfo> list{
        {"store pool", "a server process, on every NUMA node that it pins shards to",
         pool.size_bytes},
        {"worker pool", "a process with workers", pool.size_bytes}};
#if WEIR_HAVE_VERBS
    if (const auto options = endpoint_options(config)) {
        list.push_back({"message buffers", "each end of a connection over verbs",
                        transport::verbs::message_buffer_bytes(*options)});
    }
#endif
    return list;
}

}  // namespace

std::string version_text() {
    std::string with;
    std::string without;
    for (const Feature& feature : features()) {
        std::string& list = feature.built ? with : without;
        list.append(list.empty() ? "" : ", ").append(feature.key);
    }
    return fmt::format("weir {}\nbuilt with {}{}{}\nby {}, build type {}", WEIR_VERSION,
                       with.empty() ? "no optional part" : with,
                       without.empty() ? "" : "; without ", without, compiler(), WEIR_BUILD_TYPE);
}

std::vector<VariableInfo> describe_variables(const Config& config) {
    std::vector<VariableInfo> variables;
    for (const ConfigVariable& variable : kConfigVariables) {
        VariableInfo info{.variable = variable,
                          .value = std::string(config.text(variable)),
                          .is_default = config.source(variable) == ConfigSource::kDefault,
                          .error = {}};
        Status good;
        if (variable.kind == VariableKind::kNumber) {
            if (const auto number = config.optional_number(variable); !number) {
                good = number.error();
            }
        } else if (variable.kind == VariableKind::kChoice) {
            if (const auto choice = config.optional_choice(variable); !choice)
                good = choice.error();
        }
        if (!good) info.error = good.error().message();
        variables.push_back(std::move(info));
    }
    return variables;
}

InfoReport make_info_report(const Config& config) {
    InfoReport report;
    report.version = WEIR_VERSION;
    report.compiler = compiler();
    report.features = features();
    report.transports.push_back(shm_transport());
    add_verbs(report);
    report.transports.push_back(tcp_transport(config));
    report.topology = read_topology();
    report.locked = locked_memory_limit();
    report.files = open_files_limit();
    report.machine_memory_bytes = machine_memory_bytes();
    report.available_memory_bytes = available_memory_bytes();
    report.dev_shm_free_bytes = dev_shm_free_bytes();
    report.pool = pool_fit(config, report);
    report.registered = would_register(config, report.pool);
    report.variables = describe_variables(config);
    report.unknown_variables = config.unknown();
    return report;
}

}  // namespace weir::tools
