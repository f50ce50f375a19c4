// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Peer: a shard, or the manager, and the connection to it.

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/filters/codec_choice.h"
#include "lib/worker/peers/lane.h"
#include "transport/transport.h"

namespace weir {

/// Thread: the client's
class Peer {
public:
    enum class State : uint8_t {
        kGone,  ///< not in the view
        kConnecting,
        kOpen,
        kBroken,  ///< the connection was lost, or there was none yet; it is made anew
        kLost     ///< for good
    };

    /// Whether this client closes the connection, whose end is to come.
    enum class Closing : uint8_t {
        kNot,
        kAnew,    ///< another one may follow
        kAtFault  ///< none does, because of `fault`
    };

    [[nodiscard]] State state() const noexcept { return state_; }

    [[nodiscard]] bool is_open() const noexcept { return state_ == State::kOpen; }

    [[nodiscard]] bool is_connected() const noexcept {
        return state_ == State::kConnecting || state_ == State::kOpen;
    }

    std::string name;     ///< "shard 0 of server 1 (rank 1)"
    std::string address;  ///< of a shard of the view

    // The connection: set when it is begun, opened or closed.
    transport::ConnectionId connection = 0;
    Closing closing = Closing::kNot;
    Errc fault = Errc::kOk;   ///< kOk unless closing is, or was, kAtFault
    bool is_greeted = false;  ///< the hello of this connection is sent
    uint64_t hello = 0;       ///< number of the connection, the first has 1
    uint64_t opened_ns = 0;

    // What it can do: set when it opens.
    bool maps_memory = false;      ///< the peer addresses our registered memory directly
    bool flush_is_a_call = false;  ///< see transport::Capabilities
    size_t copied_bytes_max = 0;   ///< the same
    LinkSpeed link{};              ///< measured, where filters choose by it

    // While it is kBroken.
    uint64_t connect_at_ns = 0;  ///< there is a pause until then
    uint64_t pause_ns = 0;       ///< before the next attempt
    std::string trouble;  ///< why the last attempt to reach it failed, before all are reached

    // What is known of the shard.
    bool is_dead = false;  ///< the manager says that it lost it
    std::string loss;      ///< and which parameters are lost; empty: unknown

    // While a view is to be adopted: set by ViewChanges.
    bool is_held = false;     ///< that view changes it: nothing is sent
    bool is_leaving = false;  ///< it is not in that view

    Lane lane;

private:
    friend class Peers;  // counts those that are kBroken
    State state_ = State::kGone;
};

}  // namespace weir
