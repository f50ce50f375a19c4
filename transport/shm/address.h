// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Addresses of shm endpoints: "shm:HOST/NAME". HOST stands for this boot of this machine and this
/// network namespace, in which NAME is an abstract Unix socket; so an address of another host is
/// recognised without trying.

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::transport::shm {

/// 16 hexadecimal digits. Errors: kUnavailable (no /proc)
[[nodiscard]] Result<std::string> host_id();

/// A name that nobody else has: 32 random hexadecimal digits.
[[nodiscard]] std::string random_name();

[[nodiscard]] std::string make_address(std::string_view host, std::string_view name);

/// The name in `address`.
/// Errors: kUnavailable (another transport's or another host's); kInvalidArgument
[[nodiscard]] Result<std::string> parse_address(std::string_view address, std::string_view host);

}  // namespace weir::transport::shm
