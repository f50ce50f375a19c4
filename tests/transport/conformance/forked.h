// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A fabric whose process 1 is a process: forked, and told over a socket what to call. Its devices
/// and endpoints look to the cases like any others, so all of them run between two processes, and
/// SIGKILL is SIGKILL. Memory is shared by memfd, so that both sides' contents can be looked at.

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
