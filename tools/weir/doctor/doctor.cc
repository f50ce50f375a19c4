// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/doctor.h"

#include <algorithm>
#include <array>
#include <memory>

#include <fmt/core.h>
#include <netdb.h>
#include <nlohmann/json.hpp>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/base/counted.h"
#include "lib/base/descriptor.h"
#include "lib/base/host_port.h"
#include "lib/base/json_text.h"
#include "lib/base/machine/os_limits.h"
#include "lib/bootstrap/secret.h"
#include "tools/weir/command.h"
#include "tools/weir/doctor/job_findings.h"
#include "tools/weir/doctor/judgement.h"
#include "tools/weir/doctor/pair.h"
#include "tools/weir/shared_flags.h"
#include "transport/net/own_address.h"
#include "transport/net/socket.h"
#include "transport/net/socket_address.h"

namespace weir::tools {
namespace {

using Level = Finding::Level;
using Json = nlohmann::ordered_json;
using transport::SocketAddress;

constexpr uint64_t kFilesEnough = 4096;  // of a job of a few hundred ranks
constexpr uint64_t kPoolLeastBytes = uint64_t{64} << 20;

std::string own_name() {
    std::array<char, 256> name{};
    (void)::gethostname(name.data(), name.size() - 1);
    return name.data();
}

/// What a name means here, by /etc/hosts and the name service.
std::vector<std::string> addresses_of(const std::string& name) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(name.c_str(), nullptr, &wanted, &found) != 0) return {};
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    std::vector<std::string> list;
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
        std::array<char, 64> text{};
        if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                          NI_NUMERICHOST) == 0)
            list.emplace_back(text.data());
    }
    return list;
}

bool is_loopback(const std::string& address) {
    return address.starts_with("127.") || address == "::1";
}

Finding versions(const InfoReport& report) {
    utsname kernel{};
    (void)::uname(&kernel);
    return {
        Level::kGood, "versions",
        fmt::format("weir {}, {}, Linux {}; all hosts of a job need weir {}, and for several "
                    "managers the same patch of it",
                    report.version, report.compiler, kernel.release, minor_version(report.version)),
        ""};
}

Finding own_names() {
    const std::string name = own_name();
    const std::vector<std::string> found = addresses_of(name);
    if (found.empty()) {
        return {Level::kNote, "name", fmt::format("{}: this host does not know its own name", name),
                fmt::format("give --rendezvous an address, or write {} and its address to "
                            "/etc/hosts",
                            name)};
    }
    const auto trap = std::ranges::find_if(found, is_loopback);
    if (trap == found.end())
        return {Level::kGood, "name", fmt::format("{} is {}", name, found.front()), ""};
    return {
        Level::kNote, "name",
        fmt::format("{} is {} on this host: a program that asks for its own address by its name "
                    "tells others one that leads nowhere (Weir does not)",
                    name, *trap),
        fmt::format("if launchers or MPI hang, give {} its real address in /etc/hosts", name)};
}

Finding own_addresses(const Config& config) {
    const std::string_view bind = config.text("WEIR_BIND");
    if (!bind.empty()) {
        const auto found = transport::find_own_address(bind);
        const Result<Descriptor> listens =
            found ? transport::listen_on(*found) : Result<Descriptor>(found.error());
        if (listens)
            return {Level::kGood, "address",
                    fmt::format("others reach this host at {} (WEIR_BIND)", found->host()), ""};
        const bool is_needed = config.text("WEIR_TRANSPORT") != "shm";
        return {is_needed ? Level::kProblem : Level::kNote, "address",
                fmt::format("WEIR_BIND={}: {}", bind, listens.error().message()),
                "set it to an address of this host, an interface or a network, or unset it"};
    }
    std::string list;
    size_t count = 0;
    for (const transport::InterfaceAddress& one : transport::interface_addresses()) {
        if (!one.leads_out) continue;
        list +=
            fmt::format("{}{} ({})", list.empty() ? "" : ", ", one.address.host(), one.interface);
        ++count;
    }
    if (count == 0) {
        return {Level::kNote, "address",
                "no network interface is up: only ranks of this host work "
                "together",
                "for a job of several hosts, bring an interface up"};
    }
    if (count == 1) return {Level::kGood, "address", list, ""};
    return {Level::kNote, "address", list,
            "if ranks do not reach each other, set WEIR_BIND on all hosts to the network that they "
            "share, such as 10.1.0.0/16"};
}

