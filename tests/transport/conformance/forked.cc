// SPDX-License-Identifier: Apache-2.0
/// \file
/// Process 0's side of a forked fabric: a device and endpoints that forward calls to process 1.

#include "tests/transport/conformance/forked.h"

#include <csignal>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tests/transport/conformance/forked_channel.h"
#include "tests/wait_until.h"

namespace weir::transport::conformance {

namespace {

/// The handle of process 1, a child.
class Child {
public:
    Child(pid_t pid, int fd) : pid_(pid), channel_(fd) {}

    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// Lets the child end normally; the case fails if it crashes or hangs.
    ~Child() {
        channel_.hang_up();
        if (killed_) return;
        int status = 0;
        if (!testing::wait_until([&] { return waitpid(pid_, &status, WNOHANG) != 0; },
                                 [] { usleep(200); })) {
            FAIL_CHECK("process 1 does not end");
            kill();
            return;
        }
        CHECK_MESSAGE(status == 0, "process 1 ended with wait status " << status);
    }

    void kill() {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        killed_ = true;
    }

    [[nodiscard]] Channel& channel() { return channel_; }

    /// Sends a call; returns the reply, or nothing if the child is dead.
    std::optional<Channel::Parcel> ask(const Values& call, int fd = -1) {
        if (killed_ || !channel_.send(call, fd)) return std::nullopt;
        return channel_.receive();
    }

    template <class T>
    T ask_for(const Values& call, T otherwise) {
        auto answer = ask(call);
        return answer ? answer->values.template get<T>() : otherwise;
    }

    template <class T>
    Result<T> ask_for_result(const Values& call) {
        auto answer = ask(call);
        if (!answer) return Error(Errc::kPeerLost, "process 1 is dead");
        return answer->values.template get_result<T>();
    }

private:
    const pid_t pid_;
    Channel channel_;
    bool killed_ = false;
};

Values call(Call what) {
    return std::move(Values().put(what));
}

void put_memory(Values& values, std::span<const std::byte> memory) {
    values.put(reinterpret_cast<uint64_t>(memory.data())).put(memory.size());
}

/// An endpoint of process 1.
class FarEndpoint final : public Endpoint {
public:
    FarEndpoint(Child& child, uint64_t number, std::string address)
        : child_(child), number_(number), address_(std::move(address)) {}

    ~FarEndpoint() override {
        if (sleep_fd_ >= 0) ::close(sleep_fd_);
        child_.ask(mine(Call::kDestroyEndpoint));
    }

    std::string address() const override { return address_; }

    Capabilities capabilities() const override {
        return child_.ask_for<Capabilities>(mine(Call::kCapabilities), {});
    }

    Result<ConnectionId> connect(std::string_view address) override {
        return child_.ask_for_result<ConnectionId>(mine(Call::kConnect).put_text(address));
    }

    void close(ConnectionId connection) override { child_.ask(mine(Call::kClose, connection)); }

    Post send(ConnectionId connection, std::span<const std::span<const std::byte>> parts) override {
        Values values = mine(Call::kSend, connection);
        values.put(parts.size());
        for (const auto& part : parts) {
            values.put_text({reinterpret_cast<const char*>(part.data()), part.size()});
        }
        return child_.ask_for(values, Post::kClosed);
    }

    Result<RemoteSpan> expose(ConnectionId connection, std::span<const std::byte> memory) override {
        Values values = mine(Call::kExpose, connection);
        put_memory(values, memory);
        return child_.ask_for_result<RemoteSpan>(values);
    }

    Post read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
              uint64_t context) override {
        return post(mine(Call::kRead, connection), into, from, 0, context);
    }

    Post write(ConnectionId connection, std::span<const std::byte> from, const RemoteSpan& to,
               uint64_t context) override {
        return post(mine(Call::kWrite, connection), from, to, 0, context);
    }

    Post write_immediate(ConnectionId connection, std::span<const std::byte> from,
                         const RemoteSpan& to, uint32_t immediate, uint64_t context) override {
        return post(mine(Call::kWriteImmediate, connection), from, to, immediate, context);
    }

    /// Not supported: an address of process 1 is useless here. Cases map in process 0 only.
    std::byte* map(ConnectionId /*connection*/, const RemoteSpan& /*span*/,
                   Access /*wanted*/) override {
        return nullptr;
    }

    void flush() override { child_.ask(mine(Call::kFlush)); }

    size_t poll(std::span<Completion> completions) override {
        lent_.clear();
        auto answer = child_.ask(mine(Call::kPoll).put(completions.size()));
        if (!answer) return 0;
        Values& in = answer->values;
        const auto count = in.get<size_t>();
        for (Completion& c : completions.first(count)) {
            c.event = in.get<Event>();
            c.status = in.get<Errc>();
            c.immediate = in.get<uint32_t>();
            c.connection = in.get<ConnectionId>();
            c.context = in.get<uint64_t>();
            const std::string text = in.get_text();
            const auto bytes = std::as_bytes(std::span(text));
            lent_.emplace_back(bytes.begin(), bytes.end());
            c.message = lent_.back();
        }
        return count;
    }

    int arm() override {
        auto answer = child_.ask(mine(Call::kArm));
        if (!answer || answer->values.get<int>() < 0) return -1;
        if (sleep_fd_ < 0) {
            sleep_fd_ = answer->fd;
        } else {
            ::close(answer->fd);  // a duplicate of sleep_fd_
        }
        return sleep_fd_;
    }

