// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/conformance/stage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <doctest/doctest.h>

#include "lib/base/clock.h"

namespace weir::transport::conformance {

namespace {

constexpr size_t kPageBytes = 4096;

bool begins(Event event) {
    return event == Event::kConnected || event == Event::kAccepted;
}

}  // namespace

Party::Party(Device& device, const EndpointOptions& options)
    : device_(device), completions_(kPolledMost) {
    auto made = device.make_endpoint(options);
    REQUIRE_MESSAGE(made.has_value(), "make_endpoint: " << why(made));
    endpoint_ = std::move(made).value();
}

size_t Party::poll(size_t most) {
    const size_t count = endpoint_->poll(std::span(completions_).first(most));
    REQUIRE(count <= most);
    for (size_t i = 0; i < count; ++i)
        check(completions_[i]);
    return count;
}

void Party::check(const Completion& c) {
    const std::string who = device_.name().data() + (" connection " + std::to_string(c.connection));
    State& state = states_[c.connection];
    if (state.ended) FAIL_CHECK(who << ": something after kClosed");
    if (begins(c.event) && state.begun) FAIL_CHECK(who << ": began twice");
    if (!begins(c.event) && c.event != Event::kClosed && !state.begun) {
        FAIL_CHECK(who << ": something before kConnected or kAccepted");
    }
    if (begins(c.event)) state.begun = true;
    if (c.event == Event::kAccepted) accepted_.push_back(c.connection);
    if (c.event == Event::kRead || c.event == Event::kWritten) {
        const auto found = state.open.find(c.context);
        if (found == state.open.end()) {
            FAIL_CHECK(who << ": an operation ended that was not open, context " << c.context);
        } else {
            state.open.erase(found);
        }
    }
    if (c.event == Event::kClosed) {
        state.ended = true;
        if (!state.open.empty()) {
            FAIL_CHECK(who << ": kClosed before " << state.open.size() << " operations ended");
        }
    }
    if (c.event == Event::kReceived && !c.message.empty() &&
        reinterpret_cast<uintptr_t>(c.message.data()) % 8 != 0) {
        FAIL_CHECK(who << ": a message that is not 8-byte aligned");
    }
    seen_.push_back({c.event, c.status, c.immediate, c.connection, c.context, text_of(c.message),
                     c.peer_ended});
}

Result<ConnectionId> Party::connect(std::string_view address) {
    return endpoint_->connect(address);
}

Post Party::send(ConnectionId connection, std::string_view text) {
    const std::span<const std::byte> part = bytes_of(text);
    return endpoint_->send(connection, {&part, 1});
}

Post Party::read(ConnectionId connection, std::span<std::byte> into, const RemoteSpan& from,
                 uint64_t context) {
    const Post post = endpoint_->read(connection, into, from, context);
    if (post == Post::kPosted) states_[connection].open.insert(context);
    return post;
}

Post Party::write(ConnectionId connection, std::span<const std::byte> from, const RemoteSpan& to,
                  uint64_t context) {
    const Post post = endpoint_->write(connection, from, to, context);
    if (post == Post::kPosted) states_[connection].open.insert(context);
    return post;
}

Post Party::write_immediate(ConnectionId connection, std::span<const std::byte> from,
                            const RemoteSpan& to, uint32_t immediate, uint64_t context) {
    const Post post = endpoint_->write_immediate(connection, from, to, immediate, context);
    if (post == Post::kPosted) states_[connection].open.insert(context);
    return post;
}

std::vector<Seen> Party::seen_of(ConnectionId connection) const {
    std::vector<Seen> found;
    for (const Seen& one : seen_) {
        if (one.connection == connection) found.push_back(one);
    }
    return found;
}

size_t Party::count(Event event, ConnectionId connection) const {
    return static_cast<size_t>(std::count_if(seen_.begin(), seen_.end(), [&](const Seen& one) {
        return one.event == event && one.connection == connection;
    }));
}

const Seen& Party::last(Event event, ConnectionId connection) const {
    const auto found = std::find_if(seen_.rbegin(), seen_.rend(), [&](const Seen& one) {
        return one.event == event && one.connection == connection;
    });
    REQUIRE(found != seen_.rend());
    return *found;
}

bool Party::closed(ConnectionId connection) const {
    const auto found = states_.find(connection);
    return found != states_.end() && found->second.ended;
}

size_t Party::open_operations(ConnectionId connection) const {
    const auto found = states_.find(connection);
    return found == states_.end() ? 0 : found->second.open.size();
}

Registered::Registered(Fabric& fabric, size_t process, Access access, size_t length_bytes)
    : device_(fabric.device(process)) {
    const MemoryBlock block = fabric.make_memory(process, length_bytes + 2 * kPageBytes);
    outer_ = block.bytes;
    inner_ = block.bytes.subspan(kPageBytes, length_bytes);
    const auto region =
        device_.register_memory({inner_, block.fd, block.fd_offset + kPageBytes}, access);
    REQUIRE_MESSAGE(region.has_value(), "register_memory: " << why(region));
    region_ = *region;
    registered_ = true;
}

Registered::~Registered() {
    deregister();
}

void Registered::deregister() {
    if (registered_) device_.deregister_memory(region_);
    registered_ = false;
}

Party& Stage::add(size_t process, const EndpointOptions& options) {
    return add(fabric_.device(process), options);
}

Party& Stage::add(Device& device, const EndpointOptions& options) {
    parties_.push_back(std::make_unique<Party>(device, options));
    return *parties_.back();
}

void Stage::remove(Party& party) {
    const auto found = std::find_if(parties_.begin(), parties_.end(),
                                    [&](const auto& one) { return one.get() == &party; });
    REQUIRE(found != parties_.end());
    parties_.erase(found);
}

void Stage::stop_polling(Party& party) {
    left_alone_.push_back(&party);
}

size_t Stage::step() {
    size_t count = 0;
    for (const auto& party : parties_) {
        if (std::find(left_alone_.begin(), left_alone_.end(), party.get()) == left_alone_.end())
            count += party->poll();
    }
    fabric_.advance();
    return count;
}

bool Stage::until(const std::function<bool()>& done) {
    const SteadyClock real;
    uint64_t progress_ns = fabric_.now_ns();
    uint64_t real_progress_ns = real.now_ns();
    while (!done()) {
        if (fabric_.now_ns() - progress_ns > patience_ns() ||
            real.now_ns() - real_progress_ns > patience_ns())
            return false;
        if (step() == 0) continue;
        progress_ns = fabric_.now_ns();
        real_progress_ns = real.now_ns();
    }
    return true;
}

void Stage::settle() {
    constexpr int kStepsMin = 20;  // the process may not run for all of the time
    const uint64_t end_ns = fabric_.now_ns() + 20 * kMillisecond;
    int steps = 0;
    const bool settled = until([&] { return ++steps > kStepsMin && fabric_.now_ns() > end_ns; });
    REQUIRE(settled);
}

Link Stage::connect(Party& from, Party& to) {
    const size_t accepted_before = to.accepted().size();
    const auto begun = from.connect(to.endpoint().address());
    REQUIRE_MESSAGE(begun.has_value(), "connect: " << why(begun));
    const bool done = until([&] {
        return (from.count(Event::kConnected, *begun) == 1 &&
                to.accepted().size() > accepted_before) ||
               from.closed(*begun);
    });
    REQUIRE_MESSAGE(done, "connect to " << to.endpoint().address() << " takes too long");
    if (from.closed(*begun)) {
        FAIL("connect to " << to.endpoint().address()
                           << " ends: " << to_string(from.last(Event::kClosed, *begun).status));
    }
    return {*begun, to.accepted().back()};
}

Post Stage::insist(const std::function<Post()>& post) {
    Post answer = Post::kNotNow;
    const bool done = until([&] { return (answer = post()) != Post::kNotNow; });
    CHECK_MESSAGE(done, "kNotNow until the deadline");
    return answer;
}

void Stage::send(Party& from, ConnectionId connection, std::string_view text) {
    REQUIRE(insist([&] { return from.send(connection, text); }) == Post::kPosted);
}

std::string pattern(uint64_t number, size_t length) {
    std::string text = std::to_string(number) + ":";
    for (size_t i = text.size(); i < length; ++i) {
        text.push_back(static_cast<char>('a' + (number * 7 + i * i) % 26));
    }
    text.resize(length);
    return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

void fill(std::span<std::byte> bytes, std::byte value) {
    std::fill(bytes.begin(), bytes.end(), value);
}

uint64_t patience_ns() {
    static const uint64_t patience_s = number_from_environment("WEIR_CONFORMANCE_PATIENCE_S", 60);
    return patience_s * kSecond;
}

uint64_t number_from_environment(const char* name, uint64_t otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace weir::transport::conformance
