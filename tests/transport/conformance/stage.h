// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the cases of the conformance suite act with: a Party is an endpoint whose every completion
/// is checked against the contract; a Stage makes parties, polls them all, and knows the deadline.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/transport/conformance.h"

namespace weir::transport::conformance {

/// A completion that outlives the next poll().
struct Seen {
    Event event = Event::kClosed;
    Errc status = Errc::kOk;
    uint32_t immediate = 0;
    ConnectionId connection = 0;
    uint64_t context = 0;
    std::string message;
};

/// An endpoint under observation. Checks that a connection begins with kConnected or kAccepted,
/// that whatever was posted ends exactly once and before kClosed, and that nothing comes after it.
class Party {
public:
    Party(Device& device, const EndpointOptions& options);

    [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }

    [[nodiscard]] Device& device() { return device_; }

    /// Polls once and remembers what came. Returns how much it was.
    size_t poll();

    /// What Endpoint::connect says.
    [[nodiscard]] Result<ConnectionId> connect(std::string_view address);
    Post send(ConnectionId connection, std::string_view text);
    Post read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
              uint64_t context);
    Post write(ConnectionId connection, std::span<const std::byte> from, const RemoteSpan& to,
               uint64_t context);
    Post write_immediate(ConnectionId connection, std::span<const std::byte> from,
                         const RemoteSpan& to, uint32_t immediate, uint64_t context);

    /// Everything seen, in order.
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

    /// Forgets seen(), to keep long cases small; what checks the contract stays.
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

/// Both names of one connection.
struct Link {
    ConnectionId near = 0;
    ConnectionId far = 0;
};

/// Memory that is registered for as long as this lives. Only the middle pages are registered: what
/// lies before and behind is there to be found unharmed.
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
    /// From now on that party is dead, or polled by the case itself.
    void stop_polling(Party& party);

    /// Polls everybody once and lets time pass.
    void step();
    /// Steps until `done` says so; false after the deadline.
    [[nodiscard]] bool until(const std::function<bool()>& done);
    /// Steps for a moment in which nothing is expected to happen.
    void settle();

    /// Connects and waits for both ends.
    [[nodiscard]] Link connect(Party& from, Party& to);
    /// Tries until it is taken, stepping between; the answer is kPosted, or what else came.
    Post insist(const std::function<Post()>& post);
    /// Sends, insisting; REQUIREs that it is taken.
    void send(Party& from, ConnectionId connection, std::string_view text);

private:
    Fabric& fabric_;
    std::deque<std::unique_ptr<Party>> parties_;
    std::vector<Party*> left_alone_;
};

/// The error of a Result for a message; empty if it is none.
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
/// A number from the environment, or `otherwise`.
[[nodiscard]] uint64_t number_from_environment(const char* name, uint64_t otherwise);

// One list per file of cases.
[[nodiscard]] std::vector<Case> connection_cases();
[[nodiscard]] std::vector<Case> message_cases();
[[nodiscard]] std::vector<Case> memory_cases();
[[nodiscard]] std::vector<Case> refusal_cases();
[[nodiscard]] std::vector<Case> death_cases();
[[nodiscard]] std::vector<Case> sleep_cases();
[[nodiscard]] std::vector<Case> endurance_cases();

}  // namespace weir::transport::conformance
