// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/fault.h"

#include <cstring>

#include "lib/wire/frame.h"

namespace weir::wire {

std::string_view fault_of(std::span<const std::byte> message) noexcept {
    constexpr uint32_t kProtocolBits = 0x00ff'ffff;  // "WIR", without the version
    uint32_t magic = 0;
    if (message.size() >= sizeof magic) std::memcpy(&magic, message.data(), sizeof magic);
    const bool is_other_version = magic != kMagic && ((magic ^ kMagic) & kProtocolBits) == 0;
    return is_other_version ? "a frame of another version of Weir: use one version everywhere"
                            : "a malformed frame";
}

}  // namespace weir::wire