    std::string peer_name(ConnectionId connection) const override {
        auto answer = child_.ask(mine(Call::kPeerName, connection));
        return answer ? answer->values.get_text() : "";
    }

    const EndpointCounters& counters() const noexcept override {
        counters_ = child_.ask_for(mine(Call::kCounters), counters_);
        return counters_;
    }

private:
    Values mine(Call what) const { return std::move(call(what).put(number_)); }

    Values mine(Call what, ConnectionId connection) const {
        return std::move(mine(what).put(connection));
    }

    Post post(Values values, std::span<const std::byte> memory, const RemoteSpan& remote,
              uint32_t immediate, uint64_t context) {
        put_memory(values, memory);
        return child_.ask_for(values.put(remote).put(immediate).put(context), Post::kClosed);
    }

    Child& child_;
    const uint64_t number_;
    const std::string address_;
    int sleep_fd_ = -1;
    std::vector<std::vector<std::byte>> lent_;
    mutable EndpointCounters counters_;
};

/// The device of process 1.
class FarDevice final : public Device {
public:
    FarDevice(Child& child, std::string name) : child_(child), name_(std::move(name)) {}

    std::string_view name() const noexcept override { return name_; }

    bool pins_memory() const noexcept override { return true; }  // safe for every backend

    Result<RegionId> register_memory(const MemoryBlock& block, Access access) override {
        Values values = call(Call::kRegister);
        put_memory(values, block.bytes);
        return child_.ask_for_result<RegionId>(values.put(block.fd_offset).put(access));
    }

    void deregister_memory(RegionId region) override {
        child_.ask(call(Call::kDeregister).put(region));
    }

    Result<std::unique_ptr<Endpoint>> make_endpoint(const EndpointOptions& options) override {
        auto answer = child_.ask(call(Call::kMakeEndpoint).put(options));
        if (!answer) return Error(Errc::kPeerLost, "process 1 is dead");
        const auto code = answer->values.get<Errc>();
        if (code != Errc::kOk) return Error(code, answer->values.get_text());
        const auto number = answer->values.get<uint64_t>();
        return std::unique_ptr<Endpoint>(
            std::make_unique<FarEndpoint>(child_, number, answer->values.get_text()));
    }

private:
    Child& child_;
    const std::string name_;
};

class ForkedFabric final : public Fabric {
public:
    ForkedFabric(ForkedOptions options, std::unique_ptr<Child> child, std::string name,
                 std::unique_ptr<Device> near)
        : options_(std::move(options)),
          child_(std::move(child)),
          near_(std::move(near)),
          far_(*child_, std::move(name)) {}

    Device& device(size_t process) override {
        return process == 0 ? *near_ : static_cast<Device&>(far_);
    }

    Device* stranger() override {
        if (stranger_ == nullptr && options_.make_stranger) {
            auto made = options_.make_stranger();
            REQUIRE(made.has_value());
            stranger_ = std::move(made).value();
        }
        return stranger_.get();
    }

    std::string nobody() override { return options_.nobody(*near_); }

    MemoryBlock make_memory(size_t process, size_t length_bytes) override {
        const MemoryBlock block = Fabric::make_memory(process, length_bytes);
        if (process == 1) {
            Values values = call(Call::kShareMemory);
            put_memory(values, block.bytes);
            child_->ask(values, block.fd);
        }
        return block;
    }

    bool kill_other() override {
        child_->kill();
        return true;
    }

    Usage usage(size_t process) const override {
        if (process == 0) return own_usage();
        return child_->ask_for<Usage>(call(Call::kUsage), {});
    }

private:
    ForkedOptions options_;
    std::unique_ptr<Child> child_;
    std::unique_ptr<Device> near_;
    std::unique_ptr<Device> stranger_;
    FarDevice far_;
};

[[noreturn]] void be_the_child(int fd, const ForkedOptions& options) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) {
        std::signal(signal, SIG_DFL);  // doctest's handlers would report in both processes
    }
    {
        Channel channel(fd);
        serve_calls(channel, options.make_device());
    }
    _exit(0);
}

Result<std::unique_ptr<Fabric>> make_forked(const ForkedOptions& options) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        return Error(Errc::kIo, "no socket to a second process", errno);
    }
    const pid_t pid = fork();
    if (pid < 0) {
        ::close(fds[0]);
        ::close(fds[1]);
        return Error(Errc::kIo, "no second process", errno);
    }
    if (pid == 0) {
        ::close(fds[0]);
        be_the_child(fds[1], options);
    }
    ::close(fds[1]);
    auto child = std::make_unique<Child>(pid, fds[0]);
    auto hello = child->channel().receive();
    if (!hello) return Error(Errc::kPeerLost, "process 1 died before it had a device");
    const auto code = hello->values.get<Errc>();
    std::string text = hello->values.get_text();
    if (code != Errc::kOk) return Error(code, text);
    WEIR_ASSIGN(auto near, options.make_device());
    return std::unique_ptr<Fabric>(std::make_unique<ForkedFabric>(
        options, std::move(child), std::move(text), std::move(near)));
}

}  // namespace

FabricFactory forked(ForkedOptions options) {
    return [options = std::move(options)] { return make_forked(options); };
}

}  // namespace weir::transport::conformance
