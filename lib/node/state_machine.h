// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// StateMachine: the interface of shards, manager and clients. The owner of a machine calls
/// poll(): in a process a thread of the Runtime, in a simulation a loop over all machines.

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

    /// Takes what arrived, does a bounded amount of work, and posts what is to be sent; never
    /// blocks. Returns 0 if there was nothing to do.
    virtual size_t poll() = 0;

    /// Whether what poll() did may have been work that nobody waits for: its thread then yields,
    /// because others that share the CPU may have requests to answer.
    [[nodiscard]] virtual bool gives_way() const noexcept { return false; }

    /// A descriptor to sleep on: it becomes readable when poll() has something to do. -1: do not
    /// sleep, poll again.
    [[nodiscard]] virtual int arm() = 0;

    /// So long it may sleep if nothing arrives: then poll() has something to do all the same.
    [[nodiscard]] virtual uint64_t sleep_ns_max() const noexcept { return ~uint64_t{0}; }

    /// True once poll() will never have anything to do again.
    [[nodiscard]] virtual bool finished() const = 0;

    /// How it ended, once it has.
    [[nodiscard]] virtual Status outcome() const { return {}; }

    /// For messages to people: "shard 3".
    [[nodiscard]] virtual std::string name() const = 0;

protected:
    StateMachine() = default;
};

}  // namespace weir
