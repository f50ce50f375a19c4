// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// OperatorConnection: a command's connection to the manager of a running job, as `weir status` makes one.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/bootstrap/find_contact.h"
#include "lib/job/devices.h"
#include "lib/job/managers.h"
#include "lib/node/operator.h"

namespace weir {

/// Thread: one
struct OperatorConnection {
    SteadyClock clock;
    std::shared_ptr<Devices> devices;
    std::unique_ptr<Operator> manager;

    /// Errors: those of find_contact() and Devices::open()
    [[nodiscard]] Status open(const std::string& where, const Config& config) {
        WEIR_ASSIGN(const Contact contact, find_contact(where, config, clock));
        WEIR_ASSIGN(devices, Devices::open(config, contact.secret, true));
        WEIR_ASSIGN(std::unique_ptr<transport::Endpoint> endpoint, devices->make_endpoint());
        WEIR_ASSIGN(std::vector<ManagerPlace> managers, Managers::split(contact.manager_address));
        manager = std::make_unique<Operator>(std::move(endpoint), std::move(managers), clock);
        return {};
    }
};

}  // namespace weir
