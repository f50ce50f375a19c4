// SPDX-License-Identifier: Apache-2.0
/// \file
/// ShmEndpoint: the states of a connection. Only these functions count what the states mean for
/// the endpoint as a whole: how often it looks at the sockets, when it wakes up, which places are
/// taken.
#include <algorithm>

#include "transport/shm/endpoint.h"

namespace weir::transport::shm {

void ShmEndpoint::enter(Connection& connection, State state) {
    const bool began = connection.comes_into_being();
    const bool was_stranger = connection.is_stranger();
    leave(connection);
    connection.state = state;
    switch (state) {
        case State::kDialing:
        case State::kShaking:
        case State::kOffered:
            ++coming_;
            // One deadline for the whole set-up, across its states.
            if (!began) {
                connection.deadline_ns = clock_.now_ns() + device_.options().handshake_timeout_ns;
            }
            break;
        case State::kClosing:
            closing_.push_back(&connection);
            connection.deadline_ns = clock_.now_ns() + device_.options().close_timeout_ns;
            break;
        case State::kDraining:
            ++draining_;
            connection.deadline_ns = 0;  // the records to deliver are in the ring already
            break;
        case State::kNew:
        case State::kOpen:
        case State::kGone: connection.deadline_ns = 0; break;
    }
    if (connection.is_stranger() && !was_stranger) ++half_open_;
    if (was_stranger && !connection.is_stranger()) leave_place();
}

void ShmEndpoint::leave(const Connection& connection) {
    if (connection.comes_into_being()) --coming_;
    if (connection.state == State::kDraining) --draining_;
    if (connection.state == State::kClosing) std::erase(closing_, &connection);
}

}  // namespace weir::transport::shm
