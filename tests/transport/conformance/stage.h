// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Helpers for the conformance cases. A Party is an endpoint whose completions are all checked
/// against the contract. A Stage makes parties, polls them, and limits the time of a case.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/transport/conformance.h"

namespace weir::transport::conformance {

/// A copy of a completion, which stays valid after the next poll().
struct Seen {
    Event event = Event::kClosed;
    Errc status = Errc::kOk;
    uint32_t immediate = 0;
    ConnectionId connection = 0;
    uint64_t context = 0;
    std::string message;
    bool peer_ended = false;
};

/// An endpoint whose completions are checked: a connection begins with kConnected or kAccepted,
/// each posted operation ends exactly once and before kClosed, and nothing follows kClosed.
class Party {
public:
    static constexpr size_t kPolledMost = 64;

    Party(Device& device, const EndpointOptions& options);

    [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }

    [[nodiscard]] Device& device() { return device_; }

    /// Polls once, for `most` completions, and records them. Returns how many there were.
    size_t poll(size_t most = kPolledMost);

    /// As Endpoint::connect().
    [[nodiscard]] Result<ConnectionId> connect(std::string_view address);
    Post send(ConnectionId connection, std::string_view text);
    Post read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
              uint64_t context);
    Post write(ConnectionId connection, std::span<const std::byte> from, const RemoteSpan& to,
               uint64_t context);
    Post write_immediate(ConnectionId connection, std::span<const std::byte> from,
                         const RemoteSpan& to, uint32_t immediate, uint64_t context);

    /// All recorded completions, in order.
    [[nodiscard]] const std::vector<Seen>& seen() const { return seen_; }

    [[nodiscard]] std::vector<Seen> seen_of(ConnectionId connection) const;
    [[nodiscard]] size_t count(Event event, ConnectionId connection) const;
    /// The last completion of that kind on that connection; a failed REQUIRE if there is none.
    [[nodiscard]] const Seen& last(Event event, ConnectionId connection) const;

    /// Connections that were accepted, in order.
    [[nodiscard]] const std::vector<ConnectionId>& accepted() const { return accepted_; }

    [[nodiscard]] bool closed(ConnectionId connection) const;
    /// Reads and writes that have not ended yet.
    [[nodiscard]] size_t open_operations(ConnectionId connection) const;

    /// Clears seen(), which saves memory in long cases. The checks keep their state.
    void forget() { seen_.clear(); }

private:
    struct State {
        bool begun = false;
        bool ended = false;
        std::multiset<uint64_t> open;
    };

    void check(const Completion& completion);

    Device& device_;
    std::unique_ptr<Endpoint> endpoint_;
    std::map<ConnectionId, State> states_;
    std::vector<ConnectionId> accepted_;
    std::vector<Seen> seen_;
    std::vector<Completion> completions_;
};

/// The ids of one connection at its two ends.
struct Link {
    ConnectionId near = 0;
    ConnectionId far = 0;
};

/// Memory that is registered during the lifetime of this object. Only the middle pages are
/// registered; the pages before and after them show stray writes.
class Registered {
public:
    Registered(Fabric& fabric, size_t process, Access access, size_t length_bytes = 4096);
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    ~Registered();

    [[nodiscard]] std::span<std::byte> bytes() const { return inner_; }

    [[nodiscard]] std::span<std::byte> all() const { return outer_; }

    void deregister();

private:
    Device& device_;
    std::span<std::byte> outer_;
    std::span<std::byte> inner_;
    RegionId region_ = 0;
    bool registered_ = false;
};

class Stage {
public:
    explicit Stage(Fabric& fabric) : fabric_(fabric) {}

    [[nodiscard]] Fabric& fabric() { return fabric_; }

    Party& add(size_t process, const EndpointOptions& options = {});
    Party& add(Device& device, const EndpointOptions& options = {});
    /// Destroys the party's endpoint.
    void remove(Party& party);
    /// The stage no longer polls this party: it is dead, or the case polls it.
    void stop_polling(Party& party);

    /// Polls all parties once and advances the time. Returns the number of completions.
    size_t step();
    /// Steps until `done` returns true. False: there was no completion for as long as
    /// patience_ns(). A busy machine only takes longer.
    [[nodiscard]] bool until(const std::function<bool()>& done);
    /// Steps for a short time, so that an event that must not happen could happen.
    void settle();

    /// Connects and waits for both ends.
    [[nodiscard]] Link connect(Party& from, Party& to);
    /// Steps and retries while `post` returns kNotNow; returns its last result.
    Post insist(const std::function<Post()>& post);
    /// Sends by insist(); REQUIREs kPosted.
    void send(Party& from, ConnectionId connection, std::string_view text);

private:
    Fabric& fabric_;
    std::deque<std::unique_ptr<Party>> parties_;
    std::vector<Party*> left_alone_;
};

/// The error text of a Result; empty if it has a value.
template <class T>
[[nodiscard]] std::string why(const Result<T>& result) {
    return result.has_value() ? std::string() : result.error().message();
}

/// Text of that length, different for every `number`.
[[nodiscard]] std::string pattern(uint64_t number, size_t length);
[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view text);
[[nodiscard]] std::string text_of(std::span<const std::byte> bytes);
/// Whether every byte is `value`.
[[nodiscard]] bool all_are(std::span<const std::byte> bytes, std::byte value);
void fill(std::span<std::byte> bytes, std::byte value);
/// For what should happen soon.
[[nodiscard]] uint64_t patience_ns();
/// A number from the environment, or `otherwise`.
[[nodiscard]] uint64_t number_from_environment(const char* name, uint64_t otherwise);

// One list for each file of cases.
[[nodiscard]] std::vector<Case> connection_cases();
[[nodiscard]] std::vector<Case> message_cases();
[[nodiscard]] std::vector<Case> memory_cases();
[[nodiscard]] std::vector<Case> interleaving_cases();
[[nodiscard]] std::vector<Case> refusal_cases();
[[nodiscard]] std::vector<Case> death_cases();
[[nodiscard]] std::vector<Case> sleep_cases();
[[nodiscard]] std::vector<Case> endurance_cases();

}  // namespace weir::transport::conformance
