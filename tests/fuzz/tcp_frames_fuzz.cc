// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any frames that a peer sends over tcp, once it has proved the secret, change no
/// memory but what was exposed for writing, and do not crash. An input is what the peer sends; the
/// address and the key of the exposed memory are put in for the words kAddressWord and kKeyWord.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "tests/transport/tcp/raw_peer.h"
#include "transport/tcp/tcp.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::tcp;

constexpr uint64_t kAddressWord = 0x4141414141414141;
constexpr uint64_t kKeyWord = 0x4b4b4b4b4b4b4b4b;
constexpr size_t kPageBytes = 4096;

/// An endpoint with a page to read and one to write, between pages that nobody may touch.
struct Target {
    Secret secret{std::byte{1}};
    std::unique_ptr<Device> device;
    std::unique_ptr<Endpoint> endpoint;
    std::vector<std::byte> memory = std::vector<std::byte>(5 * kPageBytes);
    std::vector<Completion> completions = std::vector<Completion>(16);

    Target() {
        set_log_sink({});
        DeviceOptions options;
        options.secret = secret;
        options.bind_address = "127.0.0.1";
        device = std::move(make_device(options).value());
        endpoint = std::move(device->make_endpoint({}).value());
        WEIR_CHECK(device->register_memory({page(1)}, Access::kRemoteRead).has_value());
        WEIR_CHECK(device->register_memory({page(3)}, Access::kRemoteWrite).has_value());
    }

    std::span<std::byte> page(size_t number) {
        return std::span(memory).subspan(number * kPageBytes, kPageBytes);
    }

    /// Polls once. Returns the number of connections that ended; `accepted` becomes the last one.
    size_t poll(ConnectionId& accepted) {
        size_t ended = 0;
        const size_t count = endpoint->poll(completions);
        for (size_t i = 0; i < count; ++i) {
            if (completions[i].event == Event::kAccepted) accepted = completions[i].connection;
            if (completions[i].event == Event::kClosed) ++ended;
        }
        return ended;
    }
};

void replace_words(std::vector<std::byte>& bytes, uint64_t word, uint64_t by) {
    for (size_t i = 0; i + sizeof word <= bytes.size(); i += sizeof word) {
        uint64_t here = 0;
        std::memcpy(&here, bytes.data() + i, sizeof here);
        if (here == word) std::memcpy(bytes.data() + i, &by, sizeof by);
    }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static Target target;
    ConnectionId accepted = 0;
    tcp::testing::RawPeer peer(target.secret);
    WEIR_CHECK(peer.connect(target.endpoint->address(),
                            target.endpoint->capabilities().message_bytes_max,
                            [&] { static_cast<void>(target.poll(accepted)); }));
    while (accepted == 0)
        static_cast<void>(target.poll(accepted));
    const size_t page = size > 0 && data[size - 1] % 2 == 0 ? 1 : 3;
    const RemoteSpan span = target.endpoint->expose(accepted, target.page(page)).value();
    std::vector<std::byte> bytes(size);
    if (size > 0) std::memcpy(bytes.data(), data, size);
    replace_words(bytes, kAddressWord, span.address);
    replace_words(bytes, kKeyWord, span.key);
    ConnectionId none = 0;
    size_t ended = 0;
    for (size_t sent = 0; sent < bytes.size() && ended == 0;) {
        const size_t now = peer.send(std::span(bytes).subspan(sent));
        sent += now;
        ended += target.poll(none);
        static_cast<void>(peer.received());
        if (peer.is_closed()) break;
    }
    peer.stop_sending();
    while (ended == 0) {
        ended += target.poll(none);
        static_cast<void>(peer.received());
    }
    for (const size_t untouched : {0, 1, 2, 4}) {
        const auto there = target.page(untouched);
        WEIR_CHECK(std::all_of(there.begin(), there.end(),
                               [](std::byte byte) { return byte == std::byte{}; }));
    }
    return 0;
}
