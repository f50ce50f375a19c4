// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes that an unknown peer sends over the side channel of verbs are refused, or
/// the handshake waits for more. There is no crash, no read out of bounds and no proof without the
/// secret. Layout of an input: a byte that chooses the side and the step that an honest peer has
/// reached, then the unknown peer's bytes in pieces; the byte before each piece gives its length.

#include "weir_features.h"

#if WEIR_HAVE_VERBS

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "lib/base/check.h"
#include "transport/verbs/setup/handshake.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using Step = ClaimHandshake::Step;

constexpr Secret kSecret{std::byte{1}};

void deliver(ClaimHandshake& from, ClaimHandshake& to, Step expected) {
    to.append(from.output());
    from.output().clear();
    const auto step = to.next();
    WEIR_CHECK(step.has_value() && *step == expected);
}

/// Feeds the unknown peer's bytes. `honest`: the peer has proved the secret before, so records of
/// an open connection are legal.
void feed(ClaimHandshake& side, std::span<const std::byte> bytes, bool honest) {
    while (!bytes.empty()) {
        const size_t wanted = std::to_integer<size_t>(bytes[0]) + 1;
        bytes = bytes.subspan(1);
        const size_t count = std::min({wanted, bytes.size(), side.room()});
        side.append(bytes.first(count));
        bytes = bytes.subspan(count);
        for (;;) {
            const auto step = side.next();
            if (!step) {
                side.refuse(step.code(), step.error().text());
                return;
            }
            if (*step == Step::kWait) break;
            if (*step == Step::kMakeClaim) side.claim({});
            WEIR_CHECK(*step != Step::kProven);
            WEIR_CHECK(honest || (*step != Step::kOpen && *step != Step::kBye));
        }
        WEIR_CHECK(side.room() > 0);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
    if (bytes.size() >= kClaimBytes) {
        const auto claim = decode_claim(bytes.first<kClaimBytes>());
        if (claim) {
            const ClaimBytes again = encode(*claim);
            WEIR_CHECK(std::equal(again.begin(), again.end(), bytes.begin()));
        }
    }
    ClaimHandshake near(Side::kConnecting, kSecret, {std::byte{2}});
    ClaimHandshake far(Side::kAccepting, kSecret, {std::byte{3}});
    if (data[0] % 3 == 0) {
        feed(far, bytes, false);
        return 0;
    }
    if (data[0] % 3 == 1) {
        feed(near, bytes, false);
        return 0;
    }
    Claim claim;
    claim.mtu = 5;
    claim.link_layer = 2;
    claim.window = 128;
    deliver(near, far, Step::kWait);
    deliver(far, near, Step::kMakeClaim);
    near.claim(claim);
    deliver(near, far, Step::kProven);
    far.claim(claim);
    feed(far, bytes, true);
    return 0;
}

#else

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* /*data*/, size_t /*size*/) {
    return 0;
}

#endif
