// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The limits of one endpoint.

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

/// Entries of the receive queue: for 256 connections with 128 messages in flight each, less the
/// spare buffers. With messages of 8 KiB that is 256 MiB of buffers, which are made only as
/// connections come.
inline constexpr uint32_t kReceivesMost = 256 * 128;
/// Sends in flight of all connections. The completion queue gets as many more entries, of 64
/// bytes.
inline constexpr uint32_t kSendsMost = 32768;
/// Send rings of ended connections that stay registered for later ones.
inline constexpr size_t kSpareRingsMost = 16;

inline constexpr uint64_t kCloseMs = 1000;  ///< for an orderly end
inline constexpr uint64_t kDrainMs = 2000;  ///< for the device to flush a queue pair
/// After that, for the device to report that the queue pair holds no buffer of the receive queue
/// any more. InfiniBand devices report it. rxe (Linux 6.1) does not, but completes half-filled
/// buffers.
inline constexpr uint64_t kLastReceiveMs = 100;
inline constexpr uint64_t kHurryMs = 1000;  ///< for all ends when an endpoint is destroyed

/// Sockets and clocks are looked at once in so many polls that found nothing, or four times as
/// many that found something; more often while a connection begins or ends.
inline constexpr uint32_t kIdlePollsPerWatch = 64;
inline constexpr uint32_t kBusyPollsPerWatch = 4 * kIdlePollsPerWatch;
inline constexpr uint32_t kChangingPollsPerWatch = 4;

/// The watcher's names for descriptors that do not belong to a connection.
inline constexpr uint64_t kWatchListener = 1;
inline constexpr uint64_t kWatchCompletions = 2;
inline constexpr uint64_t kWatchDevice = 3;
inline constexpr uint64_t kWatchNotes = 4;
inline constexpr uint64_t kWatchAlarm = 5;
inline constexpr uint64_t kWatchCm = 6;

/// Send requests of one connection: its messages, its operations and those that are reserved.
[[nodiscard]] inline uint32_t send_depth(const EndpointOptions& options, const Hardware& hardware) {
    const uint32_t wanted = options.messages_in_flight + kOperationsMost + SendQueue::kReserved;
    return std::min(wanted, static_cast<uint32_t>(hardware.limits.max_qp_wr));
}

/// Size of the ring where messages wait to be sent: room for eight of the longest, and at least
/// 2 KiB for each in flight, since most are short.
[[nodiscard]] inline uint32_t send_ring_bytes(const EndpointOptions& options) {
    const uint32_t bytes =
        std::max(8 * options.message_bytes_max, 2048 * options.messages_in_flight);
    return (bytes + 4095) / 4096 * 4096;
}

}  // namespace weir::transport::verbs