/// Fixed ones are tried with all else that a rank opens.
void add_ports(const Config& config, std::vector<Finding>& findings) {
    const Result<uint64_t> port = config.number("WEIR_PORT");
    if (port && *port == 0) {
        findings.push_back({Level::kGood, "ports",
                            "any free ones; a firewall must let all of them through between the "
                            "hosts, or set WEIR_PORT",
                            ""});
    }
    const std::string_view rendezvous = config.text("WEIR_RENDEZVOUS");
    if (rendezvous.empty()) return;
    const Result<HostPort> at = HostPort::parse(rendezvous);
    if (!at) {
        findings.push_back({Level::kProblem, "rendezvous",
                            fmt::format("WEIR_RENDEZVOUS: {}", at.error().text()),
                            "set it to HOST:PORT of rank 0"});
        return;
    }
    const std::vector<std::string> found = addresses_of(at->host);
    if (found.empty()) {
        findings.push_back(
            {Level::kProblem, "rendezvous",
             fmt::format("WEIR_RENDEZVOUS={}: this host does not know {}", rendezvous, at->host),
             "give the address of rank 0's host in place of its name"});
        return;
    }
    const auto address = SocketAddress::parse_host(found.front(), at->port);
    if (!address) return;
    const auto listening = transport::listen_on(*address);
    const bool is_taken = listening.code() == Errc::kAlreadyExists;
    const bool is_own = listening || listening.code() != Errc::kInvalidArgument;
    const bool must_listen = config.text("WEIR_RANK") == "0";
    std::string says = fmt::format("WEIR_RENDEZVOUS={}: ", rendezvous);
    std::string advice;
    if (is_taken) {
        says += "a program of this host listens there: a job that runs, or another one";
        advice = fmt::format("`weir status {}` says which; choose another port for another job",
                             rendezvous);
    } else if (!is_own && must_listen) {
        says += "rank 0 listens there, and it is no address of this host";
        advice = "give an address of the host of rank 0, which `ip address` lists";
    } else if (!listening && is_own) {
        says += listening.error().message();
        advice = "choose another port";
    } else {
        says += is_own ? "this host, and the port is free" : "another host";
    }
    const Level level = advice.empty() ? Level::kGood
                        : must_listen  ? Level::kProblem
                                       : Level::kNote;
    findings.push_back({level, "rendezvous", std::move(says), std::move(advice)});
}

Finding secret(const Config& config) {
    const std::string path(config.text("WEIR_SECRET_FILE"));
    if (path.empty())
        return {Level::kGood, "secret",
                "launchers distribute one; ranks that are started by hand should have a "
                "WEIR_SECRET_FILE",
                ""};
    const auto read = read_secret_file(path);
    if (read) return {Level::kGood, "secret", path + " can be read", ""};
    return {Level::kProblem, "secret", read.error().message(), "see `weir help launchers`"};
}

Finding files(const InfoReport& report) {
    const std::string says = fmt::format("open files: {} (hard limit {})", report.files.soft_count,
                                         report.files.hard_count);
    if (report.files.hard_count >= kFilesEnough) return {Level::kGood, "open files", says, ""};
    return {Level::kNote, "open files",
            says +
                ": a rank needs one for each of its connections, and ends at the start if that is "
                "too few",
            fmt::format("raise the hard limit to {} or more: /etc/security/limits.conf, or "
                        "LimitNOFILE of the service that starts jobs",
                        kFilesEnough)};
}

