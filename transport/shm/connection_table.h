// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ShmConnectionTable: an endpoint's connections by id and by slot, and what their states mean
/// for the endpoint as a whole.

#include <memory>
#include <vector>

#include "transport/shm/connection.h"

namespace weir::transport::shm {

/// Thread: the endpoint's.
class ShmConnectionTable {
public:
    /// Adds a connection with an id that was never used, in State::kNew.
    ShmConnection& add(Side side);
    void remove(ShmConnection& c);

    [[nodiscard]] ShmConnection* find(ConnectionId id) const noexcept {
        const size_t slot = slot_index(id);
        if (slot >= slots_.size() || slots_[slot] == nullptr || slots_[slot]->id != id) {
            return nullptr;
        }
        return slots_[slot].get();
    }

    [[nodiscard]] ShmConnection* find_open(ConnectionId id) const noexcept {
        ShmConnection* const c = find(id);
        return c != nullptr && c->state == ShmConnection::State::kOpen ? c : nullptr;
    }

    [[nodiscard]] size_t count() const noexcept { return slots_.size() - free_slots_.size(); }

    /// Changes the state and counts. `deadline_ns` is that of the new state; 0: none.
    void set_state(ShmConnection& c, ShmConnection::State state, uint64_t deadline_ns);

    /// How many are not open yet.
    [[nodiscard]] size_t coming() const noexcept { return coming_; }

    /// How many are in State::kDraining.
    [[nodiscard]] size_t draining() const noexcept { return draining_; }

    /// How many are in State::kClosing.
    [[nodiscard]] size_t closing() const noexcept { return closing_; }

    /// Calls fn(ShmConnection&) for each connection. fn may add connections and remove any.
    template <class Fn>
    void for_each(Fn&& fn) const {
        for (size_t slot = 0; slot < slots_.size(); ++slot) {
            if (slots_[slot] != nullptr) fn(*slots_[slot]);
        }
    }

private:
    std::vector<std::unique_ptr<ShmConnection>> slots_;
    std::vector<uint32_t> free_slots_;
    uint64_t last_serial_ = 0;
    size_t coming_ = 0;
    size_t draining_ = 0;
    size_t closing_ = 0;
};

}  // namespace weir::transport::shm
