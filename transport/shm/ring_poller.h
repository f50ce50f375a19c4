// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// RingPoller: the rings of an endpoint's connections: which of them brought records, which have
/// records that the peer does not see yet, and which lent payloads to the caller.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/shm/connection.h"
#include "transport/shm/doorbell.h"

namespace weir::transport::shm {

/// Thread: the endpoint's.
class RingPoller {
public:
    [[nodiscard]] bool empty() const noexcept { return watched_.empty(); }

    /// From now on poll() looks into the connection's ring.
    void add(ShmConnection& c) {
        c.watch_index = watched_.size();
        watched_.push_back({c.channel.in.watched(), &c});
    }

    void remove(ShmConnection& c) {
        watched_[c.watch_index] = watched_.back();
        watched_[c.watch_index].connection->watch_index = c.watch_index;
        watched_.pop_back();
        if (c.dirty) std::erase(dirty_, &c);
        if (c.lent) std::erase(lent_, &c);
        c.dirty = false;
        c.lent = false;
    }

    /// Calls take(connection, n) for the connections that have records, in turn, until it has
    /// returned `most` in sum. n is the sum so far. take() may remove its connection.
    /// `any_drains`: also for those in State::kDraining.
    template <class Take>
    size_t poll(size_t most, bool any_drains, Take&& take) {
        size_t count = 0;
        for (size_t left = watched_.size(); left > 0 && count < most; --left) {
            if (next_ >= watched_.size()) next_ = 0;
            const Watch one = watched_[next_];
            if (!RingReader::ready(one.word) &&
                (!any_drains || one.connection->state != ShmConnection::State::kDraining)) {
                ++next_;
                continue;
            }
            count += take(*one.connection, count);
            // If the connection was removed, the last one in the list has taken its place.
            if (next_ < watched_.size() && watched_[next_].connection == one.connection) ++next_;
            if (watched_.empty()) break;
        }
        return count;
    }

    /// Records were taken from its ring: their payloads stay until give_back(), and poll() looks
    /// for the record after them.
    void lend(ShmConnection& c) {
        watched_[c.watch_index].word = c.channel.in.watched();
        if (c.lent) return;
        c.lent = true;
        lent_.push_back(&c);
    }

    /// Gives the room of all taken records back to the peers.
    void give_back() {
        for (ShmConnection* const c : lent_) {
            c->lent = false;
            c->channel.in.give_back();
        }
        lent_.clear();
    }

    /// Records were written into its ring.
    void mark_dirty(ShmConnection& c) {
        if (c.dirty) return;
        c.dirty = true;
        dirty_.push_back(&c);
    }

    /// Shows the peers all written records, and calls wake(connection) for those that sleep.
    template <class Wake>
    void flush(Wake&& wake) {
        if (dirty_.empty()) return;
        bool asymmetric = true;
        for (ShmConnection* const c : dirty_) {
            c->channel.out.publish();
            asymmetric = asymmetric && c->asymmetric;
        }
        light_fence(asymmetric);  // one for all connections
        for (ShmConnection* const c : dirty_) {
            c->dirty = false;
            if (take_armed(c->channel.out.control())) wake(*c);
        }
        dirty_.clear();
    }

    /// Asks the peers to wake us when they write, or no longer.
    void set_all_armed(bool armed) const {
        for (const Watch& one : watched_)
            set_armed(one.connection->channel.in.control(), armed);
    }

    [[nodiscard]] bool any_ready() const noexcept {
        for (const Watch& one : watched_) {
            if (RingReader::ready(one.word)) return true;
        }
        return false;
    }

    /// Calls fn(ShmConnection&) for each. fn must not add or remove any.
    template <class Fn>
    void for_each(Fn&& fn) const {
        for (const Watch& one : watched_)
            fn(*one.connection);
    }

private:
    /// A ring that every poll looks into. Apart from ShmConnection, so that the scan stays
    /// compact.
    struct Watch {
        uint64_t* word = nullptr;
        ShmConnection* connection = nullptr;
    };

    std::vector<Watch> watched_;
    size_t next_ = 0;  ///< where the next poll() begins
    std::vector<ShmConnection*> dirty_;
    std::vector<ShmConnection*> lent_;
};

}  // namespace weir::transport::shm
