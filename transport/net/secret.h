// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The job's secret and the proof of knowing it: an HMAC-SHA256 (by libcrypto) over both sides'
/// nonces and payloads. It keeps out connections of other jobs and other programs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::transport {

/// Shared by all processes of one job; rank 0 makes it, or every rank reads it from a file.
using Secret = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// 32 bytes from the operating system's generator.
[[nodiscard]] std::array<std::byte, 32> random_bytes();

enum class Side : uint8_t { kConnecting = 1, kAccepting = 2 };

/// The proof of `prover`: HMAC(secret, side | connecting nonce | accepting nonce | payload),
/// where `payload` is everything that the handshake protects (queue pair numbers, keys, memory
/// sizes).
[[nodiscard]] Proof make_proof(const Secret& secret, Side prover, const Nonce& connecting,
                               const Nonce& accepting, std::span<const std::byte> payload);

/// Compares in constant time.
[[nodiscard]] bool equal(const Proof& a, const Proof& b) noexcept;

}  // namespace weir::transport
