// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Bootstrap: lets the ranks of a job find each other at the start, whichever launcher started
/// them.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/config.h"
#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir {

struct Contact;

namespace boot {
class OpenRendezvous;
}

/// A small key-value exchange among the ranks of a job. Each rank puts values, calls exchange(),
/// and gets the values of the other ranks. This may be repeated; a rank puts each key once.
///
/// Thread:  one; exchange() and finish() block, but never longer than their time limits
class Bootstrap {
public:
    static constexpr size_t kKeyBytesMax = 40;  ///< letters, digits, '-', '_' and '.'
    static constexpr size_t kValueBytesMax = 4096;

    virtual ~Bootstrap() = default;
    Bootstrap(const Bootstrap&) = delete;
    Bootstrap& operator=(const Bootstrap&) = delete;

    [[nodiscard]] virtual uint32_t rank() const noexcept = 0;
    [[nodiscard]] virtual uint32_t size() const noexcept = 0;
    /// "PMIx", "PMI-1", "rendezvous" or "in-process".
    [[nodiscard]] virtual std::string_view name() const noexcept = 0;

    /// Offers any bytes to the other ranks; they see them after the next exchange().
    /// Errors:  kInvalidArgument for a key or value beyond the limits above
    virtual Status put(std::string_view key, std::string_view value) = 0;

    /// Waits until every rank has come to the same exchange and all values are visible.
    /// Errors:  kDeadline, naming the missing ranks if the launcher reports them; kPeerLost
    virtual Status exchange(uint64_t deadline_ns) = 0;

    /// The value that `rank` put under `key` before the last exchange().
    /// Errors:  kNotFound if it put no such key
    virtual Result<std::string> get(uint32_t rank, std::string_view key) = 0;

    /// Tells the launcher that this rank is finished, so that its later death does not end the
    /// job. Call nothing else afterwards.
    virtual Status finish() = 0;

    /// The address of this host on the way by which ranks of other hosts came to this one, or this
    /// one to them; after an exchange(). Unset: not known.
    [[nodiscard]] virtual transport::SocketAddress met_at() const { return {}; }

    /// finish(), but where other processes can look for the job later, they find `contact` there
    /// as long as the returned object lives and is polled. Elsewhere it returns nullptr.
    [[nodiscard]] virtual Result<std::unique_ptr<boot::OpenRendezvous>> stay_open(
        const Contact& contact);

protected:
    Bootstrap() = default;
};

/// How this process is to find the others of its job.
struct Meeting {
    enum class Way : uint8_t { kAlone, kRendezvous, kPmix, kPmi1 };
    Way way = Way::kAlone;
    // None: nobody says it before the ranks meet.
    std::optional<uint32_t> rank = {};
    std::optional<uint32_t> size = {};
};

/// Chooses by the environment and the flags, and talks to nobody. The first of these that applies:
/// rendezvous flags; PMIx; PMI_FD; WEIR_RENDEZVOUS with rank variables (Weir's, Slurm's, Open
/// MPI's); else a job of this process alone.
/// Errors:  an invalid setting, or ranks without a way to meet; the text says what to do
[[nodiscard]] Result<Meeting> plan_meeting(const Config& config);

/// Begins what plan_meeting() chooses.
///
/// Source:  WEIR_RENDEZVOUS, WEIR_RANK, WEIR_SIZE, WEIR_SECRET_FILE and WEIR_JOIN_TIMEOUT_S of
///          `config`
/// Errors:  as well a port in use, a launcher that cannot be used
[[nodiscard]] Result<std::unique_ptr<Bootstrap>> detect_bootstrap(const Config& config,
                                                                  const Clock& clock);

/// A job of one rank: get() returns what it put.
[[nodiscard]] std::unique_ptr<Bootstrap> make_bootstrap_alone();

/// The current time plus WEIR_JOIN_TIMEOUT_S. Errors: kInvalidArgument if that is not a number in
/// range.
[[nodiscard]] Result<uint64_t> join_deadline_ns(const Config& config, const Clock& clock);

namespace boot {

/// Checks the limits of Bootstrap::put(), for every implementation.
[[nodiscard]] Status check_entry(std::string_view key, std::string_view value);

/// "rank 3", "ranks 1, 3 and 7", "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 90 more".
[[nodiscard]] std::string rank_list(const std::vector<uint32_t>& ranks);

/// The timeout for poll(): the time until the deadline, at most 100 ms, so that the caller looks
/// often at a clock that does not run with the machine's. 0 when the deadline has passed.
[[nodiscard]] int poll_slice_ms(const Clock& clock, uint64_t deadline_ns) noexcept;

}  // namespace boot
}  // namespace weir
