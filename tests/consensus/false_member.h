// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FalseMember: one replica of three, whose peers are played by whoever holds it, and say what they like.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/check.h"
#include "lib/consensus/messages.h"
#include "lib/consensus/parts.h"
#include "lib/consensus/replicated_log.h"
#include "transport/sim/network.h"

namespace weir::testing {

/// Takes everything.
class AnyEntries final : public consensus::Replicated {
public:
    void apply(uint64_t /*index*/, std::span<const std::byte> /*entry*/) override { ++applied; }

    [[nodiscard]] std::vector<std::byte> snapshot() override { return {}; }

    [[nodiscard]] Status restore(std::span<const std::byte> /*snapshot*/) override { return {}; }

    void lead(uint64_t /*term*/) override {}

    void follow() override {}

    uint64_t applied = 0;
};

class FalseMember {
public:
    static constexpr uint64_t kGroup = 77;

    /// The replica is 1; 2 and 3 are here, and listen.
    explicit FalseMember(uint64_t seed) : network_(seed, clock_) {
        for (uint64_t host = 1; host <= 3; ++host) {
            devices_.push_back(network_.make_device(static_cast<uint32_t>(host)));
            endpoints_.push_back(std::move(devices_.back()->make_endpoint({}).value()));
        }
        consensus::ReplicatedLogOptions options;
        options.group = kGroup;
        options.self = 1;
        options.seed = seed;
        options.entries_per_snapshot = 10;
        options.entries_kept = 3;
        for (uint64_t id = 1; id <= 3; ++id)
            options.members.push_back({id, endpoints_[id - 1]->address()});
        address_ = endpoints_[0]->address();
        auto started =
            consensus::start_replicated_log(options, std::move(endpoints_[0]), clock_, entries);
        WEIR_CHECK(started.has_value());
        log = *std::move(started);
    }

    /// Connects as `sender` to the replica. The connection is that of the other functions.
    void connect(uint64_t sender, const consensus::Greeting& greeting) {
        sender_ = sender;
        connection_ = endpoints_[sender - 1]->connect(address_).value();
        is_closed = false;
        run(kMillisecond);
        send_part(consensus::encode_greeting(greeting));
    }

    void connect(uint64_t sender) { connect(sender, {kGroup, sender, 1}); }

    void send_part(std::span<const std::byte> part) {
        (void)endpoints_[sender_ - 1]->send(connection_, std::span(&part, 1));
        run(kMillisecond);
    }

    void send(std::span<const std::byte> message) {
        for (const std::vector<std::byte>& part : consensus::cut_message(message, 8192))
            send_part(part);
    }

    void send(const consensus::Message& message) { send(consensus::encode_message(message)); }

    void run(uint64_t for_ns) {
        for (const uint64_t end_ns = clock_.now_ns() + for_ns; clock_.now_ns() < end_ns;) {
            network_.advance_to(clock_.now_ns() + kMillisecond / 4);
            log->poll();
            for (const uint64_t id : {2, 3})
                look(*endpoints_[id - 1], id);
        }
    }

    /// The last message of the replica that holds a T; nullptr: none.
    template <class T>
    [[nodiscard]] const T* heard() const {
        for (auto at = heard_.rbegin(); at != heard_.rend(); ++at)
            if (const T* const found = std::get_if<T>(&*at)) return found;
        return nullptr;
    }

private:
    void look(transport::Endpoint& endpoint, uint64_t id) {
        const size_t count = endpoint.poll(completions_);
        for (const transport::Completion& completion : std::span(completions_).first(count)) {
            if (completion.event == transport::Event::kClosed && id == sender_ &&
                completion.connection == connection_)
                is_closed = true;
            if (completion.event != transport::Event::kReceived) continue;
            consensus::PartJoiner joiner(size_t{1} << 20);
            if (!joiner.take(completion.message)) continue;
            const auto bytes = joiner.message();
            auto message = bytes ? consensus::decode_message(*bytes) : std::nullopt;
            if (message) heard_.push_back(*std::move(message));
        }
        endpoint.flush();
    }

    ManualClock clock_;
    transport::sim::Network network_;
    std::vector<std::unique_ptr<transport::Device>> devices_;
    std::vector<std::unique_ptr<transport::Endpoint>> endpoints_;
    std::string address_;
    uint64_t sender_ = 2;
    transport::ConnectionId connection_ = 0;
    std::array<transport::Completion, 16> completions_;
    std::vector<consensus::Message> heard_;

public:                      // what uses the network ends before it
    bool is_closed = false;  ///< by the replica
    AnyEntries entries;
    std::unique_ptr<consensus::ReplicatedLog> log;
};

}  // namespace weir::testing
