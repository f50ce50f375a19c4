// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// InfoReport: everything that `weir info` prints, collected once and printed as text or JSON.

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/machine/os_limits.h"
#include "lib/base/machine/topology.h"
#include "weir_features.h"
#if WEIR_HAVE_VERBS
#include "transport/verbs/verbs.h"
#endif

namespace weir::tools {

struct Feature {
    std::string_view key;   ///< "verbs"
    std::string_view name;  ///< "RDMA devices (libibverbs)"
    bool built = false;
};

struct TransportInfo {
    std::string name;
    bool usable = false;
    std::string reason;  ///< why it cannot be used, and what to do
    std::string use;     ///< the purpose of the transport
};

struct PoolFit {
    uint64_t size_bytes = 0;
    uint64_t lists_bytes_max = 0;  ///< the part of size_bytes for remembered key lists
    bool fits_memory = false;
    bool fits_locked_memory = false;
    std::string pages;   ///< the kind of pages it would have
    std::string advice;  ///< what to do if it does not fit
};

/// Memory that a job would register with its devices. Verbs locks it.
struct RegisteredInfo {
    std::string_view what;  ///< "store pool"
    std::string_view by;    ///< "a server process, on every NUMA node that it pins shards to"
    uint64_t bytes = 0;     ///< per owner in `by`
};

struct VariableInfo {
    ConfigVariable variable;
    std::string value;
    bool is_default = true;
    std::string error;  ///< why the value is invalid; empty if it is valid
};

struct InfoReport {
    std::string version;
    std::string compiler;
    std::vector<Feature> features;
    std::vector<TransportInfo> transports;
#if WEIR_HAVE_VERBS
    std::vector<transport::verbs::DeviceInfo> devices;
#endif
    Topology topology;
    LockedMemoryLimit locked;
    OpenFilesLimit files;
    uint64_t machine_memory_bytes = 0;
    uint64_t available_memory_bytes = 0;
    uint64_t dev_shm_free_bytes = 0;
    PoolFit pool;
    std::vector<RegisteredInfo> registered;
    std::vector<VariableInfo> variables;
    std::vector<UnknownVariable> unknown_variables;
};

enum class InfoPart : uint8_t { kAll, kVariables };

/// What `weir --version` prints: the version, and what it was built with.
[[nodiscard]] std::string version_text();
[[nodiscard]] InfoReport make_info_report(const Config& config);
[[nodiscard]] std::vector<VariableInfo> describe_variables(const Config& config);

/// Text for people, in sections of aligned lines.
[[nodiscard]] std::string info_text(const InfoReport& report, InfoPart part);
/// JSON for programs: names do not change; sizes are in bytes, and null means no limit.
[[nodiscard]] std::string info_json(const InfoReport& report, InfoPart part);

}  // namespace weir::tools