Finding memory(const InfoReport& report) {
    const uint64_t available = report.available_memory_bytes;
    const std::string says =
        fmt::format("{} of {} are available to this process (a control group's limit counts)",
                    bytes_text(available), bytes_text(report.machine_memory_bytes));
    if (available < kPoolLeastBytes)
        return {Level::kProblem, "memory", says,
                "end other programs, or allow this control group more (docker run -m, "
                "MemoryMax=, --mem of Slurm)"};
    if (report.pool.size_bytes != 0 && !report.pool.fits_memory)
        return {Level::kNote, "memory",
                says + fmt::format("; a pool's first region is to have {}",
                                   bytes_text(report.pool.size_bytes)),
                report.pool.advice};
    return {Level::kGood, "memory", says, ""};
}

/// Only RDMA devices lock memory.
Finding locked_memory(const InfoReport& report) {
    const bool has_verbs = std::ranges::any_of(report.transports, [](const TransportInfo& one) {
        return one.name == "verbs" && one.usable;
    });
    const bool is_little = report.locked.room_bytes() < kPoolLeastBytes;
    const bool fits = report.pool.size_bytes == 0 || report.pool.fits_locked_memory;
    const std::string says = report.locked.room_bytes() == kUnlimited
                                 ? std::string("no limit")
                                 : bytes_text(report.locked.room_bytes());
    if (!has_verbs)
        return {Level::kGood, "locked memory", says + "; without an RDMA device none is locked",
                ""};
    if (fits) return {Level::kGood, "locked memory", says, ""};
    return {is_little ? Level::kProblem : Level::kNote, "locked memory",
            fmt::format("{}: an RDMA device locks pools of {}, and they get less", says,
                        bytes_text(report.pool.size_bytes)),
            report.pool.advice.empty() ? locked_memory_advice(report.locked, report.pool.size_bytes)
                                       : report.pool.advice};
}

Finding dev_shm(const InfoReport& report) {
    const std::string says =
        fmt::format("/dev/shm: {} free", bytes_text(report.dev_shm_free_bytes));
    if (report.dev_shm_free_bytes >= kPoolLeastBytes)
        return {Level::kGood, "/dev/shm", says + "; Weir does not use it", ""};
    return {Level::kNote, "/dev/shm", says + "; Weir does not use it, but launchers and MPI may",
            "if mpirun fails, give the container more: docker run --shm-size=1g"};
}

std::string advice_for_unusable(const std::string& transport) {
    if (transport == "verbs") return "without it hosts use tcp, which is slower";
    if (transport == "tcp")
        return "set WEIR_BIND to an address of this host (`ip address` lists them), or unset it";
    return "without it ranks of one host use tcp: set WEIR_TRANSPORT=tcp";
}

/// Whether a job needs one that cannot be used is found by judge_job().
void add_devices(const InfoReport& report, std::vector<Finding>& findings) {
    for (const TransportInfo& one : report.transports) {
        findings.push_back(one.usable ? Finding{Level::kGood, one.name, "usable: " + one.use, ""}
                                      : Finding{Level::kNote, one.name, "not usable: " + one.reason,
                                                advice_for_unusable(one.name)});
    }
#if WEIR_HAVE_VERBS
    for (const transport::verbs::DeviceInfo& device : report.devices) {
        for (const transport::verbs::PortInfo& port : device.ports) {
            const std::string name = fmt::format("{} port {}", device.name, port.number);
            if (!port.active) {
                findings.push_back({Level::kNote, name, port.state,
                                    "plug the cable in, bring the network interface up (ip link "
                                    "set IF up), or start a subnet manager (InfiniBand)"});
                continue;
            }
            const bool is_ethernet = port.link_layer == "Ethernet";
            const auto routable = std::ranges::find_if(port.gids, [](const auto& gid) {
                return gid.type == "RoCE v2" && gid.gid.starts_with("::ffff:");
            });
            if (is_ethernet && routable == port.gids.end()) {
                findings.push_back(
                    {Level::kNote, name,
                     fmt::format("active, {}, but without a RoCE v2 GID of an IPv4 address",
                                 counted(port.gids.size(), "GID")),
                     "give its network interface an IPv4 address, or choose a GID by "
                     "WEIR_RDMA_GID_INDEX (`weir info` lists them)"});
                continue;
            }
            findings.push_back(
                {Level::kGood, name,
                 is_ethernet ? fmt::format("active, GID {} is {}", routable->index, routable->gid)
                             : fmt::format("active, {}", port.link_layer),
                 ""});
        }
    }
#endif
}

