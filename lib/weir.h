// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Weir, a parameter server for RDMA clusters: everything that a trainer needs.
///
/// ```cpp
/// auto job = weir::Job::start({.servers = 1, .shards_per_server = 2, .workers = 1}).value();
/// auto client = job->make_client(0).value();
/// auto table = client.create_table<float>("weights", {.width = 1}).value();
/// auto values = client.make_buffer<float>(keys.size()).value();
/// table.push(keys, values).wait();
/// table.pull(keys, values).wait();
/// ```
/// Errors are values (lib/base/result.h); nothing is thrown but std::bad_alloc, where the process
/// has no memory left.

#include "lib/base/config.h"    // IWYU pragma: export
#include "lib/base/log.h"       // IWYU pragma: export
#include "lib/base/result.h"    // IWYU pragma: export
#include "lib/job/job.h"        // IWYU pragma: export
#include "lib/worker/client.h"  // IWYU pragma: export
#include "lib/worker/table.h"   // IWYU pragma: export
