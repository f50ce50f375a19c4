// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Requests: all that have not ended, and when each of them has.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lib/wire/messages.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/calls/slots.h"
#include "lib/worker/requests/request.h"

namespace weir {

inline constexpr const char* kTooManyRequests = "too many requests are open; wait for some calls";
inline constexpr const char* kMemoryNotReleased =
    "; the peer did not confirm the end of the connection, and may still read or write the "
    "memory of the requests that were open there: this client does not use that memory again";

/// A call ends when all its requests have ended, with the first error among them; after an error, as
/// soon as no open request of it needs the caller's memory.
///
/// Invariant: open() + those kept aside is what is in the slots; each open one has a call.
///
/// Thread: the client's
class Requests {
public:
    explicit Requests(Calls& calls) noexcept : calls_(calls) {}

    /// A request of the call, with its number in `id`; nullptr if there is no room. `fill` gets its
    /// content, empty and in its place, to set once.
    template <class Fill>
    ClientRequest* add(Calls::Id call_id, Call& call, uint32_t peer, uint64_t& id, Fill&& fill) {
        ClientRequest* const request = requests_.acquire(id);
        if (request == nullptr) return nullptr;
        WEIR_CHECK(call_id != 0 && request->state_ == ClientRequest::State::kUnsent);
        ++call.open_requests;
        request->call = call_id;
        request->peer = peer;
        std::forward<Fill>(fill)(request->content_);
        return request;
    }

    /// One that takes the place of others. `was_sent`: as of theirs.
    ClientRequest* add_again(Calls::Id call_id, Call& call, uint32_t peer, Content content,
                             bool was_sent, uint64_t& id);

    [[nodiscard]] bool has_room(size_t count) const noexcept { return requests_.has_room(count); }

    [[nodiscard]] ClientRequest* find(uint64_t id) noexcept { return requests_.find(id); }

    [[nodiscard]] ClientRequest* find_low(uint32_t low, uint64_t& id) noexcept {
        return requests_.find_low(low, id);
    }

    /// Calls function(id, request) for all. It may end the one that it is given.
    template <class Function>
    void for_each(Function&& function) {
        requests_.for_each(std::forward<Function>(function));
    }

    /// The request has ended; one that is in doubt is abandoned.
    void end(uint64_t id, ClientRequest& request);
    /// Lets the call go on without this request. The request stays, with what it refers to, because a
    /// server may still reach that memory.
    void abandon(ClientRequest& request);
    /// Puts failed_part() in the place of what was asked for. What a server may still reach is kept aside.
    void fail_part(ClientRequest& request, Errc why);

    /// The push was executed, and its values are still to come: it goes on as a pull.
    void become_pull(ClientRequest& request);

    /// One request less keeps the call from its end.
    void call_needs_one_less(Calls::Id call) {
        calls_.request_ended(call, [this](Calls::Id of) { return call_needs_caller(of); });
    }

    /// Whether an open request of this call may use the caller's memory.
    [[nodiscard]] bool call_needs_caller(Calls::Id call);

    /// Those that have not ended, without those that are kept aside. These never end: their
    /// server did not release their memory in time, and may still reach it.
    [[nodiscard]] size_t open_count() const noexcept {
        return requests_.in_use() - kept_aside_count_;
    }

    [[nodiscard]] size_t count() const noexcept { return requests_.in_use(); }

    /// Whether a request reads from, or writes to, a part of this memory.
    [[nodiscard]] bool is_referenced(std::span<const std::byte> memory) noexcept;
    /// Whether a push or pull is open whose call has not ended.
    [[nodiscard]] bool has_open_values();
    /// Of which a part is still on its way, or waits at a shard; mostly because its call has ended at its
    /// deadline. If a segment moves, nobody sends that part again after this worker has left.
    [[nodiscard]] std::vector<LeaveMessage::Withdrawn> open_iterations();

private:
    void abandon_memory(ClientRequest& request);

    Calls& calls_;
    Slots<ClientRequest> requests_;
    size_t kept_aside_count_ = 0;
};

}  // namespace weir
