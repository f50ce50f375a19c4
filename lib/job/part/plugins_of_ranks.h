// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Compares the plugins of the ranks with servers, before the job begins.

#include <cstdint>
#include <span>

#include "lib/base/result.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/store/plugins/plugin_list.h"

namespace weir {

/// By a rank with a server, before an exchange.
[[nodiscard]] Status publish_plugins(Bootstrap& bootstrap, const PluginList& plugins);

/// By all ranks, after it, so that all hear what is wrong.
/// Errors: kInvalidArgument, naming two ranks, their hosts and the file; kProtocol
[[nodiscard]] Status compare_plugins(Bootstrap& bootstrap, std::span<const uint32_t> server_ranks);

}  // namespace weir
