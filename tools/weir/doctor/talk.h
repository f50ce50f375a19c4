// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Talk: the connection over which two `weir doctor` agree on what they try. Lines of text.

#include <string>
#include <string_view>

#include "lib/base/descriptor.h"
#include "lib/base/result.h"
#include "transport/net/socket_address.h"

namespace weir::tools {

/// Each call waits for 30 s at most. Thread: one
class Talk {
public:
    explicit Talk(Descriptor socket);

    /// Errors: kUnavailable naming the address, and what to do
    [[nodiscard]] static Result<Talk> call(const transport::SocketAddress& at);

    [[nodiscard]] Status say(std::string_view line);
    /// Errors: kPeerLost, kDeadline
    [[nodiscard]] Result<std::string> hear();
    /// Whether hear() has something to return at once.
    [[nodiscard]] bool has_line() const;

    [[nodiscard]] int fd() const noexcept { return socket_.get(); }

private:
    Descriptor socket_;
    std::string heard_;
};

}  // namespace weir::tools
