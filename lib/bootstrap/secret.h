// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Where the job's secret comes from: the kernel's generator on rank 0, or a file that every rank
/// has.

#include <string>

#include "lib/base/result.h"
#include "transport/net/secret.h"

namespace weir {

inline constexpr size_t kSecretFileBytesMin = 16;
inline constexpr size_t kSecretFileBytesMax = 4096;

/// 32 random bytes.
[[nodiscard]] transport::Secret make_secret();

/// SHA-256 of the content of `path`; one newline at its end does not count.
/// Errors:  kNotFound; kRefused if others than the owner can get at it, with the chmod to run;
///          kInvalidArgument if it is no file, too short or too long
[[nodiscard]] Result<transport::Secret> read_secret_file(const std::string& path);

}  // namespace weir
