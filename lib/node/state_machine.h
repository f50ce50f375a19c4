// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// StateMachine: what shards, the manager and clients are. Whoever owns one calls poll(): a thread
/// of the runtime in a process, a loop over all of them in a simulation.

#include <cstddef>
#include <string>

#include "lib/base/result.h"

namespace weir {

/// Thread: one at a time.
class StateMachine {
public:
    virtual ~StateMachine() = default;
    StateMachine(const StateMachine&) = delete;
    StateMachine& operator=(const StateMachine&) = delete;

    /// Takes what arrived, does a bounded amount of work, posts what is to be sent; never blocks.
    /// Returns how much there was to do, 0 if nothing.
    virtual size_t poll() = 0;
    /// A descriptor to sleep on until poll() has something to do, or -1: poll again.
    [[nodiscard]] virtual int arm() = 0;
    /// True once there is nothing left to do for ever.
    [[nodiscard]] virtual bool finished() const = 0;

    /// How it ended, once it has.
    [[nodiscard]] virtual Status outcome() const { return {}; }

    /// For people: "shard 3".
    [[nodiscard]] virtual std::string name() const = 0;

protected:
    StateMachine() = default;
};

}  // namespace weir
