// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: any bytes in an entry of the managers' log are refused or decoded. What was decoded is the
/// same after it is encoded and decoded again, and an endpoint that is fed with it brings no message of a
/// connection that is not open.

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "lib/base/check.h"
#include "lib/manager/replicated/fed_endpoint.h"
#include "lib/manager/replicated/manager_input.h"

namespace {

using namespace weir;

class NoConnections final : public FedEndpoint::Connections {
public:
    void send(transport::ConnectionId /*connection*/, FedEndpoint::Parts /*parts*/) override {}

    void close(transport::ConnectionId /*connection*/) override {}

    [[nodiscard]] std::string name_of(transport::ConnectionId /*connection*/) const override {
        return "a peer";
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // A copy of its own, so that the sanitizer sees reads beyond the entry.
    const std::vector<uint8_t> entry(data, data + size);
    const auto input = ManagerInput::decode(std::as_bytes(std::span(entry)));
    if (!input) return 0;
    WEIR_CHECK(ManagerInput::decode(input->encode()) == input);
    NoConnections nobody;
    FedEndpoint endpoint(nobody, "fed");
    endpoint.break_all(8192);
    endpoint.feed(input->events);
    std::set<uint64_t> open;
    std::array<transport::Completion, 4> completions;
    while (!endpoint.is_drained()) {
        const size_t count = endpoint.poll(completions);
        for (const transport::Completion& one : std::span(completions).first(count)) {
            const bool is_new = one.event == transport::Event::kAccepted;
            WEIR_CHECK(open.contains(one.connection) != is_new);
            if (is_new) open.insert(one.connection);
            if (one.event == transport::Event::kClosed) open.erase(one.connection);
        }
    }
    return 0;
}
