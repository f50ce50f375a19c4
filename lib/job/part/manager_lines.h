// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerLines: what the members of this process share to reach the manager: its address, the life line of
/// the process, and the lease of its server.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/job/devices.h"
#include "lib/job/unique_number.h"
#include "lib/node/lease_line.h"
#include "lib/node/life_line.h"
#include "lib/node/link.h"
#include "lib/node/runtime.h"

namespace weir {

/// Destroy it after all members of the process: the manager takes the end of the life line for the end of
/// them.
///
/// Thread: one
class ManagerLines {
public:
    explicit ManagerLines(const Clock& clock) : clock_(clock) {}

    /// One, or several. Before anything of this process connects to them.
    void set_managers(const std::vector<ManagerPlace>& managers);

    /// Of several, the first one's: ManagerLife has all.
    [[nodiscard]] const std::string& address() const noexcept { return address_; }

    /// The number of this process, as its life line names it.
    [[nodiscard]] uint64_t process() const noexcept { return process_; }

    [[nodiscard]] const std::shared_ptr<ManagerLife>& manager_life() const noexcept {
        return manager_life_;
    }

    /// Before any member of this process: the manager then knows how to learn of its end. If the manager
    /// cannot be reached, the members report that.
    /// Errors: those of endpoints
    [[nodiscard]] Status start_life_line(Devices& devices);
    /// Errors: those of endpoints
    [[nodiscard]] Status start_lease_line(Devices& devices, bool has_shards);

    [[nodiscard]] const std::shared_ptr<ServerLease>& lease() const noexcept { return lease_; }

    /// For one more member's link.
    [[nodiscard]] LinkIdentity make_link() const {
        return {make_unique_number(), process_, manager_life_};
    }

private:
    const Clock& clock_;
    std::string address_;
    uint64_t process_ = make_unique_number();
    std::shared_ptr<ManagerLife> manager_life_ = std::make_shared<ManagerLife>();
    std::shared_ptr<ServerLease> lease_ = std::make_shared<ServerLease>();
    // Each has a thread, which sleeps.
    std::unique_ptr<Runtime> life_line_;
    std::unique_ptr<Runtime> lease_line_;
};

}  // namespace weir
