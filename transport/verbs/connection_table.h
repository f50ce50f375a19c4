// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// VerbsConnectionTable: an endpoint's connections by id, by slot and by queue pair, and the
/// earliest of their deadlines.

#include <memory>
#include <unordered_map>
#include <vector>

#include "transport/verbs/connection.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class VerbsConnectionTable {
public:
    /// A connection's id is its slot in the lower 16 bits and a serial number above.
    static constexpr uint32_t kMost = 0xffff;

    [[nodiscard]] static uint32_t slot_of(ConnectionId id) noexcept {
        return static_cast<uint32_t>(id & 0xffff);
    }

    [[nodiscard]] bool is_full() const noexcept { return count() >= kMost; }

    [[nodiscard]] uint32_t count() const noexcept {
        return static_cast<uint32_t>(slots_.size() - free_slots_.size());
    }

    /// Adds a connection with an id that was never used. Must not be called when is_full().
    VerbsConnection& add(Side side, const Secret& secret, const Nonce& nonce);
    void remove(VerbsConnection& c);
    void clear();

    [[nodiscard]] VerbsConnection* find(ConnectionId id) const noexcept {
        VerbsConnection* const c = at_slot(slot_of(id));
        return c != nullptr && c->id == id ? c : nullptr;
    }

    [[nodiscard]] VerbsConnection* at_slot(size_t slot) const noexcept {
        return slot < slots_.size() ? slots_[slot].get() : nullptr;
    }

    /// From now on find_queue_pair() finds it by the queue pair number in its claim, until it is
    /// removed.
    void add_queue_pair(VerbsConnection& c);
    [[nodiscard]] VerbsConnection* find_queue_pair(uint32_t number) const noexcept;

    /// `at_ns` 0: none.
    void set_deadline(VerbsConnection& c, uint64_t at_ns) noexcept;

    [[nodiscard]] bool has_deadlines() const noexcept { return deadlines_ > 0; }

    /// The earliest deadline; the greatest number if there is none.
    [[nodiscard]] uint64_t next_deadline_ns() const noexcept;

    /// Calls fn(VerbsConnection&) for each connection. fn must not add or remove any.
    template <class Fn>
    void for_each(Fn&& fn) const {
        for (const auto& slot : slots_) {
            if (slot != nullptr) fn(*slot);
        }
    }

private:
    std::vector<std::unique_ptr<VerbsConnection>> slots_;
    std::vector<uint16_t> free_slots_;
    std::unordered_map<uint32_t, VerbsConnection*> queue_pairs_;
    uint64_t last_serial_ = 0;
    uint32_t deadlines_ = 0;  ///< connections that have one
    mutable uint32_t last_number_ = 0;
    mutable VerbsConnection* last_found_ = nullptr;  ///< the result of the last find_queue_pair()
};

}  // namespace weir::transport::verbs
