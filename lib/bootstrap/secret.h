// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Makes the job's secret with the kernel's random generator (on rank 0), or reads it from a file
/// (on every rank).

#include <string>

#include "lib/base/result.h"
#include "transport/net/secret.h"

namespace weir {

inline constexpr size_t kSecretFileBytesMin = 16;
inline constexpr size_t kSecretFileBytesMax = 4096;

/// 32 random bytes.
[[nodiscard]] transport::Secret make_secret();

/// SHA-256 of the content of `path`; one newline at its end is left out.
/// Errors:  kNotFound; kRefused if others than the owner have access to it, with the chmod to
///          run; kInvalidArgument if it is no file, too short or too long
[[nodiscard]] Result<transport::Secret> read_secret_file(const std::string& path);

}  // namespace weir
