// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The limits of one endpoint.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/clock.h"

namespace weir::transport::tcp {

inline constexpr std::string_view kScheme = "tcp:";

inline constexpr uint32_t kMessageBytesMin = 256;
inline constexpr uint32_t kMessageBytesMost = 1 << 20;
inline constexpr uint32_t kConnectionsMost = 60'000;

/// What a connection's input buffer holds beside the longest message.
inline constexpr size_t kInputBytes = 64 << 10;
/// What one connection may receive in one poll, so that the others get their turn.
inline constexpr size_t kReceivedBytesPerPoll = 1 << 20;
/// Messages wait in the output for the kernel to take them, in so many bytes each at least.
inline constexpr size_t kOutputBytesPerMessage = 512;
/// So many bytes leave at once, although flush() was not called: the peer may begin with them.
inline constexpr size_t kOutputBytesPerSend = 32 << 10;
/// Parts that one call to the kernel sends.
inline constexpr size_t kPartsPerSend = 16;

/// Where so many bytes of data are expected, only few are received behind them: those would be
/// copied once more.
inline constexpr size_t kDirectBytesMany = 64 << 10;
inline constexpr size_t kInputBytesBehindMany = 4 << 10;

/// The sockets of so few connections that received something of late are read without asking which
/// ones are ready; all are asked for once in so many polls.
inline constexpr size_t kBusyConnectionsMost = 4;
inline constexpr uint32_t kBusyPollsPerWatch = 8;

/// While there is no connection, the listener is looked at once in so many polls.
inline constexpr uint32_t kIdlePollsPerWatch = 64;

inline constexpr uint64_t kCloseNs = kSecond;  ///< for an orderly end
inline constexpr uint64_t kHurryNs = kSecond;  ///< for all ends when an endpoint is destroyed

/// The watcher's names for descriptors that do not belong to a connection.
inline constexpr uint64_t kWatchListener = 1;
inline constexpr uint64_t kWatchAlarm = 2;
inline constexpr uint64_t kFirstConnection = 16;

}  // namespace weir::transport::tcp
