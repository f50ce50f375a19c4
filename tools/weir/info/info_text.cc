// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "lib/base/machine/sys_file.h"
#include "tools/weir/info/info_report.h"

namespace weir::tools {
namespace {

/// Collects sections of lines "  label  value" with aligned values.
class Sections {
public:
    void section(std::string_view title) {
        flush();
        if (!text_.empty()) text_ += '\n';
        fmt::format_to(std::back_inserter(text_), "{}\n", title);
    }

    void line(std::string label, std::string value) {
        lines_.emplace_back(std::move(label), std::move(value));
    }

    std::string finish() {
        flush();
        return std::move(text_);
    }

private:
    void flush() {
        size_t width = 0;
        for (const auto& [label, value] : lines_)
            width = std::max(width, label.size());
        for (const auto& [label, value] : lines_) {
            std::string padded = fmt::format("  {:<{}}  {}", label, width, value);
            padded.erase(padded.find_last_not_of(' ') + 1);
            text_ += padded + "\n";
        }
        lines_.clear();
    }

    std::string text_;
    std::vector<std::pair<std::string, std::string>> lines_;
};

std::string limit_text(uint64_t bytes) {
    return bytes == kUnlimited ? "unlimited" : bytes_text(bytes);
}

std::string count_text(uint64_t count) {
    return count == kUnlimited ? "unlimited" : fmt::format("{}", count);
}

std::string yes_no(bool yes) {
    return yes ? "yes" : "no";
}

void add_build(Sections& out, const InfoReport& report) {
    out.section(fmt::format("Weir {} (built by {})", report.version, report.compiler));
    for (const Feature& feature : report.features)
        out.line(std::string(feature.name), yes_no(feature.built));
}

void add_transports(Sections& out, const InfoReport& report) {
    out.section("Transports");
    for (const TransportInfo& transport : report.transports) {
        out.line(transport.name, transport.usable
                                     ? fmt::format("usable ({})", transport.use)
                                     : fmt::format("not usable: {}", transport.reason));
    }
}

void add_devices(Sections& out, [[maybe_unused]] const InfoReport& report) {
    out.section("RDMA devices");
#if WEIR_HAVE_VERBS
    for (const transport::verbs::DeviceInfo& device : report.devices) {
        out.line(device.name,
                 device.why_not.empty() ? "usable" : fmt::format("not usable: {}", device.why_not));
        for (const transport::verbs::PortInfo& port : device.ports) {
            out.line(fmt::format("  port {}", port.number),
                     fmt::format("{}, {}, MTU {}, operations up to {}", port.state, port.link_layer,
                                 bytes_text(port.mtu_bytes), bytes_text(port.operation_bytes_max)));
            for (const transport::verbs::GidInfo& gid : port.gids) {
                out.line(fmt::format("    GID {}", gid.index),
                         fmt::format("{}  {}  {}", gid.gid, gid.type, gid.interface));
            }
            for (size_t index = 0; index < port.partition_keys.size(); ++index) {
                if (port.partition_keys[index] == 0) continue;
                out.line(fmt::format("    partition key {}", index),
                         fmt::format("{:#06x}", port.partition_keys[index]));
            }
        }
        out.line("  queue pairs",
                 fmt::format("{}, {} requests each, {} reads in flight", device.queue_pairs_max,
                             device.queue_pair_requests_max, device.reads_in_flight_max));
        out.line("  shared receive queues",
                 fmt::format("{}, {} requests each", device.shared_receive_queues_max,
                             device.shared_receive_requests_max));
        out.line("  completion queues",
                 fmt::format("{} entries each", device.completion_queue_entries_max));
        out.line("  regions", device.region_bytes_max == kUnlimited
                                  ? fmt::format("{}, of any size", device.regions_max)
                                  : fmt::format("{}, up to {} each", device.regions_max,
                                                bytes_text(device.region_bytes_max)));
    }
    if (!report.devices.empty()) return;
#endif
    out.line("none", "");
}

void add_machine(Sections& out, const InfoReport& report) {
    const Topology& topology = report.topology;
    out.section(fmt::format("Machine, by {}", topology.source));
    out.line("sockets", fmt::format("{}", topology.socket_count));
    out.line("cores",
             fmt::format("{}, with {} hardware threads", topology.core_count, topology.cpu_count));
    out.line("this process may use",
             fmt::format("{} (of {} cores)", cpu_list_text(topology.allowed_cpus),
                         topology.allowed_cores.size()));
    out.line("memory", bytes_text(report.machine_memory_bytes));
    for (const NumaNode& node : topology.nodes) {
        out.line(fmt::format("NUMA node {}", node.index),
                 fmt::format("{}, CPUs {}", bytes_text(node.memory_bytes),
                             node.cpus.empty() ? "none" : cpu_list_text(node.cpus)));
    }
    for (const Cache& cache : topology.caches) {
        const std::string kind = cache.kind == 'u' ? "" : std::string(1, cache.kind);
        out.line(fmt::format("cache L{}{}", cache.level, kind),
                 fmt::format("{} x {}", cache.count, bytes_text(cache.size_bytes)));
    }
}

void add_huge_pages(Sections& out, const Topology& topology) {
    out.section("Huge pages");
    for (const HugePages& pages : topology.huge_pages) {
        out.line(bytes_text(pages.page_bytes),
                 fmt::format("{} free of {}", pages.free_count, pages.total_count));
    }
    const auto known = [](const std::string& word) {
        return word.empty() ? std::string("unknown") : word;
    };
    out.line("transparent", known(topology.transparent_huge_pages));
    out.line("transparent, shared memory", known(topology.transparent_huge_pages_shared));
}

void add_limits(Sections& out, const InfoReport& report) {
    out.section("Limits");
    const LockedMemoryLimit& locked = report.locked;
    out.line(
        "locked memory",
        fmt::format("{} (hard {}){}", limit_text(locked.soft_bytes), limit_text(locked.hard_bytes),
                    locked.may_lock_all ? ", but this process may lock all (CAP_IPC_LOCK)" : ""));
    out.line("memory", fmt::format("{} available", limit_text(report.available_memory_bytes)));
    out.line("/dev/shm", fmt::format("{} free", bytes_text(report.dev_shm_free_bytes)));
    out.line("open files", fmt::format("{} (hard {})", count_text(report.files.soft_count),
                                       count_text(report.files.hard_count)));
    const PoolFit& pool = report.pool;
    std::string fit;
    if (pool.size_bytes == 0) {
        fit = pool.advice;
    } else if (!pool.fits_memory) {
        fit = fmt::format("{}: more than the available memory; {}", bytes_text(pool.size_bytes),
                          pool.advice);
    } else if (!pool.fits_locked_memory) {
        fit = fmt::format(
            "{}: fits for shm; over verbs the limit of locked memory makes the pool smaller: {}",
            bytes_text(pool.size_bytes), pool.advice);
    } else {
        fit = fmt::format("{} of {}: fits", bytes_text(pool.size_bytes), pool.pages);
    }
    out.line("a memory pool", fit);
    if (pool.lists_bytes_max != 0) {
        out.line("of it, remembered lists",
                 fmt::format("at most {}, less when other data need the memory",
                             bytes_text(pool.lists_bytes_max)));
    }
    std::string registered;
    for (const RegisteredInfo& info : report.registered) {
        registered += fmt::format("{}{} {} by {}", registered.empty() ? "" : "; ",
                                  bytes_text(info.bytes), info.what, info.by);
    }
    if (!registered.empty()) out.line("a job registers", registered);
}

void add_variables(Sections& out, const InfoReport& report) {
    out.section("Variables");
    for (const VariableInfo& info : report.variables) {
        const ConfigVariable& variable = info.variable;
        const std::string unit = variable.unit.empty() ? "" : fmt::format(" {}", variable.unit);
        std::string value = info.value.empty() ? "unset" : info.value;
        if (!info.value.empty() && info.error.empty()) value += unit;
        if (info.is_default) {
            if (!info.value.empty()) value += " (default)";
        } else {
            value += variable.default_value.empty()
                         ? " (set)"
                         : fmt::format(" (set; default {}{})", variable.default_value, unit);
        }
        if (!info.error.empty()) value += "  <- " + info.error;
        out.line(std::string(variable.name), value);
        const std::string allowed =
            variable.kind == VariableKind::kText ? "" : "; " + allowed_values(variable);
        out.line("", fmt::format("{}{}", variable.meaning, allowed));
    }
    for (const UnknownVariable& unknown : report.unknown_variables)
        out.line(unknown.name, "unknown: " + unknown.message());
}

}  // namespace

std::string info_text(const InfoReport& report, InfoPart part) {
    Sections out;
    if (part == InfoPart::kAll) {
        add_build(out, report);
        add_transports(out, report);
        add_devices(out, report);
        add_machine(out, report);
        add_huge_pages(out, report.topology);
        add_limits(out, report);
    }
    add_variables(out, report);
    return out.finish();
}

}  // namespace weir::tools
