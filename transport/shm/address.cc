// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/address.h"

#include <algorithm>
#include <cerrno>
#include <fstream>

#include <fmt/core.h>
#include <sys/stat.h>

#include "lib/base/random.h"
#include "transport/address_parts.h"
#include "transport/net/secret.h"

namespace weir::transport::shm {

namespace {

constexpr std::string_view kPrefix = "shm:";
constexpr size_t kHostDigits = 16;
constexpr size_t kNameDigits = 32;

bool all_hexadecimal(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

Result<std::string> host_id() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string boot;
    struct stat space = {};
    if (!std::getline(file, boot) || stat("/proc/self/ns/net", &space) != 0) {
        return Error(
            Errc::kUnavailable,
            "shm: cannot tell which host this is, because /proc is not readable: mount it, or use "
            "another transport",
            errno);
    }
    uint64_t id = mix64(space.st_ino);
    for (const char c : boot) {
        id = mix64(id + 0x9e3779b97f4a7c15ULL + static_cast<unsigned char>(c));
    }
    return fmt::format("{:016x}", id);
}

std::string random_name() {
    const auto bytes = random_bytes();
    std::string name;
    for (size_t i = 0; i < kNameDigits / 2; ++i) {
        name += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
    }
    return name;
}

std::string make_address(std::string_view host, std::string_view name) {
    return fmt::format("{}{}/{}", kPrefix, host, name);
}

Result<std::string> parse_address(std::string_view any_address, std::string_view host) {
    const std::string_view address = part_of_scheme(any_address, kPrefix);
    if (!address.starts_with(kPrefix)) {
        return wrong_scheme(address, kPrefix);
    }
    const std::string_view rest = address.substr(kPrefix.size());
    if (rest.size() != kHostDigits + 1 + kNameDigits || rest[kHostDigits] != '/' ||
        !all_hexadecimal(rest.substr(0, kHostDigits)) ||
        !all_hexadecimal(rest.substr(kHostDigits + 1))) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("\"{}\" is not an address of shm: expected shm:HOST/NAME with 16 "
                                 "and 32 hexadecimal digits",
                                 address));
    }
    if (rest.substr(0, kHostDigits) != host) {
        return Error(Errc::kUnavailable,
                     fmt::format("shm cannot reach \"{}\": another host, or another network "
                                 "namespace of this one",
                                 address));
    }
    return std::string(rest.substr(kHostDigits + 1));
}

}  // namespace weir::transport::shm
