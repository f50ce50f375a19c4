// SPDX-License-Identifier: Apache-2.0
#include "bench/jobs/network_limit.h"

#include <cerrno>

#include <fmt/core.h>
#include <sched.h>

#include "bench/jobs/child_process.h"

namespace weir::bench {
namespace {

constexpr const char* kBurst = "256kb";    ///< more than a frame of the device
constexpr const char* kLatency = "100ms";  ///< no frame is lost before it has waited so long

}  // namespace

Status limit_network(uint32_t mbit_per_s) {
    if (unshare(CLONE_NEWNET) != 0) {
        return Error(Errc::kIo,
                     "--limit-mbit: no network namespace can be made, for which this program needs "
                     "the rights of root",
                     errno);
    }
    WEIR_TRY(run_command({"ip", "link", "set", "lo", "up"}));
    return run_command({"tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate",
                        fmt::format("{}mbit", mbit_per_s), "burst", kBurst, "latency", kLatency});
}

}  // namespace weir::bench
