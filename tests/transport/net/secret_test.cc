// SPDX-License-Identifier: Apache-2.0
#include "transport/net/secret.h"

#include <doctest/doctest.h>

TEST_SUITE("secret") {
    using namespace weir::transport;

    TEST_CASE("a proof depends on the secret, the side, both nonces and the data") {
        const Secret secret = random_bytes();
        const Nonce a = random_bytes();
        const Nonce b = random_bytes();
        const std::array<std::byte, 4> payload{};
        const std::array<std::byte, 4> other{std::byte{1}};
        const Proof proof = make_proof(secret, Side::kConnecting, a, b, payload);
        CHECK(equal(proof, make_proof(secret, Side::kConnecting, a, b, payload)));
        CHECK_FALSE(equal(proof, make_proof(random_bytes(), Side::kConnecting, a, b, payload)));
        CHECK_FALSE(equal(proof, make_proof(secret, Side::kAccepting, a, b, payload)));
        CHECK_FALSE(equal(proof, make_proof(secret, Side::kConnecting, b, a, payload)));
        CHECK_FALSE(equal(proof, make_proof(secret, Side::kConnecting, a, b, other)));
    }
}
