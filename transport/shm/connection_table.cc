// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/connection_table.h"

namespace weir::transport::shm {

ShmConnection& ShmConnectionTable::add(Side side) {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint32_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = std::make_unique<ShmConnection>();
    ShmConnection& c = *slots_[slot];
    c.id = ++last_serial_ << kSlotBits | slot;
    c.side = side;
    return c;
}

void ShmConnectionTable::remove(ShmConnection& c) {
    set_state(c, ShmConnection::State::kGone, 0);
    const uint32_t slot = slot_index(c.id);
    slots_[slot].reset();
    free_slots_.push_back(slot);
}

void ShmConnectionTable::set_state(ShmConnection& c, ShmConnection::State state,
                                   uint64_t deadline_ns) {
    using State = ShmConnection::State;
    if (c.comes_into_being()) --coming_;
    if (c.state == State::kDraining) --draining_;
    if (c.state == State::kClosing) --closing_;
    c.state = state;
    c.deadline_ns = deadline_ns;
    if (c.comes_into_being()) ++coming_;
    if (c.state == State::kDraining) ++draining_;
    if (c.state == State::kClosing) ++closing_;
}

}  // namespace weir::transport::shm
