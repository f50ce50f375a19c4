// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: whatever a replica of a log hears from the others, it goes on, or ends with an error, and the
/// process does not. An input is a row of messages: who sends it (2 or 3), how many milliseconds pass
/// before it, its length (2 bytes), and its bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/consensus/false_member.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace weir;
    if (!consensus::have_replicated_log()) return 0;
    testing::FalseMember members(1);
    uint64_t sender = 0;
    const auto input = std::as_bytes(std::span(data, size));
    for (size_t place = 0; place + 4 <= size && place < 4096;) {
        const uint64_t next = 2 + data[place] % 2;
        members.run(kMillisecond * data[place + 1]);
        if (next != sender || members.is_closed) members.connect(next);
        sender = next;
        const size_t length = data[place + 2] + size_t{256} * data[place + 3];
        const auto message = input.subspan(place + 4).first(std::min(length, size - place - 4));
        members.send(message);
        place += 4 + message.size();
    }
    members.run(20 * kMillisecond);
    return 0;
}
