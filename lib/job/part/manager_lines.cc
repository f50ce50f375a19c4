// SPDX-License-Identifier: Apache-2.0
#include "lib/job/part/manager_lines.h"

#include <chrono>
#include <thread>
#include <utility>

namespace weir {
namespace {

constexpr uint64_t kLifeLineNs = 10 * kSecond;  // for the manager to answer on a life line
constexpr std::chrono::microseconds kLookForLifeLine(100);
constexpr IdleOptions kSleeps{.spin_ns = 0, .yield_ns = 0};

}  // namespace

void ManagerLines::set_managers(const std::vector<ManagerPlace>& managers) {
    address_ = managers[0].address;
    if (managers.size() > 1) manager_life_->places = managers;
}

Status ManagerLines::start_life_line(Devices& devices) {
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices.make_endpoint());
    life_line_ = std::make_unique<Runtime>(kSleeps);
    (void)life_line_->run(
        std::make_unique<LifeLine>(std::move(endpoint), clock_, address_, process_, manager_life_));
    const uint64_t end_ns = clock_.now_ns() + kLifeLineNs;
    while (!manager_life_->is_tried.load() && clock_.now_ns() < end_ns)
        std::this_thread::sleep_for(kLookForLifeLine);
    return {};
}

Status ManagerLines::start_lease_line(Devices& devices, bool has_shards) {
    WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices.make_endpoint());
    lease_line_ = std::make_unique<Runtime>(kSleeps);
    (void)lease_line_->run(std::make_unique<LeaseLine>(std::move(endpoint), clock_, address_,
                                                       process_, manager_life_,
                                                       has_shards ? lease_ : nullptr));
    return {};
}

}  // namespace weir
