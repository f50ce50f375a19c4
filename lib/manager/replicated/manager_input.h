// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ManagerInput: what a manager hears, as an entry of the log that several managers agree on. A manager does
/// nothing but what follows from its inputs, so all that go through the same log are in the same state.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "transport/transport.h"

namespace weir {

/// What a connection has brought to the manager that leads. Connections have numbers of their own in the
/// log, which no two have.
struct ManagerEvent {
    transport::Event event = transport::Event::kClosed;  ///< kAccepted, kReceived or kClosed
    uint64_t connection = 0;
    bool peer_ended = false;         ///< as in transport::Completion
    std::vector<std::byte> message;  ///< kReceived

    friend bool operator==(const ManagerEvent&, const ManagerEvent&) = default;
};

/// How something ended that a manager has had done on a disk.
struct DiskAnswer {
    Errc status = Errc::kOk;
    std::string why = {};  ///< if it failed
    uint64_t number = 0;   ///< what was asked for

    friend bool operator==(const DiskAnswer&, const DiskAnswer&) = default;
};

struct ManagerInput {
    enum class Kind : uint8_t {
        kEvents = 1,  ///< what has come; nothing: time has passed
        kLead = 2,    ///< another manager leads from here on: all connections are gone
        kDisk = 3,    ///< the disk has done what was asked for `work`-th
        kEnded = 4,   ///< the process with a manager has ended that names itself so in its links
    };

    static constexpr size_t kEventsMax = 1024;
    static constexpr size_t kHeadBytes = 64;   ///< at most, before the events
    static constexpr size_t kEventBytes = 16;  ///< beside the message

    Kind kind = Kind::kEvents;
    uint64_t now_ns = 0;  ///< the managers' common time
    // kEvents:
    bool is_all = true;             ///< nothing more had come by then
    bool is_being_stopped = false;  ///< as JobOptions::is_being_stopped
    bool wants_checkpoint = false;  ///< as JobOptions::wants_checkpoint
    std::vector<ManagerEvent> events;
    uint32_t message_bytes_max = 0;  ///< kLead: of its connections
    // kDisk:
    uint64_t work = 0;
    DiskAnswer answer;
    uint64_t process = 0;  ///< kEnded

    /// Adds to what encode() makes of the rest.
    [[nodiscard]] static size_t bytes_of(const ManagerEvent& event) noexcept {
        return kEventBytes + event.message.size();
    }

    [[nodiscard]] std::vector<std::byte> encode() const;
    /// Errors: nothing, if it is malformed
    [[nodiscard]] static std::optional<ManagerInput> decode(std::span<const std::byte> bytes);

    friend bool operator==(const ManagerInput&, const ManagerInput&) = default;
};

}  // namespace weir
