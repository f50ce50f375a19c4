// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/connection_table.h"

#include <algorithm>
#include <limits>

#include "lib/base/check.h"

namespace weir::transport::verbs {

VerbsConnection& VerbsConnectionTable::add(Side side, const Secret& secret, const Nonce& nonce) {
    WEIR_CHECK(!is_full());
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<uint16_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint16_t slot = free_slots_.back();
    free_slots_.pop_back();
    const ConnectionId id = ++last_serial_ << 16 | slot;
    slots_[slot] = std::make_unique<VerbsConnection>(id, side, secret, nonce);
    return *slots_[slot];
}

void VerbsConnectionTable::remove(VerbsConnection& c) {
    set_deadline(c, 0);
    if (last_found_ == &c) last_found_ = nullptr;
    if (const auto named = queue_pairs_.find(c.own.queue_pair);
        named != queue_pairs_.end() && named->second == &c) {
        queue_pairs_.erase(named);
    }
    const auto slot = static_cast<uint16_t>(slot_of(c.id));
    slots_[slot].reset();
    free_slots_.push_back(slot);
}

void VerbsConnectionTable::clear() {
    queue_pairs_.clear();
    last_found_ = nullptr;
    slots_.clear();
    free_slots_.clear();
    deadlines_ = 0;
}

void VerbsConnectionTable::add_queue_pair(VerbsConnection& c) {
    queue_pairs_[c.own.queue_pair] = &c;
}

VerbsConnection* VerbsConnectionTable::find_queue_pair(uint32_t number) const noexcept {
    if (last_found_ != nullptr && last_number_ == number) return last_found_;
    const auto found = queue_pairs_.find(number);
    if (found == queue_pairs_.end()) return nullptr;
    last_number_ = number;
    last_found_ = found->second;
    return last_found_;
}

void VerbsConnectionTable::set_deadline(VerbsConnection& c, uint64_t at_ns) noexcept {
    if (c.deadline_ns != 0) --deadlines_;
    c.deadline_ns = at_ns;
    if (c.deadline_ns != 0) ++deadlines_;
}

uint64_t VerbsConnectionTable::next_deadline_ns() const noexcept {
    uint64_t next_ns = std::numeric_limits<uint64_t>::max();
    if (deadlines_ == 0) return next_ns;
    for_each([&](const VerbsConnection& c) {
        if (c.deadline_ns != 0) next_ns = std::min(next_ns, c.deadline_ns);
    });
    return next_ns;
}

}  // namespace weir::transport::verbs
