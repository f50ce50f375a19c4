// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/pair.h"

#include <array>
#include <charconv>
#include <vector>

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/limits/memory_work.h"
#include "lib/base/clock.h"
#include "lib/base/host_port.h"
#include "lib/base/printable.h"
#include "lib/bootstrap/secret.h"
#include "tools/weir/command.h"
#include "tools/weir/doctor/judgement.h"
#include "tools/weir/doctor/talk.h"
#include "tools/weir/doctor/transfer.h"
#include "transport/net/own_address.h"
#include "transport/net/resolve.h"
#include "transport/net/socket.h"
#include "weir_features.h"

namespace weir::tools {
namespace {

using transport::SocketAddress;
using Level = Finding::Level;

constexpr std::string_view kGreeting = "weir-doctor";
constexpr std::string_view kFromFile = "file";  // the secret is in WEIR_SECRET_FILE
constexpr const char* kDriversFolder = "/sys/class/infiniband";

std::string in_hex(const transport::Secret& secret) {
    std::string text;
    for (const std::byte one : secret)
        text += fmt::format("{:02x}", std::to_integer<unsigned>(one));
    return text;
}

std::optional<transport::Secret> from_hex(std::string_view text) {
    transport::Secret secret{};
    if (text.size() != 2 * secret.size()) return std::nullopt;
    for (size_t i = 0; i < secret.size(); ++i) {
        uint8_t value = 0;
        const char* const at = text.data() + 2 * i;
        if (std::from_chars(at, at + 2, value, 16).ptr != at + 2) return std::nullopt;
        secret[i] = std::byte{value};
    }
    return secret;
}

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    for (size_t at = 0; at <= line.size();) {
        const size_t end = std::min(line.find(' ', at), line.size());
        words.emplace_back(line.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

/// The one of WEIR_SECRET_FILE; none if that is not set.
Result<std::optional<transport::Secret>> secret_of_file(const Config& config) {
    const std::string path(config.text("WEIR_SECRET_FILE"));
    if (path.empty()) return std::optional<transport::Secret>();
    WEIR_ASSIGN(const transport::Secret secret, read_secret_file(path));
    return std::optional(secret);
}

std::string host_name_here() {
    std::array<char, 256> name{};
    (void)::gethostname(name.data(), name.size() - 1);
    return name.data();
}

/// Of one core that copies 1 MiB again and again.
double copy_rate() {
    const std::vector<std::byte> from(1 << 20, std::byte{1});
    std::vector<std::byte> to(from.size());
    const SteadyClock clock;
    const uint64_t begin_ns = clock.now_ns();
    uint64_t copied = 0;
    while (clock.now_ns() < begin_ns + 100 * kMillisecond) {
        limits::copy_buffer(to.data(), from.data(), from.size());
        copied += from.size();
    }
    return static_cast<double>(copied) * 1e9 / static_cast<double>(clock.now_ns() - begin_ns);
}

/// What to do if a transport does not connect.
std::string advice_for(const std::string& transport) {
    if (transport == "verbs")
        return "`weir doctor` at both hosts shows their devices and GIDs; WEIR_RDMA_DEVICE and "
               "WEIR_RDMA_GID_INDEX choose others; without verbs, jobs use tcp";
    if (transport == "tcp")
        return "let firewalls pass all ports between the hosts, or set WEIR_PORT; if they have "
               "several networks, set WEIR_BIND on both to the one that they share";
    return "both must run as the same user, and in one container";
}

Finding try_one(Talk& talk, const TransferSetting& setting, const std::string& transport,
                double stream_rate) {
    const Result<double> measured = try_transfer(talk, setting, transport);
    if (!measured) {
        const std::string_view wanted = setting.config.text("WEIR_TRANSPORT");
        const bool is_needed = transport == (wanted == "auto" ? "tcp" : wanted);
        return {is_needed ? Level::kProblem : Level::kNote, transport + " there",
                "does not work: " + measured.error().message(), advice_for(transport)};
    }
    if (transport == "shm")
        return judge_rate("shm there", *measured, {copy_rate(), "that one core copies"},
                          "leave a core of its own to each rank");
    if (transport == "tcp")
        return judge_rate("tcp there", *measured, {stream_rate, "of a plain TCP stream"},
                          "other programs use the processors: stop them, and measure again");
    return judge_verbs(*measured, stream_rate,
                       link_rate(kDriversFolder, setting.config.text("WEIR_RDMA_DEVICE")));
}

/// Talks with the first address that answers.
Result<Talk> call_any(const HostPort& where, SocketAddress& reached) {
    WEIR_ASSIGN(const std::vector<SocketAddress> addresses, transport::resolve(where));
    for (const SocketAddress& at : addresses) {
        reached = at;
        Result<Talk> talk = Talk::call(at);
        if (talk || &at == &addresses.back()) return talk;
    }
    return Error(Errc::kNotFound, fmt::format("{} has no address", where.host));
}

/// [HOST:]PORT
Result<SocketAddress> place_to_listen(const std::string& where) {
    uint16_t port = 0;
    const char* const end = where.data() + where.size();
    const auto [stop, error] = std::from_chars(where.data(), end, port);
    if (error == std::errc() && stop == end && port != 0)
        return SocketAddress::parse_host("0.0.0.0", port);
    WEIR_ASSIGN(const HostPort at, HostPort::parse(where));
    WEIR_ASSIGN(const std::vector<SocketAddress> addresses, transport::resolve(at));
    return addresses.front();
}

Status help(Talk& talk, int listener, const Config& config) {
    WEIR_ASSIGN(const std::string greeting, talk.hear());
    const std::vector<std::string> words = words_of(greeting);
    if (words.size() != 3 || words[0] != kGreeting || !is_printable_name(words[1]) ||
        !is_printable_name(words[2]))
        return Error(Errc::kProtocol, "who has connected is no `weir doctor`");
    WEIR_ASSIGN(const std::optional<transport::Secret> from_file, secret_of_file(config));
    TransferSetting setting{config, from_file.value_or(make_secret()),
                            SocketAddress::own(talk.fd())};
    setting.own.set_port(0);
    fmt::print("weir doctor of {} (weir {}) has come\n", words[2], words[1]);
    (void)std::fflush(stdout);
    WEIR_TRY(talk.say(fmt::format("{} {} {}", WEIR_VERSION, host_name_here(),
                                  from_file ? std::string(kFromFile) : in_hex(setting.secret))));
    for (;;) {
        WEIR_ASSIGN(const std::string line, talk.hear());
        if (line == "bye") return {};
        if (line == "stream") {
            WEIR_TRY(serve_stream(talk, listener));
        } else if (line.starts_with("try ")) {
            WEIR_TRY(serve_transfer(talk, setting, line.substr(4)));
        } else {
            return Error(Errc::kProtocol,
                         "the other `weir doctor` asks for what this one does not "
                         "know; use the same version at both hosts");
        }
    }
}

}  // namespace

Result<std::vector<Finding>> examine_pair(const std::string& where, const Config& config) {
    WEIR_ASSIGN(const HostPort place, HostPort::parse(where));
    SocketAddress at;
    WEIR_ASSIGN(Talk talk, call_any(place, at));
    WEIR_TRY(talk.say(fmt::format("{} {} {}", kGreeting, WEIR_VERSION, host_name_here())));
    WEIR_ASSIGN(const std::string answer, talk.hear());
    const std::vector<std::string> words = words_of(answer);
    if (words.size() != 3 || !is_printable_name(words[0]) || !is_printable_name(words[1]))
        return Error(Errc::kProtocol,
                     fmt::format("{}: what answers there is no `weir doctor`", where));
    std::vector<Finding> findings{
        {Level::kGood, "other host", fmt::format("{} at {}", words[1], at.text()), ""}};
    for (Finding& one : judge_versions(WEIR_VERSION, words[0])) {
        findings.push_back(std::move(one));
        if (findings.back().level == Level::kProblem) return findings;  // it may speak otherwise
    }
    WEIR_ASSIGN(const std::optional<transport::Secret> from_file, secret_of_file(config));
    const bool has_file = words[2] == kFromFile;
    const std::optional<transport::Secret> secret = has_file ? from_file : from_hex(words[2]);
    if (!secret)
        return Error(Errc::kInvalidArgument,
                     "the other host has a WEIR_SECRET_FILE; set it here, too, to a file with the "
                     "same content");
    TransferSetting setting{config, *secret, SocketAddress::own(talk.fd())};
    const bool is_here = setting.own.same_host(SocketAddress::peer(talk.fd()));
    setting.own.set_port(0);
    WEIR_ASSIGN(const double stream_rate, try_stream(talk, at));
    findings.push_back({Level::kGood, "network there",
                        fmt::format("{} over a plain TCP stream", rate_text(stream_rate)), ""});
    if (is_here) findings.push_back(try_one(talk, setting, "shm", stream_rate));
    for (const char* const name : {"verbs", "tcp"})
        findings.push_back(try_one(talk, setting, name, stream_rate));
    WEIR_TRY(talk.say("bye"));
    return findings;
}

Status help_other(const std::string& where, uint32_t wait_s, const Config& config) {
    WEIR_ASSIGN(const SocketAddress at, place_to_listen(where));
    WEIR_ASSIGN(const Descriptor listener, transport::listen_on(at));
    const std::string port = std::to_string(at.port());
    fmt::print("waits for `weir doctor {}:{}` at another host\n",
               at.is_any() ? host_name_here() : at.host(), port);
    (void)std::fflush(stdout);
    pollfd wanted{listener.get(), POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(wait_s) * 1000) <= 0)
        return Error(Errc::kDeadline,
                     fmt::format("nobody has come within {} s (--wait); start `weir doctor` with "
                                 "this host and port {} at the other host",
                                 wait_s, port));
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return Error(Errc::kIo, "cannot take the connection", errno);
    Talk talk(std::move(socket));
    return help(talk, listener.get(), config);
}

}  // namespace weir::tools
