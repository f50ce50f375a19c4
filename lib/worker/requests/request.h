// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ClientRequest: a content on its way to one shard, or to the manager, and the attempt to send it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "lib/base/check.h"
#include "lib/store/memory.h"
#include "lib/wire/frame.h"
#include "lib/worker/calls/calls.h"
#include "lib/worker/requests/content.h"

namespace weir {

/// What one sending consists of. Another one may take another form; copies stay for it.
struct Attempt {
    /// How keys and values travel, and in what order: flags of the frame that was sent last.
    uint8_t form = 0;
    bool has_values_remote = false;  ///< push: the shard reads its values from memory
    bool has_out_remote = false;     ///< the shard writes values to memory; else into its reply
    uint32_t send_number = 0;        ///< of an ordered push in its PieceOrder
    /// Push: the codecs of its body, which is then in `values_copy`, and stays the same however often it is
    /// sent; 0: none. Pull: those that it takes, so that `out_copy` gets a body.
    Codecs codecs = 0;
    bool is_plain = false;  ///< push: a body would be no shorter than its values

    /// Of one whose codecs are chosen by the speed of the link.
    struct Timing {
        uint64_t sent_ns = 0;
        uint64_t sent_bytes = 0;
        uint64_t ahead_bytes = 0;  ///< as LinkSpeed::sent() has returned
    };

    std::unique_ptr<Timing> timing;  ///< null: it is not measured
    Block keys_copy;                 ///< registered copies of what the caller did not register
    Block values_copy;               ///< the same, of a push
    Block
        out_copy;  ///< where the shard writes what the caller did not register, or what a scan finds

    /// What travels for the values of `content`.
    [[nodiscard]] size_t pushed_bytes(const Content& content) const noexcept {
        return content.is_push() && codecs != 0 ? values_copy.bytes() : content.pushed_bytes();
    }

    [[nodiscard]] bool has_keys_in_body() const noexcept { return (codecs & kKeyDifferences) != 0; }

    [[nodiscard]] bool has_keys_known() const noexcept { return (form & wire::kKeysKnown) != 0; }

    /// Whether the shard was given addresses in the caller's memory.
    [[nodiscard]] bool exposes_caller() const noexcept {
        return ((form & wire::kKeysRemote) != 0 && !keys_copy) ||
               (has_values_remote && !values_copy) || (has_out_remote && !out_copy);
    }
};

/// Thread: the client's
class ClientRequest {
public:
    enum class State : uint8_t {
        kUnsent,     ///< new, or to be sent again, and maybe in a Lane
        kSent,       ///< its reply is to come
        kWithdrawn,  ///< barrier, work: the same, and the manager knows that the call has ended
        kHeld,       ///< its reply is in HeldFailures
        kStale,      ///< the shard has a later view: it waits for that one
        kKeptAside   ///< it never ends: the server did not release its memory
    };

    Calls::Id call = 0;  ///< 0: kKeptAside
    uint32_t peer = 0;   ///< number of a shard, or Peers::kManager
    Attempt attempt;

    [[nodiscard]] const Content& content() const noexcept { return content_; }

    [[nodiscard]] State state() const noexcept { return state_; }

    /// A kSent came before: a shard may have executed it.
    [[nodiscard]] bool was_sent() const noexcept { return was_sent_; }

    /// A connection to its shard closed without the shard's confirmation: until another one brings
    /// the reply, the shard may reach its memory.
    [[nodiscard]] bool is_in_doubt() const noexcept { return is_in_doubt_; }

    [[nodiscard]] bool awaits_reply() const noexcept {
        return state_ == State::kSent || state_ == State::kWithdrawn;
    }

    /// Whether a server may read or write the caller's memory for it.
    [[nodiscard]] bool is_caller_reached() const noexcept {
        return state_ == State::kSent && attempt.exposes_caller();
    }

    /// Whether it reads or writes the caller's memory, or may have to: it is to be sent, or its keys
    /// were sent as a hash, which the shard may have forgotten.
    [[nodiscard]] bool needs_caller() const noexcept {
        return state_ == State::kUnsent || state_ == State::kStale || attempt.has_keys_known() ||
               is_caller_reached();
    }

    void enter(State next) noexcept {
        WEIR_CHECK(state_ != State::kKeptAside);
        switch (next) {
            case State::kSent:
                WEIR_CHECK(state_ == State::kUnsent && call != 0);
                was_sent_ = true;
                break;
            case State::kWithdrawn: WEIR_CHECK(state_ == State::kSent); break;
            case State::kHeld:
            case State::kStale: WEIR_CHECK(awaits_reply()); break;
            case State::kUnsent:
            case State::kKeptAside: break;
        }
        state_ = next;
    }

    /// A connection closed while it awaited the reply.
    void doubt() noexcept {
        WEIR_CHECK(state_ == State::kSent && (content_.is_piece() || content_.is_scan()));
        is_in_doubt_ = true;
    }

    /// Its shard, or the memory that it might reach, is known to be done with it.
    void resolve_doubt() noexcept { is_in_doubt_ = false; }

private:
    friend class Requests;  // makes it, and replaces its content

    State state_ = State::kUnsent;
    bool was_sent_ = false;
    bool is_in_doubt_ = false;
    Content content_;
};

}  // namespace weir
