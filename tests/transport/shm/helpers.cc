// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/shm/helpers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "tests/seed.h"
#include "tests/wait_until.h"
#include "transport/shm/memory/regions.h"

namespace weir::transport::shm::testing {

Secret test_secret() {
    Secret secret{};
    secret.fill(std::byte{0x42});
    return secret;
}

std::unique_ptr<Device> test_device(DeviceOptions options) {
    auto device = make_device(options);
    WEIR_CHECK(device.has_value());
    return std::move(device).value();
}

Actor::Actor(Device& device, const EndpointOptions& options) : completions_(64) {
    auto made = device.make_endpoint(options);
    WEIR_CHECK(made.has_value());
    endpoint_ = std::move(made).value();
}

size_t Actor::poll() {
    const size_t count = endpoint_->poll(completions_);
    for (size_t i = 0; i < count; ++i) {
        const Completion& c = completions_[i];
        happened.push_back(
            {c.event, c.status, c.immediate, c.connection, c.context,
             std::string(reinterpret_cast<const char*>(c.message.data()), c.message.size()),
             c.memory_in_doubt});
    }
    return count;
}

bool Actor::until(const std::function<bool()>& done, Actor* other) {
    uint32_t idle_polls = 0;
    return weir::testing::wait_until(done, [&] {
        if (poll() == 0 && ++idle_polls % weir::testing::kPollsPerYield == 0) usleep(1);
        if (other != nullptr) other->poll();
    });
}

ConnectionId Actor::connect(const std::string& address, Actor* other) {
    auto id = endpoint_->connect(address);
    if (!id) return 0;
    const bool done =
        until([&] { return count(Event::kConnected, *id) == 1 || closed(*id).has_value(); }, other);
    return done && !closed(*id).has_value() ? *id : 0;
}

ConnectionId Actor::accept() {
    ConnectionId id = 0;
    static_cast<void>(until([&] {
        for (const Happened& one : happened) {
            if (one.event == Event::kAccepted) id = one.connection;
        }
        return id != 0;
    }));
    return id;
}

Post Actor::send(ConnectionId connection, std::string_view text) {
    const std::span<const std::byte> part = std::as_bytes(std::span(text));
    return endpoint_->send(connection, {&part, 1});
}

std::optional<std::string> Actor::receive(ConnectionId connection) {
    std::optional<std::string> message;
    static_cast<void>(until([&] {
        const auto found = std::find_if(happened.begin(), happened.end(), [&](const Happened& one) {
            return one.event == Event::kReceived && one.connection == connection;
        });
        if (found == happened.end()) return closed(connection).has_value();
        message = found->message;
        happened.erase(found);
        return true;
    }));
    return message;
}

size_t Actor::count(Event event, ConnectionId connection) const {
    return static_cast<size_t>(std::count_if(
        happened.begin(), happened.end(),
        [&](const Happened& one) { return one.event == event && one.connection == connection; }));
}

std::optional<Errc> Actor::closed(ConnectionId connection) const {
    for (const Happened& one : happened) {
        if (one.event == Event::kClosed && one.connection == connection) return one.status;
    }
    return std::nullopt;
}

RawPeer::RawPeer() {
    auto page = make_shared(kLivePageBytes, Peers::kMayOnlyRead, "a test");
    WEIR_CHECK(page.has_value());
    live_page_ = std::move(page).value();
    self_ = {test_secret(), {8192, 128, 0}, live_page_.fd.get()};
}

bool RawPeer::connect(const std::string& address, const std::function<void()>& meanwhile) {
    auto dialled = dial_abstract(socket_name_of(address));
    if (!dialled || !*dialled) return false;
    socket_ = std::move(dialled).value();
    ChannelHandshake handshake(self_, Side::kConnecting);
    if (!handshake.begin(socket_.get())) return false;
    for (int turn = 0; turn < 100'000; ++turn) {
        auto done = handshake.advance(socket_.get());
        if (!done || *done == Progress::kLater) return false;
        if (*done == Progress::kDone) {
            agreement_ = handshake.take_agreement();
            return true;
        }
        meanwhile();
    }
    return false;
}

bool readable(int fd, int timeout_ms) {
    pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, timeout_ms) == 1;
}

std::string socket_name_of(const std::string& address) {
    return address.substr(address.find('/') + 1);
}

SharedBlock sealed_memory(uint64_t length_bytes) {
    auto block = make_shared(length_bytes, Peers::kMayWrite, "a test");
    WEIR_CHECK(block.has_value());
    return std::move(block).value();
}

Forked::Forked(const Body& body) {
    int ends[2];
    WEIR_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    pid_ = fork();
    WEIR_CHECK(pid_ >= 0);
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        pipe_ = Descriptor(ends[1]);
        _exit(body(*this));
    }
    close(ends[1]);
    pipe_ = Descriptor(ends[0]);
}

Forked::~Forked() {
    if (pid_ > 0) {
        kill();
        join();
    }
}

std::string Forked::hear() {
    std::string line;
    char c = 0;
    while (read(pipe_.get(), &c, 1) == 1 && c != '\n')
        line.push_back(c);
    return line;
}

void Forked::tell(const std::string& line) {
    const std::string text = line + "\n";
    WEIR_CHECK(::send(pipe_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(text.size()));
}

void Forked::kill() {
    ::kill(pid_, SIGKILL);
}

int Forked::join() {
    int status = 0;
    WEIR_CHECK(waitpid(pid_, &status, 0) == pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

uint64_t seed_for(const std::string& test) {
    const uint64_t seed = weir::testing::seed_or(SteadyClock().now_ns() * 0x9e3779b97f4a7c15ULL);
    MESSAGE(test << ": WEIR_SEED=" << seed);
    return seed;
}

size_t open_files() {
    const auto files = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<size_t>(std::distance(begin(files), end(files)));
}

size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    return static_cast<size_t>(
        std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
}

}  // namespace weir::transport::shm::testing
