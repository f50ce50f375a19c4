// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// ScriptedDevice and ScriptedEndpoint: record their calls, and return what a test has set.

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace weir::transport {

class ScriptedEndpoint final : public Endpoint {
public:
    explicit ScriptedEndpoint(std::string name) : name_(std::move(name)) {}

    Capabilities can{false, true, 1024, 8};
    Errc refusal = Errc::kOk;  ///< the result of connect()
    bool endless = false;      ///< every poll is filled with events of connection 1
    int fd = -1;
    std::vector<Completion> completions;  ///< of the next poll
    std::vector<std::string> connected_to;
    std::vector<ConnectionId> called;
    size_t polls = 0;

    std::string address() const override { return name_ + ":here"; }

    Capabilities capabilities() const override { return can; }

    Result<ConnectionId> connect(std::string_view address) override {
        if (refusal != Errc::kOk) return Error(refusal, name_ + " says no");
        connected_to.emplace_back(address);
        return connected_to.size();
    }

    void close(ConnectionId id) override { called.push_back(id); }

    Post send(ConnectionId id, std::span<const std::span<const std::byte>> /*parts*/) override {
        ++counters_.messages_sent;
        return note(id);
    }

    Result<RemoteSpan> expose(ConnectionId id, std::span<const std::byte> memory) override {
        called.push_back(id);
        return RemoteSpan{0, memory.size(), 0};
    }

    Post read(ConnectionId id, std::span<std::byte> /*into*/, const RemoteSpan& /*from*/,
              uint64_t /*context*/) override {
        return note(id);
    }

    Post write(ConnectionId id, std::span<const std::byte> /*from*/, const RemoteSpan& /*to*/,
               uint64_t /*context*/) override {
        return note(id);
    }

    Post write_immediate(ConnectionId id, std::span<const std::byte> /*from*/,
                         const RemoteSpan& /*to*/, uint32_t /*immediate*/,
                         uint64_t /*context*/) override {
        return note(id);
    }

    std::byte* map(ConnectionId id, const RemoteSpan& /*span*/, Access /*wanted*/) override {
        called.push_back(id);
        return nullptr;
    }

    void flush() override {}

    size_t poll(std::span<Completion> out) override {
        ++polls;
        if (!endless) {
            std::copy(completions.begin(), completions.end(), out.begin());
            return std::exchange(completions, {}).size();
        }
        for (Completion& completion : out) {
            completion = {};
            completion.event = Event::kImmediate;
            completion.connection = 1;
        }
        return out.size();
    }

    int arm() override { return fd; }

    std::string peer_name(ConnectionId /*id*/) const override { return name_ + "'s peer"; }

    const EndpointCounters& counters() const noexcept override { return counters_; }

private:
    Post note(ConnectionId id) {
        called.push_back(id);
        return Post::kPosted;
    }

    std::string name_;
    EndpointCounters counters_;
};

class ScriptedDevice final : public Device {
public:
    explicit ScriptedDevice(std::string name) : name_(std::move(name)) {}

    std::set<RegionId> registered;
    bool out_of_memory = false;
    bool pins = false;
    ScriptedEndpoint* endpoint = nullptr;  ///< the last one made

    std::string_view name() const noexcept override { return name_; }

    bool pins_memory() const noexcept override { return pins; }

    Result<RegionId> register_memory(const MemoryBlock& /*block*/, Access /*access*/) override {
        if (out_of_memory) return Error(Errc::kNoMemory, name_ + " is full");
        registered.insert(++last_);
        return last_;
    }

    void deregister_memory(RegionId region) override { registered.erase(region); }

    Result<std::unique_ptr<Endpoint>> make_endpoint(const EndpointOptions& /*options*/) override {
        auto made = std::make_unique<ScriptedEndpoint>(name_);
        endpoint = made.get();
        return std::unique_ptr<Endpoint>(std::move(made));
    }

private:
    std::string name_;
    RegionId last_ = 0;
};

}  // namespace weir::transport