void add_variables(const InfoReport& report, std::vector<Finding>& findings) {
    for (const VariableInfo& one : report.variables) {
        if (!one.error.empty())
            findings.push_back({Level::kProblem, "variables", one.error,
                                "correct it, or unset it; `weir help variables` lists all"});
    }
    for (const UnknownVariable& one : report.unknown_variables)
        findings.push_back(
            {Level::kNote, "variables", one.message(), "unset it, or correct its name"});
}

bool has_problem(const std::vector<Finding>& findings) {
    return std::ranges::find(findings, Level::kProblem, &Finding::level) != findings.end();
}

std::string_view word(Level level) {
    switch (level) {
        case Level::kGood: return "good";
        case Level::kNote: return "note";
        case Level::kProblem: return "problem";
    }
    return "";
}

std::string findings_text(const std::vector<Finding>& findings) {
    std::string text;
    for (const Finding& one : findings) {
        text += fmt::format("{:8} {:14} {}\n", word(one.level), one.subject, one.says);
        if (!one.advice.empty()) text += fmt::format("{:8} {:14} -> {}\n", "", "", one.advice);
    }
    const auto problems = std::ranges::count(findings, Level::kProblem, &Finding::level);
    const auto notes = std::ranges::count(findings, Level::kNote, &Finding::level);
    return text + fmt::format("{}, {}\n", counted(static_cast<uint64_t>(problems), "problem"),
                              counted(static_cast<uint64_t>(notes), "note"));
}

Json findings_json(const std::vector<Finding>& findings) {
    Json list = Json::array();
    for (const Finding& one : findings) {
        list.push_back({{"level", word(one.level)},
                        {"subject", one.subject},
                        {"says", one.says},
                        {"advice", one.advice.empty() ? Json(nullptr) : Json(one.advice)}});
    }
    return list;
}

}  // namespace

std::vector<Finding> find_faults(const InfoReport& report, const Config& config) {
    std::vector<Finding> findings{versions(report), own_names(), own_addresses(config)};
    add_ports(config, findings);
    findings.push_back(secret(config));
    const bool has_place = !has_problem(findings);
    add_devices(report, findings);
    findings.push_back(locked_memory(report));
    findings.push_back(memory(report));
    findings.push_back(files(report));
    findings.push_back(dev_shm(report));
    add_variables(report, findings);
    if (!config.check()) return findings;  // nor would a job get any further
    const std::vector<Finding> of_job = judge_job(config, has_place);
    findings.insert(findings.end(), of_job.begin(), of_job.end());
    return findings;
}

int run_doctor(const DoctorFlags& flags, const Config& config) {
    if (!flags.listen.empty()) {
        const Status helped = help_other(flags.listen, flags.wait_s, config);
        return helped ? int{kExitOk} : failure(helped.error());
    }
    std::vector<Finding> findings = find_faults(make_info_report(config), config);
    if (!flags.other.empty()) {
        const auto of_pair = examine_pair(flags.other, config);
        if (!of_pair) return failure(of_pair.error());
        findings.insert(findings.end(), of_pair->begin(), of_pair->end());
    }
    const Status told = print_result(flags.json, findings_text(findings),
                                     json_text(Json{{"findings", findings_json(findings)}}));
    if (!told) return failure(told.error());
    return has_problem(findings) ? kExitFailure : kExitOk;
}

}  // namespace weir::tools
