// SPDX-License-Identifier: Apache-2.0
/// \file
/// Topology from /sys/devices/system.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <fmt/core.h>

#include "lib/base/machine/sys_file.h"
#include "lib/base/machine/topology.h"

namespace weir {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHugePages = "hugepages-";

/// The numbers of the entries `prefix``number` of a folder, sorted.
std::vector<uint64_t> numbered_entries(const std::string& folder, std::string_view prefix) {
    std::vector<uint64_t> numbers;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename();
        if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
        const std::vector<int> number =
            parse_cpu_list(std::string_view(name).substr(prefix.size()));
        if (number.size() == 1) numbers.push_back(static_cast<uint64_t>(number.front()));
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
}

std::vector<int> cpu_list_file(const std::string& path) {
    return parse_cpu_list(read_sys_text(path).value_or(""));
}

std::vector<NumaNode> read_nodes(const std::string& system) {
    std::vector<NumaNode> nodes;
    for (const uint64_t index : numbered_entries(system + "/node", "node")) {
        const std::string folder = fmt::format("{}/node/node{}", system, index);
        const std::string info = read_sys_text(folder + "/meminfo").value_or("");
        NumaNode node;
        node.index = static_cast<int>(index);
        // the lines start with "Node 0 "
        const std::string prefix = fmt::format("Node {} MemTotal", index);
        node.memory_bytes = sys_field(info, prefix).value_or(0);
        node.cpus = cpu_list_file(folder + "/cpulist");
        if (node.memory_bytes > 0) nodes.push_back(std::move(node));
    }
    return nodes;
}

/// "48K", "2048K", "30M" in bytes.
uint64_t cache_size_bytes(const std::string& path) {
    const std::string text = read_sys_text(path).value_or("");
    const uint64_t number = read_sys_number(path).value_or(0);
    if (text.ends_with('K')) return number << 10;
    if (text.ends_with('M')) return number << 20;
    return number;
}

std::vector<Cache> read_caches(const std::string& system, const std::vector<int>& cpus) {
    // Caches have no numbers: one is identified by its level, kind, size and the CPUs that share
    // it.
    std::map<std::tuple<int, char, uint64_t>, std::set<std::string>> found;
    for (const int cpu : cpus) {
        const std::string folder = fmt::format("{}/cpu/cpu{}/cache", system, cpu);
        for (const uint64_t index : numbered_entries(folder, "index")) {
            const std::string cache = fmt::format("{}/index{}", folder, index);
            const std::string type = read_sys_text(cache + "/type").value_or("Unified");
            const char kind = type == "Data" ? 'd' : type == "Instruction" ? 'i' : 'u';
            const int level = static_cast<int>(read_sys_number(cache + "/level").value_or(0));
            found[{level, kind, cache_size_bytes(cache + "/size")}].insert(
                read_sys_text(cache + "/shared_cpu_list").value_or(""));
        }
    }
    std::vector<Cache> caches;
    for (const auto& [what, shared] : found) {
        const auto& [level, kind, size_bytes] = what;
        if (size_bytes > 0)
            caches.push_back({level, kind, size_bytes, static_cast<int>(shared.size())});
    }
    return caches;
}

std::vector<HugePages> read_huge_pages(const std::string& root) {
    const std::string folder = root + "/sys/kernel/mm/hugepages";
    std::vector<HugePages> pages;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        const std::string name = entry.path().filename();
        if (!name.starts_with(kHugePages)) continue;
        uint64_t kib = 0;
        for (const char c : std::string_view(name).substr(kHugePages.size())) {
            if (c < '0' || c > '9') break;
            kib = kib * 10 + static_cast<uint64_t>(c - '0');
        }
        pages.push_back({kib << 10, read_sys_number(entry.path() / "nr_hugepages").value_or(0),
                         read_sys_number(entry.path() / "free_hugepages").value_or(0)});
    }
    std::sort(pages.begin(), pages.end(),
              [](const HugePages& a, const HugePages& b) { return a.page_bytes < b.page_bytes; });
    return pages;
}

/// The word in brackets of "always [madvise] never".
std::string chosen_word(const std::string& path) {
    const std::string text = read_sys_text(path).value_or("");
    const size_t open = text.find('[');
    const size_t close = text.find(']');
    if (open == std::string::npos || close == std::string::npos || close < open) return "";
    return text.substr(open + 1, close - open - 1);
}

}  // namespace

Topology read_topology_from_sys(std::string_view root_view) {
    const std::string root(root_view);
    const std::string system = root + "/sys/devices/system";
    Topology result;
    result.source = "/sys";
    std::vector<int> online = cpu_list_file(system + "/cpu/online");
    result.allowed_cpus = root.empty() ? allowed_cpus() : online;
    if (online.empty()) online = result.allowed_cpus;
    result.cpu_count = static_cast<int>(online.size());

    std::set<int> sockets;
    std::map<std::pair<int, int>, Core> allowed;  // by socket and core
    std::set<std::pair<int, int>> cores;
    for (const int cpu : online) {
        const std::string folder = fmt::format("{}/cpu/cpu{}/topology", system, cpu);
        const auto socket =
            static_cast<int>(read_sys_number(folder + "/physical_package_id").value_or(0));
        const auto core = static_cast<int>(
            read_sys_number(folder + "/core_id").value_or(static_cast<uint64_t>(cpu)));
        sockets.insert(socket);
        cores.insert({socket, core});
        if (std::binary_search(result.allowed_cpus.begin(), result.allowed_cpus.end(), cpu)) {
            allowed[{socket, core}].cpus.push_back(cpu);
        }
    }
    result.socket_count = static_cast<int>(sockets.size());
    result.core_count = static_cast<int>(cores.size());
    for (auto& [place, core] : allowed)
        result.allowed_cores.push_back(std::move(core));
    result.nodes = read_nodes(system);
    result.caches = read_caches(system, online);
    result.huge_pages = read_huge_pages(root);
    const std::string thp = root + "/sys/kernel/mm/transparent_hugepage";
    result.transparent_huge_pages = chosen_word(thp + "/enabled");
    result.transparent_huge_pages_shared = chosen_word(thp + "/shmem_enabled");
    return result;
}

}  // namespace weir
