// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "lib/base/json_text.h"
#include "tools/weir/info/info_report.h"

namespace weir::tools {
namespace {

using Json = nlohmann::ordered_json;

Json limit(uint64_t value) {
    return value == kUnlimited ? Json(nullptr) : Json(value);
}

Json transports_json(const InfoReport& report) {
    Json list = Json::array();
    for (const TransportInfo& transport : report.transports) {
        list.push_back({{"name", transport.name},
                        {"usable", transport.usable},
                        {"reason", transport.reason},
                        {"use", transport.use}});
    }
    return list;
}

#if WEIR_HAVE_VERBS
Json port_json(const transport::verbs::PortInfo& port) {
    Json gids = Json::array();
    for (const transport::verbs::GidInfo& gid : port.gids) {
        gids.push_back({{"index", gid.index},
                        {"gid", gid.gid},
                        {"type", gid.type},
                        {"interface", gid.interface}});
    }
    return {{"number", port.number},       {"active", port.active},
            {"state", port.state},         {"link_layer", port.link_layer},
            {"mtu_bytes", port.mtu_bytes}, {"operation_bytes_max", port.operation_bytes_max},
            {"gids", std::move(gids)},     {"partition_keys", port.partition_keys}};
}
#endif

Json devices_json([[maybe_unused]] const InfoReport& report) {
    Json list = Json::array();
#if WEIR_HAVE_VERBS
    for (const transport::verbs::DeviceInfo& device : report.devices) {
        Json ports = Json::array();
        for (const transport::verbs::PortInfo& port : device.ports)
            ports.push_back(port_json(port));
        list.push_back({{"name", device.name},
                        {"usable", device.why_not.empty()},
                        {"reason", device.why_not},
                        {"ports", std::move(ports)},
                        {"limits",
                         {{"queue_pairs_max", device.queue_pairs_max},
                          {"queue_pair_requests_max", device.queue_pair_requests_max},
                          {"shared_receive_queues_max", device.shared_receive_queues_max},
                          {"shared_receive_requests_max", device.shared_receive_requests_max},
                          {"completion_queue_entries_max", device.completion_queue_entries_max},
                          {"regions_max", device.regions_max},
                          {"region_bytes_max", limit(device.region_bytes_max)},
                          {"reads_in_flight_max", device.reads_in_flight_max}}}});
    }
#endif
    return list;
}

Json topology_json(const InfoReport& report) {
    const Topology& topology = report.topology;
    Json nodes = Json::array();
    for (const NumaNode& node : topology.nodes) {
        nodes.push_back(
            {{"node", node.index}, {"memory_bytes", node.memory_bytes}, {"cpus", node.cpus}});
    }
    Json caches = Json::array();
    for (const Cache& cache : topology.caches) {
        caches.push_back({{"level", cache.level},
                          {"kind", cache.kind == 'd'   ? "data"
                                   : cache.kind == 'i' ? "instruction"
                                                       : "unified"},
                          {"size_bytes", cache.size_bytes},
                          {"count", cache.count}});
    }
    return {{"source", topology.source},
            {"sockets", topology.socket_count},
            {"cores", topology.core_count},
            {"cpus", topology.cpu_count},
            {"allowed_cpus", topology.allowed_cpus},
            {"memory_bytes", report.machine_memory_bytes},
            {"numa_nodes", std::move(nodes)},
            {"caches", std::move(caches)}};
}

Json huge_pages_json(const Topology& topology) {
    Json sizes = Json::array();
    for (const HugePages& pages : topology.huge_pages) {
        sizes.push_back({{"page_bytes", pages.page_bytes},
                         {"total", pages.total_count},
                         {"free", pages.free_count}});
    }
    return {{"sizes", std::move(sizes)},
            {"transparent", topology.transparent_huge_pages},
            {"transparent_shared", topology.transparent_huge_pages_shared}};
}

Json limits_json(const InfoReport& report) {
    return {{"locked_memory",
             {{"soft_bytes", limit(report.locked.soft_bytes)},
              {"hard_bytes", limit(report.locked.hard_bytes)},
              {"pinned_bytes", report.locked.pinned_bytes},
              {"may_lock_all", report.locked.may_lock_all},
              {"room_bytes", limit(report.locked.room_bytes())}}},
            {"available_memory_bytes", limit(report.available_memory_bytes)},
            {"dev_shm_free_bytes", report.dev_shm_free_bytes},
            {"open_files",
             {{"soft", limit(report.files.soft_count)},
              {"hard", limit(report.files.hard_count)},
              {"open", report.files.open_count}}}};
}

Json pool_json(const PoolFit& pool) {
    return {{"size_bytes", pool.size_bytes},
            {"lists_bytes_max", pool.lists_bytes_max},
            {"fits_memory", pool.fits_memory},
            {"fits_locked_memory", pool.fits_locked_memory},
            {"pages", pool.pages},
            {"advice", pool.advice}};
}

Json registered_json(const InfoReport& report) {
    Json list = Json::array();
    for (const RegisteredInfo& info : report.registered)
        list.push_back({{"what", info.what}, {"by", info.by}, {"bytes", info.bytes}});
    return list;
}

void add_variables(Json& to, const InfoReport& report) {
    Json variables = Json::array();
    for (const VariableInfo& info : report.variables) {
        variables.push_back({{"name", info.variable.name},
                             {"value", info.value},
                             {"source", info.is_default ? "default" : "environment"},
                             {"default", info.variable.default_value},
                             {"unit", info.variable.unit},
                             {"allowed", allowed_values(info.variable)},
                             {"meaning", info.variable.meaning},
                             {"error", info.error}});
    }
    Json unknown = Json::array();
    for (const UnknownVariable& variable : report.unknown_variables)
        unknown.push_back({{"name", variable.name}, {"message", variable.message()}});
    to["variables"] = std::move(variables);
    to["unknown_variables"] = std::move(unknown);
}

}  // namespace

std::string info_json(const InfoReport& report, InfoPart part) {
    Json json;
    if (part == InfoPart::kAll) {
        json["version"] = report.version;
        json["compiler"] = report.compiler;
        for (const Feature& feature : report.features)
            json["features"][std::string(feature.key)] = feature.built;
        json["transports"] = transports_json(report);
        json["rdma_devices"] = devices_json(report);
        json["topology"] = topology_json(report);
        json["huge_pages"] = huge_pages_json(report.topology);
        json["limits"] = limits_json(report);
        json["pool"] = pool_json(report.pool);
        json["registered"] = registered_json(report);
    }
    add_variables(json, report);
    // Names of devices and values of variables may not be valid UTF-8.
    return json_text(json);
}

}  // namespace weir::tools
