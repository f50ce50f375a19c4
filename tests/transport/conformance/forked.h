// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A fabric whose process 1 is a forked process, which gets its calls over a socket. Cases use
/// its devices and endpoints like any others, so all cases also run between two processes, and a
/// killed peer gets a real SIGKILL. Memory is shared by memfd, so that cases can check both
/// sides.

#include <functional>

#include "tests/transport/conformance.h"

namespace weir::transport::conformance {

struct ForkedOptions {
    /// Makes the device of a process; called once in each of the two.
    std::function<Result<std::unique_ptr<Device>>()> make_device;
    /// Makes a device of another job; may be empty.
    std::function<Result<std::unique_ptr<Device>>()> make_stranger;
    /// A well-formed address at which no endpoint listens.
    std::function<std::string(Device& device)> nobody;
};

/// The factory for a Registration.
[[nodiscard]] FabricFactory forked(ForkedOptions options);

}  // namespace weir::transport::conformance
