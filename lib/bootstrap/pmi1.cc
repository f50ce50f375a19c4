// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/pmi1.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weir::boot {
namespace {

constexpr uint64_t kReplyTimeoutNs = 10 * kSecond;  // to requests that need no other rank

Error launcher_gone(int os_error = 0) {
    return {Errc::kPeerLost,
            fmt::format("PMI-1: the launcher closed its connection (PMI_FD); if other code of this "
                        "process has used it, MPI for example: {}",
                        kPmi1HasOneUser),
            os_error};
}

}  // namespace

Pmi1Bootstrap::Pmi1Bootstrap(const Pmi1Options& options, const Clock& clock)
    : clock_(clock), options_(options) {}

Result<std::unique_ptr<Bootstrap>> Pmi1Bootstrap::open(const Pmi1Options& options,
                                                       const Clock& clock, uint64_t deadline_ns) {
    // a stale number may be that of any other file by now: never write to it unless it is a
    // socket
    struct stat info {};

    if (::fstat(options.fd, &info) != 0 || !S_ISSOCK(info.st_mode) ||
        ::fcntl(options.fd, F_SETFD, FD_CLOEXEC) != 0) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("PMI_FD={}: not a launcher's socket; it was inherited from a launcher "
                        "that is gone: unset PMI_FD, or start under mpiexec or srun",
                        options.fd));
    }
    std::unique_ptr<Pmi1Bootstrap> made(new Pmi1Bootstrap(options, clock));
    WEIR_TRY(made->greet(deadline_ns));
    return std::unique_ptr<Bootstrap>(std::move(made));
}

Status Pmi1Bootstrap::greet(uint64_t deadline_ns) {
    WEIR_ASSIGN(const Pmi1Line hello,
                call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline_ns));
    if (!hello.succeeded()) {
        return Error(Errc::kProtocol, "PMI-1: the launcher does not speak version 1 of PMI");
    }
    WEIR_ASSIGN(const Pmi1Line maxes, call("cmd=get_maxes", "maxes", deadline_ns));
    WEIR_ASSIGN(const uint64_t key_bytes_max, maxes.number("keylen_max", 1 << 20));
    WEIR_ASSIGN(value_bytes_max_, maxes.number("vallen_max", 1 << 20));
    // "weir-", rank, '-', key, '-', chunk: every launcher allows at least 64 bytes
    if (key_bytes_max < 64 || value_bytes_max_ < 64) {
        return Error(
            Errc::kProtocol,
            fmt::format("PMI-1: the launcher allows keys of {} and values of {} bytes; 64 are "
                        "needed",
                        key_bytes_max, value_bytes_max_));
    }
    WEIR_ASSIGN(const Pmi1Line space, call("cmd=get_my_kvsname", "my_kvsname", deadline_ns));
    const std::string* const name = space.find("kvsname");
    if (name == nullptr || name->empty() || name->size() > 256) {
        return Error(Errc::kProtocol, "PMI-1: the launcher's my_kvsname has no usable kvsname");
    }
    space_ = *name;
    return {};
}

Status Pmi1Bootstrap::put(std::string_view key, std::string_view value) {
    WEIR_TRY(check_entry(key, value));
    const uint64_t deadline_ns = reply_deadline_ns();
    const std::string longest_prefix = request("put", options_.rank, key, 99) + " value=\n";
    const size_t chunk_bytes =
        std::min(value_bytes_max_ - 1, kPmi1RequestBytesMax - longest_prefix.size());
    size_t i = 0;
    for (const std::string& chunk : pmi1_chunks(value, chunk_bytes)) {
        const std::string line = request("put", options_.rank, key, i++) + " value=" + chunk;
        WEIR_ASSIGN(const Pmi1Line answer, call(line, "put_result", deadline_ns));
        if (!answer.succeeded()) {
            return Error(
                Errc::kRefused,
                fmt::format("PMI-1: the launcher refused the value of {} (it may have one already)",
                            key));
        }
    }
    return {};
}

Status Pmi1Bootstrap::exchange(uint64_t deadline_ns) {
    const auto out = call("cmd=barrier_in", "barrier_out", deadline_ns);
    if (!out && out.code() == Errc::kDeadline) {
        return Error(
            Errc::kDeadline,
            fmt::format("PMI-1: rank {}: another of the job's {} ranks did not start in time; "
                        "see that rank's output, or raise WEIR_JOIN_TIMEOUT_S",
                        options_.rank, options_.size));
    }
    WEIR_TRY(out);
    if (!out->succeeded()) return Error(Errc::kProtocol, "PMI-1: the launcher's barrier failed");
    return {};
}

