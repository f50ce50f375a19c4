// SPDX-License-Identifier: Apache-2.0
/// \file
/// Process 1 of a forked fabric: runs the calls on its own device and endpoints.

#include <map>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/transport/conformance.h"
#include "tests/transport/conformance/forked_channel.h"

namespace weir::transport::conformance {

namespace {

/// Memory of process 0 that is mapped here too, at another address.
struct Shared {
    uint64_t there = 0;
    MemoryBlock here;
};

class Server {
public:
    explicit Server(std::unique_ptr<Device> device) : device_(std::move(device)) {}

    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    ~Server() {
        endpoints_.clear();
        device_ = nullptr;
        for (const Shared& shared : shared_) {
            munmap(shared.here.bytes.data(), shared.here.bytes.size());
            ::close(shared.here.fd);
        }
    }

    void answer(Channel& channel, Channel::Parcel request) {
        Values& in = request.values;
        Values out;
        int fd = -1;
        const auto call = in.get<Call>();
        switch (call) {
            case Call::kShareMemory: share(in, request.fd); break;
            case Call::kRegister: register_memory(in, out); break;
            case Call::kDeregister: device_->deregister_memory(in.get<RegionId>()); break;
            case Call::kMakeEndpoint: make_endpoint(in, out); break;
            case Call::kDestroyEndpoint: endpoints_.erase(in.get<uint64_t>()); break;
            case Call::kUsage: out.put(own_usage()); break;
            case Call::kArm: out.put(fd = endpoint(in).arm()); break;
            default: answer_endpoint(call, endpoint(in), in, out); break;
        }
        channel.send(out, fd);
    }

private:
    Endpoint& endpoint(Values& in) {
        const auto found = endpoints_.find(in.get<uint64_t>());
        WEIR_CHECK(found != endpoints_.end());
        return *found->second;
    }

    void share(Values& in, int fd) {
        Shared shared;
        shared.there = in.get<uint64_t>();
        const auto length = in.get<size_t>();
        void* const start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        WEIR_CHECK(start != MAP_FAILED);
        shared.here = {{static_cast<std::byte*>(start), length}, fd, 0};
        shared_.push_back(shared);
    }

    /// The block that holds an address of process 0, or nullptr.
    const Shared* find(uint64_t there) const {
        for (const Shared& shared : shared_) {
            if (there >= shared.there && there - shared.there < shared.here.bytes.size()) {
                return &shared;
            }
        }
        return nullptr;
    }

    /// Translates memory of process 0. Memory that is not shared keeps its address; it is not
    /// accessed.
    std::span<std::byte> get_memory(Values& in) const {
        auto start = in.get<uint64_t>();
        const auto length = in.get<size_t>();
        if (const Shared* const shared = find(start)) {
            start += reinterpret_cast<uint64_t>(shared->here.bytes.data()) - shared->there;
        }
        return {reinterpret_cast<std::byte*>(start), length};
    }

    void register_memory(Values& in, Values& out) {
        const std::span<std::byte> memory = get_memory(in);
        const auto offset = in.get<uint64_t>();
        int fd = -1;
        for (const Shared& shared : shared_) {
            if (shared.here.bytes.data() + offset == memory.data()) fd = shared.here.fd;
        }
        WEIR_CHECK(fd >= 0);
        out.put_result(device_->register_memory({memory, fd, offset}, in.get<Access>()));
    }

    void make_endpoint(Values& in, Values& out) {
        auto made = device_->make_endpoint(in.get<EndpointOptions>());
        out.put(made.code());
        if (!made) {
            out.put_text(made.error().text());
            return;
        }
        out.put(++last_endpoint_).put_text((*made)->address());
        endpoints_[last_endpoint_] = std::move(made).value();
    }

    void answer_endpoint(Call call, Endpoint& e, Values& in, Values& out) const {
        switch (call) {
            case Call::kConnect: out.put_result(e.connect(in.get_text())); break;
            case Call::kClose: e.close(in.get<ConnectionId>()); break;
            case Call::kSend: send(e, in, out); break;
            case Call::kExpose: {
                const auto id = in.get<ConnectionId>();
                out.put_result(e.expose(id, get_memory(in)));
                break;
            }
            case Call::kRead:
            case Call::kWrite:
            case Call::kWriteImmediate: post(call, e, in, out); break;
            case Call::kFlush: e.flush(); break;
            case Call::kPoll: poll(e, in, out); break;
            case Call::kPeerName: out.put_text(e.peer_name(in.get<ConnectionId>())); break;
            case Call::kCounters: out.put(e.counters()); break;
            case Call::kCapabilities: out.put(e.capabilities()); break;
            default: WEIR_CHECK(false);
        }
    }

    static void send(Endpoint& e, Values& in, Values& out) {
        const auto id = in.get<ConnectionId>();
        std::vector<std::string> texts(in.get<size_t>());
        std::vector<std::span<const std::byte>> parts;
        for (std::string& text : texts) {
            text = in.get_text();
            parts.push_back(std::as_bytes(std::span(text)));
        }
        out.put(e.send(id, parts));
    }

    void post(Call call, Endpoint& e, Values& in, Values& out) const {
        const auto id = in.get<ConnectionId>();
        const std::span<std::byte> memory = get_memory(in);
        const auto remote = in.get<RemoteSpan>();
        const auto immediate = in.get<uint32_t>();
        const auto context = in.get<uint64_t>();
        if (call == Call::kRead) {
            out.put(e.read(id, memory, remote, context));
        } else if (call == Call::kWrite) {
            out.put(e.write(id, memory, remote, context));
        } else {
            out.put(e.write_immediate(id, memory, remote, immediate, context));
        }
    }

    static void poll(Endpoint& e, Values& in, Values& out) {
        std::vector<Completion> completions(in.get<size_t>());
        completions.resize(e.poll(completions));
        out.put(completions.size());
        for (const Completion& c : completions) {
            out.put(c.event).put(c.status).put(c.immediate).put(c.connection).put(c.context);
            WEIR_CHECK(reinterpret_cast<uintptr_t>(c.message.data()) % 8 == 0);
            out.put_text({reinterpret_cast<const char*>(c.message.data()), c.message.size()});
        }
    }

    std::unique_ptr<Device> device_;
    std::vector<Shared> shared_;
    std::map<uint64_t, std::unique_ptr<Endpoint>> endpoints_;
    uint64_t last_endpoint_ = 0;
};

}  // namespace

void serve_calls(Channel& channel, Result<std::unique_ptr<Device>> device) {
    Values hello;
    hello.put(device.code());
    hello.put_text(device ? std::string((*device)->name()) : device.error().text());
    if (!channel.send(hello) || !device) return;
    Server server(std::move(device).value());
    while (auto request = channel.receive())
        server.answer(channel, std::move(*request));
}

}  // namespace weir::transport::conformance
