// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How clusters begin in histories in which servers come and go.

#include <memory>
#include <utility>

#include "lib/base/random.h"
#include "tests/cluster/sim_cluster.h"

namespace weir::test {

/// One to three servers of one or two shards. `faults` meet everybody but the manager.
[[nodiscard]] inline SimShape moving_shape(Random& random,
                                           std::shared_ptr<transport::Faults> faults) {
    SimShape shape;
    shape.servers = static_cast<uint32_t>(1 + random.below(3));
    shape.shards = static_cast<uint32_t>(1 + random.below(2));
    shape.faults = std::move(faults);
    shape.faults_of_all = true;
    shape.is_manager_apart = true;
    return shape;
}

/// A server that somebody may tell to leave.
[[nodiscard]] inline uint32_t some_server(Random& random, const View& view) {
    return view.servers()[random.below(view.servers().size())].number;
}

}  // namespace weir::test
