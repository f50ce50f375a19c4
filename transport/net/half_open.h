// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// HalfOpenPlaces: the places of a listener for peers that have connected and are not through
/// their handshake yet.
///
/// A peer on a busy machine may be slow, so it gets as long as a connecting side waits. But
/// places are few, and connections that never prove anything could hold them all that time. So
/// when all places are taken and a new connection needs one, the oldest unproven connection is
/// closed after a small part of that time. A peer that is closed for this reason gets it as an
/// error, and connects again.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/repeated_log.h"

namespace weir::transport {

/// How long a connection attempt lasts unless the caller says otherwise: the default of
/// WEIR_JOIN_TIMEOUT_S.
inline constexpr uint64_t kHandshakeTimeoutNs = 30 * kSecond;

/// How many places a listener has unless the caller says otherwise. Further peers wait in the
/// kernel's backlog.
inline constexpr uint32_t kHalfOpenPlacesMax = 64;

/// The age at which an unproven connection is closed if its place is wanted. With 64 places, some
/// 2000 silent connections that are made again at once delay a peer, but do not keep it out.
[[nodiscard]] constexpr uint64_t eviction_age_ns(uint64_t handshake_timeout_ns) noexcept {
    return std::min(handshake_timeout_ns / 32, kSecond);
}

/// Thread: the listener's.
class HalfOpenPlaces {
public:
    /// No place becomes free by waiting: every holder has proved itself.
    static constexpr uint64_t kUntilFreedNs = std::numeric_limits<uint64_t>::max();
    /// The text to a peer that loses its place, with the code kDeadline. It connects again.
    static constexpr std::string_view kRetryText =
        "no proof of the secret in time while other peers wait; connect again";
    /// The text of the log for such a peer.
    static constexpr std::string_view kEvictedText =
        "it did not prove in time that it knows the secret, and other peers wait; if it belongs to "
        "this job, it connects again";

    /// `clock` must outlive it.
    HalfOpenPlaces(const Clock& clock, uint32_t places, uint64_t timeout_ns)
        : clock_(clock), places_(places), timeout_ns_(timeout_ns) {}

    /// The connection `id` was accepted. Ids are not used twice.
    void take(uint64_t id) { holders_.push_back({id, clock_.now_ns(), false}); }

    /// The peer has proved that it knows the secret: it keeps its place until leave().
    void prove(uint64_t id) noexcept {
        if (Holder* const holder = find(id)) holder->proven = true;
    }

    /// The connection is open now, or has ended. False: it has no place.
    bool leave(uint64_t id) noexcept {
        return std::erase_if(holders_, [&](const Holder& one) { return one.id == id; }) > 0;
    }

    [[nodiscard]] uint32_t count() const noexcept { return static_cast<uint32_t>(holders_.size()); }

    [[nodiscard]] bool is_full() const noexcept { return holders_.size() >= places_; }

    /// When the next connection may be accepted, by taking the place of next_evicted() if
    /// is_full(). 0: now. kUntilFreedNs: after a leave().
    [[nodiscard]] uint64_t next_ns() const noexcept {
        if (!is_full()) return 0;
        const Holder* const oldest = oldest_unproven();
        return oldest == nullptr ? kUntilFreedNs : oldest->since_ns + eviction_age_ns(timeout_ns_);
    }

    /// Whose place the next connection gets: the oldest of those that have proved nothing.
    [[nodiscard]] std::optional<uint64_t> next_evicted() const noexcept {
        const Holder* const oldest = oldest_unproven();
        return oldest == nullptr ? std::nullopt : std::optional(oldest->id);
    }

    /// A connection whose handshake takes longer than the time that it has.
    [[nodiscard]] std::optional<uint64_t> late() const noexcept {
        if (holders_.empty() || clock_.now_ns() < holders_.front().since_ns + timeout_ns_) {
            return std::nullopt;
        }
        return holders_.front().id;
    }

    /// The log of lines that peers can cause any number of times before they prove the secret: a
    /// connection that was closed, or that could not be accepted.
    [[nodiscard]] RepeatedLog& log() noexcept { return log_; }

private:
    struct Holder {
        uint64_t id = 0;
        uint64_t since_ns = 0;
        bool proven = false;
    };

    [[nodiscard]] Holder* find(uint64_t id) noexcept {
        const auto found = std::ranges::find(holders_, id, &Holder::id);
        return found == holders_.end() ? nullptr : &*found;
    }

    [[nodiscard]] const Holder* oldest_unproven() const noexcept {
        const auto found = std::ranges::find(holders_, false, &Holder::proven);
        return found == holders_.end() ? nullptr : &*found;
    }

    const Clock& clock_;
    const uint32_t places_;
    const uint64_t timeout_ns_;
    std::vector<Holder> holders_;  ///< oldest first
    RepeatedLog log_{clock_};
};

}  // namespace weir::transport
