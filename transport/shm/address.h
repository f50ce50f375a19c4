// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Addresses of shm endpoints: "shm:HOST/NAME". HOST identifies this boot of this machine and
/// this network namespace; NAME is an abstract Unix socket in that namespace. An address of
/// another host is therefore recognised without trying to connect.

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace weir::transport::shm {

/// The HOST of this process: 16 hexadecimal digits. Errors: kUnavailable (no /proc)
[[nodiscard]] Result<std::string> host_id();

/// A NAME that no other endpoint has: 32 random hexadecimal digits.
[[nodiscard]] std::string random_name();

[[nodiscard]] std::string make_address(std::string_view host, std::string_view name);

/// The NAME in `address`.
/// Errors: kUnavailable (an address of another transport or host); kInvalidArgument
[[nodiscard]] Result<std::string> parse_address(std::string_view address, std::string_view host);

}  // namespace weir::transport::shm
