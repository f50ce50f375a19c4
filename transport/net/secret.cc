// SPDX-License-Identifier: Apache-2.0
#include "transport/net/secret.h"

#include <vector>

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "lib/base/check.h"

namespace weir::transport {

std::array<std::byte, 32> random_bytes() {
    std::array<std::byte, 32> bytes{};
    WEIR_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    return bytes;
}

Proof make_proof(const Secret& secret, Side prover, const Nonce& connecting, const Nonce& accepting,
                 std::span<const std::byte> payload) {
    std::vector<std::byte> text{static_cast<std::byte>(prover)};
    text.insert(text.end(), connecting.begin(), connecting.end());
    text.insert(text.end(), accepting.begin(), accepting.end());
    text.insert(text.end(), payload.begin(), payload.end());
    Proof proof{};
    unsigned length_bytes = 0;
    const unsigned char* const done =
        HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(proof.data()), &length_bytes);
    WEIR_CHECK(done != nullptr && length_bytes == proof.size());
    return proof;
}

bool equal(const Proof& a, const Proof& b) noexcept {
    return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace weir::transport
