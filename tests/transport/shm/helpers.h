// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Helpers for tests of the shm backend: endpoints whose completions are remembered, peers
/// that speak the handshake themselves and may then misbehave, and forked processes.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "transport/shm/handshake.h"
#include "transport/shm/memory/shared_memory.h"
#include "transport/shm/shm.h"

namespace weir::transport::shm::testing {

/// The same for all devices of a test, so that forked ones know it too.
[[nodiscard]] Secret test_secret();
[[nodiscard]] std::unique_ptr<Device> test_device(DeviceOptions options = {test_secret()});

struct Happened {
    Event event = Event::kClosed;
    Errc status = Errc::kOk;
    uint32_t immediate = 0;
    ConnectionId connection = 0;
    uint64_t context = 0;
    std::string message;
    bool memory_in_doubt = false;
};

/// An endpoint and all of its completions.
class Actor {
public:
    explicit Actor(Device& device, const EndpointOptions& options = {});

    [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }

    /// Polls once. Returns the number of completions.
    size_t poll();
    /// Polls this one and `other` until `done`. False: not within kPatienceNs.
    [[nodiscard]] bool until(const std::function<bool()>& done, Actor* other = nullptr);

    /// Connects to an endpoint of another process. 0: it failed.
    [[nodiscard]] ConnectionId connect(const std::string& address, Actor* other = nullptr);
    /// Waits until a peer connects. 0: none did.
    [[nodiscard]] ConnectionId accept();
    [[nodiscard]] Post send(ConnectionId connection, std::string_view text);
    /// Waits for the next message and takes it; nothing if the connection closed.
    [[nodiscard]] std::optional<std::string> receive(ConnectionId connection);

    [[nodiscard]] size_t count(Event event, ConnectionId connection) const;
    /// The reason of kClosed, nothing while the connection is open.
    [[nodiscard]] std::optional<Errc> closed(ConnectionId connection) const;

    std::vector<Happened> happened;

private:
    std::unique_ptr<Endpoint> endpoint_;
    std::vector<Completion> completions_;
};

/// A peer that knows the secret but is not an endpoint: the test has its socket and the
/// connection's memory.
class RawPeer {
public:
    RawPeer();

    /// False: refused.
    [[nodiscard]] bool connect(const std::string& address, const std::function<void()>& meanwhile);

    [[nodiscard]] Agreement& agreement() { return agreement_; }

    [[nodiscard]] int socket() const { return socket_.get(); }

    [[nodiscard]] const Self& self() const { return self_; }

    void hang_up() { socket_.reset(); }

private:
    SharedBlock live_page_;
    Self self_;
    Descriptor socket_;
    Agreement agreement_;
};

/// Waits until `fd` is readable, `timeout_ms` at most.
[[nodiscard]] bool readable(int fd, int timeout_ms);

[[nodiscard]] std::string socket_name_of(const std::string& address);

/// Sealed shared memory, mapped.
[[nodiscard]] SharedBlock sealed_memory(uint64_t length_bytes);

/// A process that runs a function with one end of a pipe and exits with what it returns.
class Forked {
public:
    using Body = std::function<int(Forked& self)>;

    explicit Forked(const Body& body);
    ~Forked();
    Forked(const Forked&) = delete;
    Forked& operator=(const Forked&) = delete;

    /// Reads a line that the other side wrote.
    [[nodiscard]] std::string hear();
    void tell(const std::string& line);

    void kill();
    /// Waits for the process; its exit status, or -1 if it was killed.
    int join();

    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    pid_t pid_ = -1;
    Descriptor pipe_;
};

/// WEIR_SEED, or a new one; printed with the test's name.
[[nodiscard]] uint64_t seed_for(const std::string& test);

[[nodiscard]] size_t open_files();
/// Lines of /proc/self/maps.
[[nodiscard]] size_t mappings();

}  // namespace weir::transport::shm::testing
