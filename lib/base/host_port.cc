// SPDX-License-Identifier: Apache-2.0
#include "lib/base/host_port.h"

#include <charconv>

#include <fmt/core.h>

namespace weir {
namespace {

constexpr size_t kShownBytes = 80;  // of what a message repeats

}  // namespace

Result<HostPort> HostPort::parse(std::string_view text) {
    const auto bad = [&](const std::string& what) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("'{}' is not HOST:PORT: {}; give a name or an address, and a port "
                                 "from 1 to 65535, such as node7:4000, 10.0.0.7:4000 or "
                                 "[fe80::1]:4000",
                                 text.substr(0, kShownBytes), what));
    };
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad("there is no ':' with a port");
    std::string_view host = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
    if (brackets) host = host.substr(1, host.size() - 2);
    if (host.empty()) return bad("there is no host before the ':'");
    if (host.size() > kHostBytesMax)
        return bad(fmt::format("the host has more than {} bytes", kHostBytesMax));
    const std::string_view shown = host.substr(0, kShownBytes);
    if (host.find_first_of(std::string_view("[] \t\n\0", 6)) != std::string_view::npos)
        return bad(fmt::format("the host '{}' has a bracket or a space in it", shown));
    const bool has_colon = host.find(':') != std::string_view::npos;
    if (has_colon && !brackets)
        return bad(fmt::format("the host '{}' has colons, and no brackets around it", shown));
    if (brackets && !has_colon)
        return bad(
            fmt::format("the host '{}' has brackets, which only an IPv6 address has", shown));
    uint16_t port = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (code != std::errc{} || end != digits.data() + digits.size() || port == 0)
        return bad(fmt::format("'{}' is not a port", digits.substr(0, kShownBytes)));
    return HostPort{std::string(host), port};
}

std::string HostPort::text() const {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                               : fmt::format("[{}]:{}", host, port);
}

}  // namespace weir
