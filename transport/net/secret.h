// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The job secret and the proof of knowing it: HMAC-SHA256 (libcrypto's) over both sides' nonces
/// and over what each side says of itself, so that no connection of another job or of a stranger
/// gets in.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::transport {

/// Shared by all processes of one job; made by rank 0, handed out by the launcher.
using Secret = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

/// 32 bytes from the operating system's generator.
[[nodiscard]] std::array<std::byte, 32> random_bytes();

enum class Side : uint8_t { kConnecting = 1, kAccepting = 2 };

/// The proof of `prover`: HMAC(secret, side | connecting nonce | accepting nonce | said), where
/// `said` is everything that the prover claims in the handshake (queue pair numbers, keys, memory
/// sizes).
[[nodiscard]] Proof make_proof(const Secret& secret, Side prover, const Nonce& connecting,
                               const Nonce& accepting, std::span<const std::byte> said);

/// Compares in constant time.
[[nodiscard]] bool equal(const Proof& a, const Proof& b) noexcept;

}  // namespace weir::transport
