// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Weir, a parameter server for RDMA clusters: everything that a trainer needs.
///
/// ```cpp
/// #include <cstdio>
/// #include <vector>
/// #include <weir/weir.h>
///
/// weir::Status train(weir::Client& client) {
///     WEIR_ASSIGN(weir::Table<float> table,
///                 client.create_table<float>("weights", {.width = 1, .rule = weir::sgd(0.1)}));
///     const std::vector<uint64_t> keys = {7, 42, 1'000'000'007};  // sorted and unique
///     WEIR_ASSIGN(weir::Buffer<float> values, client.make_buffer<float>(keys.size()));
///     WEIR_TRY(table.pull(keys, values).wait());
///     for (float& value : values) value -= 1;  // the gradient of (w - 1)^2 / 2
///     return table.push(keys, values).wait();
/// }
///
/// int main() {  // of every rank, under every launcher
///     const weir::Status done = weir::run({.servers = 1, .shards_per_server = 2}, train);
///     if (!done) std::fprintf(stderr, "trainer: %s\n", done.error().message().c_str());
///     return done ? 0 : 1;
/// }
/// ```
/// More headers are for those who need them: rules.h (update rules of the program's own), filters.h (what is sent of
/// pushes and pulls), linalg.h (vectors and matrices of what was pulled), eigen.h (the same, for Eigen) and config.h
/// (WEIR_ variables that the program sets).
///
/// Functions return errors as values (lib/base/result.h). The only exception that they throw is
/// std::bad_alloc, when the process has no memory left.

#include "lib/base/log_sink.h"       // IWYU pragma: export
#include "lib/base/result.h"         // IWYU pragma: export
#include "lib/base/version.h"        // IWYU pragma: export
#include "lib/job/job.h"             // IWYU pragma: export
#include "lib/key/key_batch.h"       // IWYU pragma: export
#include "lib/train/call_on_rows.h"  // IWYU pragma: export
#include "lib/train/sweep.h"         // IWYU pragma: export
#include "lib/worker/client.h"       // IWYU pragma: export
#include "lib/worker/iterations.h"   // IWYU pragma: export
#include "lib/worker/table.h"        // IWYU pragma: export
