// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The limits of one endpoint, term by term.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "transport/transport.h"
#include "transport/verbs/hardware.h"
#include "transport/verbs/send_queue.h"

namespace weir::transport::verbs {

inline constexpr std::string_view kScheme = "verbs:";

inline constexpr uint32_t kMessageBytesMin = 256;
inline constexpr uint32_t kMessageBytesMost = 1 << 20;
inline constexpr uint32_t kMessagesInFlightMost = 4096;
inline constexpr uint32_t kConnectionsMost = 60'000;  ///< a connection's slot has 16 bits
/// Reads and writes in flight per connection.
inline constexpr uint32_t kOperationsMost = 64;

/// Entries of the receive queue: 256 connections of 128 messages in flight, but for the spare ones;
/// with messages of 8 KiB that is 256 MiB of buffers, made only as connections come.
inline constexpr uint32_t kReceivesMost = 256 * 128;
/// Sends in flight of all connections: as many again in the completion queue, 64 bytes each.
inline constexpr uint32_t kSendsMost = 32768;
/// Strangers that have connected and not yet proved anything; more wait in the kernel's backlog.
inline constexpr uint32_t kHalfOpenMost = 64;
/// Send rings that are kept registered for connections to come.
inline constexpr size_t kSpareRingsMost = 16;

inline constexpr uint64_t kAcceptAgainMs = 100;  ///< after the system ran out of descriptors
inline constexpr uint64_t kCloseMs = 1000;       ///< for an orderly end
inline constexpr uint64_t kDrainMs = 2000;       ///< for the device to flush a queue pair
/// Then, for the device to say that the queue pair holds no buffer of the receive queue any more.
/// InfiniBand's devices do; rxe (Linux 6.1) does not, but completes what was half filled.
inline constexpr uint64_t kLastReceiveMs = 100;
inline constexpr uint64_t kHurryMs = 1000;  ///< for all ends when an endpoint is destroyed

/// Sockets and clocks are looked at every so many polls that found nothing, or four times as many
/// that did, and more often while a connection begins or ends.
inline constexpr uint32_t kIdlePollsPerWatch = 64;
inline constexpr uint32_t kBusyPollsPerWatch = 4 * kIdlePollsPerWatch;
inline constexpr uint32_t kChangingPollsPerWatch = 4;

/// What the watcher calls descriptors that are no connection's.
inline constexpr uint64_t kWatchListener = 1;
inline constexpr uint64_t kWatchCompletions = 2;
inline constexpr uint64_t kWatchDevice = 3;
inline constexpr uint64_t kWatchNotes = 4;
inline constexpr uint64_t kWatchAlarm = 5;
inline constexpr uint64_t kWatchCm = 6;

/// Work requests of a connection: its messages, its operations and our own.
[[nodiscard]] inline uint32_t send_depth(const EndpointOptions& options, const Hardware& hardware) {
    const uint32_t wanted = options.messages_in_flight + kOperationsMost + SendQueue::kReserved;
    return std::min(wanted, static_cast<uint32_t>(hardware.limits.max_qp_wr));
}

/// Where messages wait to be sent: eight of the longest, and 2 KiB for each in flight, since most
/// are short.
[[nodiscard]] inline uint32_t send_ring_bytes(const EndpointOptions& options) {
    const uint32_t bytes =
        std::max(8 * options.message_bytes_max, 2048 * options.messages_in_flight);
    return (bytes + 4095) / 4096 * 4096;
}

}  // namespace weir::transport::verbs
