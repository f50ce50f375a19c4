// SPDX-License-Identifier: Apache-2.0
#include "lib/server/requests/deferred_requests.h"

namespace weir {

DeferredRequests::Deferred::Deferred(transport::ConnectionId from, const wire::Frame& received)
    : connection(from), frame(received) {
    body.reserve(received.keys.size() + received.values.size());
    body.assign(received.keys.begin(), received.keys.end());
    body.insert(body.end(), received.values.begin(), received.values.end());
    frame.keys = std::span(body).first(received.keys.size());
    frame.values = std::span(body).subspan(received.keys.size());
}

}  // namespace weir