Result<std::string> Pmi1Bootstrap::get(uint32_t rank, std::string_view key) {
    WEIR_TRY(check_entry(key, {}));
    const uint64_t deadline_ns = reply_deadline_ns();
    Pmi1Joiner joiner;
    for (size_t i = 0; !joiner.complete(); ++i) {
        WEIR_ASSIGN(const Pmi1Line answer,
                    call(request("get", rank, key, i), "get_result", deadline_ns));
        const std::string* const value = answer.find("value");
        if (!answer.succeeded() || value == nullptr) {
            return Error(Errc::kNotFound, fmt::format("PMI-1: rank {} published no {}", rank, key));
        }
        WEIR_TRY(joiner.add(*value));
    }
    return joiner.value();
}

Status Pmi1Bootstrap::finish() {
    const auto answer = call("cmd=finalize", "finalize_ack", reply_deadline_ns());
    if (answer) ::close(options_.fd);
    usable_ = false;
    WEIR_TRY(answer);
    return {};
}

Result<Pmi1Line> Pmi1Bootstrap::call(const std::string& request, std::string_view expected,
                                     uint64_t deadline_ns) {
    if (!usable_) {
        return Error(Errc::kCancelled, "PMI-1: used after finish() or after an error");
    }
    Status sent = send_line(request + "\n", deadline_ns);
    Result<std::string> line = sent ? receive_line(deadline_ns) : std::move(sent).error();
    Result<Pmi1Line> answer = line ? parse_pmi1_line(*line) : std::move(line).error();
    if (answer && answer->command != expected) {
        answer = Error(Errc::kProtocol, fmt::format("PMI-1: the launcher answered {} where {} was "
                                                    "expected",
                                                    answer->command, expected));
    }
    // after a failed call the next line could be the answer to this request
    if (!answer) usable_ = false;
    return answer;
}

Status Pmi1Bootstrap::send_line(const std::string& line, uint64_t deadline_ns) {
    std::string_view left = line;
    while (!left.empty()) {
        WEIR_TRY(wait_for(POLLOUT, deadline_ns));
        const ssize_t sent =
            ::send(options_.fd, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (sent < 0) return launcher_gone(errno);
        left.remove_prefix(static_cast<size_t>(sent));
    }
    return {};
}

Result<std::string> Pmi1Bootstrap::receive_line(uint64_t deadline_ns) {
    for (;;) {
        if (const size_t end = received_.find('\n'); end != std::string::npos) {
            std::string line = received_.substr(0, end);
            received_.erase(0, end + 1);
            return line;
        }
        if (received_.size() > kPmi1LineBytesMax) {
            return Error(Errc::kProtocol, "PMI-1: the launcher sent a line without an end");
        }
        WEIR_TRY(wait_for(POLLIN, deadline_ns));
        char buffer[4096];
        const ssize_t got = ::read(options_.fd, buffer, sizeof(buffer));
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got < 0) return launcher_gone(errno);
        if (got == 0) return launcher_gone();
        received_.append(buffer, static_cast<size_t>(got));
    }
}

Status Pmi1Bootstrap::wait_for(short events, uint64_t deadline_ns) {
    for (;;) {
        const int slice_ms = poll_slice_ms(clock_, deadline_ns);
        pollfd entry{options_.fd, events, 0};
        const int ready = ::poll(&entry, 1, slice_ms);
        if (ready > 0) return {};
        if (ready < 0 && errno != EINTR) return launcher_gone(errno);
        if (slice_ms == 0) {
            return Error(Errc::kDeadline, "PMI-1: the launcher did not answer in time");
        }
    }
}

std::string Pmi1Bootstrap::request(std::string_view command, uint32_t rank, std::string_view key,
                                   size_t chunk) const {
    return fmt::format("cmd={} kvsname={} key=weir-{}-{}-{}", command, space_, rank, key, chunk);
}

uint64_t Pmi1Bootstrap::reply_deadline_ns() const {
    return clock_.now_ns() + kReplyTimeoutNs;
}

}  // namespace weir::boot
