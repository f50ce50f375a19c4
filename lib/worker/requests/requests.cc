// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/requests/requests.h"

#include <algorithm>
#include <map>

namespace weir {

ClientRequest* Requests::add_again(Calls::Id call_id, Call& call, uint32_t peer, Content content,
                                   bool was_sent, uint64_t& id) {
    ClientRequest* const request =
        add(call_id, call, peer, id, [&](Content& its) { its = std::move(content); });
    if (request != nullptr) request->was_sent_ = was_sent;
    return request;
}

bool Requests::call_needs_caller(Calls::Id call_id) {
    const Call* const call = calls_.find(call_id);
    const bool is_withdrawn = call != nullptr && call->is_withdrawn;
    bool found = false;
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        if (request.call != call_id) return;
        found = found || (is_withdrawn ? request.is_caller_reached() : request.needs_caller());
    });
    return found;
}

void Requests::end(uint64_t id, ClientRequest& request) {
    WEIR_CHECK(request.state() != ClientRequest::State::kKeptAside);
    if (request.is_in_doubt()) return abandon(request);
    const Calls::Id call = request.call;
    requests_.release(id);
    call_needs_one_less(call);
}

void Requests::abandon(ClientRequest& request) {
    Call* const call = calls_.find(request.call);
    if (call != nullptr && call->is_withdrawn && request.attempt.exposes_caller())
        call->note_memory_in_doubt(kMemoryNotReleased);
    ++kept_aside_count_;
    request.enter(ClientRequest::State::kKeptAside);
    WEIR_CHECK(kept_aside_count_ <= requests_.in_use());
    call_needs_one_less(std::exchange(request.call, 0));
}

void Requests::fail_part(ClientRequest& request, Errc why) {
    if (request.is_in_doubt()) abandon_memory(request);
    request.content_ = failed_part(request.content_, why);
    request.attempt.codecs = 0;
}

void Requests::become_pull(ClientRequest& request) {
    request.content_ = pull_after(request.content_);
    request.attempt.codecs = 0;
}

/// Another request keeps the memory, and the request goes on without it. Without room for one nothing
/// changes.
void Requests::abandon_memory(ClientRequest& request) {
    Call* const call = calls_.find(request.call);
    uint64_t id = 0;
    if (call == nullptr) return;
    ClientRequest* const aside =
        add(request.call, *call, request.peer, id, [&](Content& its) { its = request.content_; });
    if (aside == nullptr) return;
    aside->attempt = std::move(request.attempt);
    request.attempt = {};
    request.resolve_doubt();
    abandon(*aside);
}

bool Requests::is_referenced(std::span<const std::byte> memory) noexcept {
    const auto meets = [&](std::span<const std::byte> other) {
        return other.data() != nullptr && other.data() < memory.data() + memory.size() &&
               memory.data() < other.data() + other.size();
    };
    bool found = false;
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        const Content& content = request.content();
        found = found || meets(content.values) || meets(content.out) ||
                meets(std::as_bytes(content.list())) ||
                (content.extras != nullptr && meets(content.extras->right));
    });
    return found;
}

bool Requests::has_open_values() {
    bool found = false;
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        const Call* const call = calls_.find(request.call);
        found = found || (request.content().is_piece() && call != nullptr && !call->has_ended());
    });
    return found;
}

std::vector<LeaveMessage::Withdrawn> Requests::open_iterations() {
    std::map<uint32_t, LeaveMessage::Withdrawn> open;
    requests_.for_each([&](uint64_t, const ClientRequest& request) {
        const Content& content = request.content();
        if (!content.is_part || request.state() == ClientRequest::State::kKeptAside) return;
        const LeaveMessage::Withdrawn one{content.table, content.iteration, content.iteration};
        LeaveMessage::Withdrawn& of = open.try_emplace(content.table, one).first->second;
        of.first_iteration = std::min(of.first_iteration, content.iteration);
        of.last_iteration = std::max(of.last_iteration, content.iteration);
    });
    std::vector<LeaveMessage::Withdrawn> list;
    for (const auto& [table, of] : open) {
        if (list.size() < LeaveMessage::kWithdrawnMax) list.push_back(of);
    }
    return list;
}

}  // namespace weir
