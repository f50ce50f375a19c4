// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: whatever the contract allows, in random orders, against a model of it. Two links
/// join the same two endpoints. Both sides of a link send, read, write, deregister and close, with
/// several operations open.

#include <algorithm>
#include <array>
#include <cstring>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "tests/seed.h"
#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

constexpr size_t kBorderBytes = 4096;
constexpr size_t kSlots = 6;
constexpr size_t kSlotBytes = size_t{48} * kBorderBytes;  // more than a buffer of a backend holds
constexpr size_t kOpenMost = 12;                          // operations of one side
constexpr std::byte kBlank{0x5a};
/// What is open when a connection is closed may be cancelled after such a time.
constexpr uint64_t kClosingNs = kSecond / 2;

/// Bytes that differ for every `number`.
void fill_with(std::span<std::byte> bytes, uint64_t number) {
    uint64_t word = (number + 1) * 0x9e3779b97f4a7c15;
    for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word), ++word)
        std::memcpy(bytes.data(), &word, sizeof word);
    std::memcpy(bytes.data(), &word, bytes.size());
}

bool are_equal(std::span<const std::byte> a, std::span<const std::byte> b) {
    return std::ranges::equal(a, b);
}

/// Registered memory in slots, with a page before and behind it that is not registered.
class Slots {
public:
    Slots(Fabric& fabric, size_t process, Access access)
        : device_(fabric.device(process)),
          access_(access),
          block_(fabric.make_memory(process, kSlots * kSlotBytes + 2 * kBorderBytes)) {
        fill(block_.bytes, kBlank);
        enter();
    }

    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;

    ~Slots() { leave(); }

    [[nodiscard]] std::span<std::byte> all() const {
        return block_.bytes.subspan(kBorderBytes, kSlots * kSlotBytes);
    }

    [[nodiscard]] std::span<std::byte> of(size_t slot) const {
        return all().subspan(slot * kSlotBytes, kSlotBytes);
    }

    void leave() {
        if (region_ != 0) device_.deregister_memory(std::exchange(region_, 0));
    }

    void enter() {
        const auto region =
            device_.register_memory({all(), block_.fd, block_.fd_offset + kBorderBytes}, access_);
        REQUIRE_MESSAGE(region.has_value(), "register_memory: " << why(region));
        region_ = *region;
    }

    void check_borders() const {
        CHECK(all_are(block_.bytes.first(kBorderBytes), kBlank));
        CHECK(all_are(block_.bytes.last(kBorderBytes), kBlank));
    }

private:
    Device& device_;
    Access access_;
    MemoryBlock block_;
    RegionId region_ = 0;
};

struct OpenOperation {
    Event event = Event::kRead;
    size_t from = 0;  ///< slot of the poster's memory
    size_t to = 0;    ///< slot of the target's
    size_t length = 0;
    bool is_stale = false;  ///< posted after the target's memory was deregistered
};

/// What the target has to receive next, in order.
struct Delivery {
    Event event = Event::kReceived;
    std::string message;
    uint32_t immediate = 0;
    size_t slot = 0;
    uint64_t writes = 0;  ///< to the slot, posted before
};

/// One side of a link: what it posts, and what its peer, the target, has to see of that.
struct Poster {
    Poster(Fabric& fabric, size_t process, Party& own_party)
        : party(own_party),
          own(fabric, process, Access::kLocal),
          targets(fabric, 1 - process, Access::kRemote) {}

    Party& party;
    ConnectionId id = 0;
    Slots own;      ///< sources and targets of its operations
    Slots targets;  ///< the memory of the target that it reads and writes
    RemoteSpan exposed{};
    /// What its writes make of `targets`.
    std::array<std::vector<std::byte>, kSlots> bytes;
    std::array<uint64_t, kSlots> writes{};
    std::array<uint32_t, kSlots> reads_open{};
    std::array<bool, kSlots> own_in_use{};
    std::map<uint64_t, OpenOperation> open;
    std::deque<Delivery> deliveries;
    bool targets_are_gone = false;
    uint64_t closing_since_ns = 0;  ///< it has closed the connection; 0: no
    bool is_closed = false;
};

class Model {
public:
    Model(Fabric& fabric, uint64_t seed) : stage_(fabric), random_(seed), fabric_(fabric) {
        Party& a = stage_.add(0);
        Party& b = stage_.add(1);
        for (Pair& link : links_) {
            for (const size_t process : {0, 1})
                link[process] = std::make_unique<Poster>(fabric, process, process == 0 ? a : b);
            connect(link);
        }
    }

    void run(size_t actions);

private:
    using Pair = std::array<std::unique_ptr<Poster>, 2>;

    void connect(Pair& link);
    void expose(Poster& poster, Poster& target);
    void act(Pair& link);
    void post(Pair& link, Poster& poster, Event event, bool with_immediate);
    void send(Pair& link, Poster& poster);
    void check(Pair& link, Post answer);
    void reregister(Pair& link, size_t side);
    void take_away(Poster& poster);
    void close(Poster& poster);
    void finish(Pair& link);
    void poll(Poster& poster);
    void take_all();
    void take(Pair& link, Poster& poster, Poster& peer, const Seen& seen);
    void end(Pair& link, Poster& poster, const Seen& seen);
    void deliver(Pair& link, Poster& from, const Seen& seen);

    /// The bytes of an operation or message: often few, often none, now and then many.
    size_t length(size_t most) {
        switch (random_.below(6)) {
            case 0: return 0;
            case 1: return random_.below(most + 1);
            default: return random_.below(std::min<size_t>(300, most) + 1);
        }
    }

    static bool is_doubtful(const Pair& link) {
        return link[0]->targets_are_gone || link[1]->targets_are_gone;
    }

    static bool is_closing(const Pair& link) {
        return link[0]->closing_since_ns != 0 || link[1]->closing_since_ns != 0;
    }

    /// Whether so much time has passed that what is open may be cancelled.
    bool is_late(const Pair& link) const {
        return std::ranges::any_of(link, [&](const auto& side) {
            return side->closing_since_ns != 0 &&
                   fabric_.now_ns() - side->closing_since_ns > kClosingNs;
        });
    }

    Stage stage_;
    Random random_;
    Fabric& fabric_;
    std::array<Pair, 2> links_;
    uint64_t numbers_ = 0;
    bool was_broken_ = false;
};

void Model::connect(Pair& link) {
    // From either side. Events of the other link wait in the parties.
    const size_t from = random_.below(2);
    const Link made = stage_.connect(link[from]->party, link[1 - from]->party);
    link[from]->id = made.near;
    link[1 - from]->id = made.far;
    for (const size_t side : {0, 1}) {
        Poster& poster = *link[side];
        poster.closing_since_ns = 0;
        poster.is_closed = false;
        poster.deliveries.clear();
        if (std::exchange(poster.targets_are_gone, false)) {
            poster.targets.leave();
            poster.targets.enter();
        }
        for (size_t slot = 0; slot < kSlots; ++slot) {
            fill_with(poster.targets.of(slot), ++numbers_);
            poster.bytes[slot].assign(poster.targets.of(slot).begin(),
                                      poster.targets.of(slot).end());
        }
        expose(poster, *link[1 - side]);
    }
}

void Model::expose(Poster& poster, Poster& target) {
    const auto span = target.party.endpoint().expose(target.id, poster.targets.all());
    REQUIRE_MESSAGE(span.has_value(), "expose: " << why(span));
    poster.exposed = *span;
}

void Model::check(Pair& link, Post answer) {
    if (answer == Post::kPosted || answer == Post::kNotNow) return;
    const bool may_be_closed = is_closing(link) || is_doubtful(link);
    if (answer == Post::kClosed && may_be_closed) return;
    FAIL_CHECK("a post is answered with " << static_cast<int>(answer));
}

void Model::send(Pair& link, Poster& poster) {
    const size_t most = poster.party.endpoint().capabilities().message_bytes_max;
    Delivery delivery;
    delivery.message = pattern(++numbers_, length(most));
    delivery.slot = random_.below(kSlots);
    delivery.writes = poster.writes[delivery.slot];
    const Post answer = poster.party.send(poster.id, delivery.message);
    check(link, answer);
    if (answer == Post::kPosted) poster.deliveries.push_back(std::move(delivery));
}

void Model::post(Pair& link, Poster& poster, Event event, bool with_immediate) {
    OpenOperation operation{event, random_.below(kSlots), random_.below(kSlots), length(kSlotBytes),
                            poster.targets_are_gone};
    if (poster.own_in_use[operation.from] || poster.open.size() >= kOpenMost) return;
    // What a read sees of writes that are posted behind it is open.
    if (event == Event::kWritten && poster.reads_open[operation.to] > 0) return;
    const uint64_t number = ++numbers_;
    const std::span<std::byte> local = poster.own.of(operation.from).first(operation.length);
    const RemoteSpan remote{poster.exposed.address + operation.to * kSlotBytes, operation.length,
                            poster.exposed.key};
    Post answer = Post::kNotNow;
    if (event == Event::kRead) {
        fill(poster.own.of(operation.from), kBlank);
        answer = poster.party.read(poster.id, local, remote, number);
    } else {
        fill_with(local, number);
        const auto immediate = static_cast<uint32_t>(number);
        answer = with_immediate
                     ? poster.party.write_immediate(poster.id, local, remote, immediate, number)
                     : poster.party.write(poster.id, local, remote, number);
    }
    check(link, answer);
    if (answer != Post::kPosted) return;
    poster.own_in_use[operation.from] = true;
    if (event == Event::kRead) {
        ++poster.reads_open[operation.to];
    } else {
        std::ranges::copy(local, poster.bytes[operation.to].begin());
        ++poster.writes[operation.to];
    }
    if (with_immediate) {
        poster.deliveries.push_back({Event::kImmediate,
                                     {},
                                     static_cast<uint32_t>(number),
                                     operation.to,
                                     poster.writes[operation.to]});
    }
    poster.open.emplace(number, operation);
}

/// Memory that no operation uses may leave and come back at any time.
void Model::reregister(Pair& link, size_t side) {
    Poster& poster = *link[side];
    if (!poster.open.empty() || is_doubtful(link) || is_closing(link)) return;
    Slots& slots = random_.below(2) == 0 ? poster.own : poster.targets;
    slots.leave();
    stage_.step();
    take_all();
    slots.enter();
    if (&slots == &poster.targets) expose(poster, *link[1 - side]);
}

/// The target gives up its memory, whatever is open, and uses it for something else.
void Model::take_away(Poster& poster) {
    if (poster.targets_are_gone) return;
    poster.targets.leave();
    fill(poster.targets.all(), kBlank);
    if (random_.below(2) == 0) poster.targets.enter();  // with another key
    poster.targets_are_gone = true;
    was_broken_ = true;
}

void Model::close(Poster& poster) {
    if (poster.is_closed || poster.closing_since_ns != 0) return;
    poster.party.endpoint().close(poster.id);
    poster.closing_since_ns = std::max<uint64_t>(1, fabric_.now_ns());
}

void Model::poll(Poster& poster) {
    poster.party.poll(random_.below(3) == 0 ? random_.below(4) : 64);
    fabric_.advance();
    take_all();
}

void Model::act(Pair& link) {
    const size_t side = random_.below(2);
    Poster& poster = *link[side];
    const uint64_t kind = random_.below(1000);
    if (poster.closing_since_ns != 0 || kind < 300) {
        poll(poster);
    } else if (kind < 500) {
        send(link, poster);
    } else if (kind < 700) {
        post(link, poster, Event::kRead, false);
    } else if (kind < 900) {
        post(link, poster, Event::kWritten, kind % 3 == 0);
    } else if (kind < 960) {
        poster.party.endpoint().flush();
    } else if (kind < 990) {
        reregister(link, side);
    } else if (kind < 996) {
        close(poster);
    } else if (kind < 998) {
        take_away(poster);
    }
}

void Model::take_all() {
    for (Poster* const one : {links_[0][0].get(), links_[0][1].get()}) {
        for (const Seen& seen : one->party.seen()) {
            for (Pair& link : links_) {
                for (const size_t side : {0, 1}) {
                    if (&link[side]->party == &one->party && link[side]->id == seen.connection)
                        take(link, *link[side], *link[1 - side], seen);
                }
            }
        }
        one->party.forget();
    }
}

void Model::take(Pair& link, Poster& poster, Poster& peer, const Seen& seen) {
    switch (seen.event) {
        case Event::kConnected:
        case Event::kAccepted: return;
        case Event::kRead:
        case Event::kWritten: return end(link, poster, seen);
        case Event::kReceived:
        case Event::kImmediate: return deliver(link, peer, seen);
        case Event::kClosed: break;
    }
    poster.is_closed = true;
    if (is_doubtful(link) || is_late(link)) return;
    CHECK_MESSAGE(is_closing(link), "nobody has closed it: " << to_string(seen.status));
    CHECK_MESSAGE(seen.status == Errc::kOk, to_string(seen.status));
    if (peer.closing_since_ns != 0 && poster.closing_since_ns == 0)
        CHECK_MESSAGE(peer.deliveries.empty(), "what was sent before the close has not arrived");
}

/// Party has checked that it was open.
void Model::end(Pair& link, Poster& poster, const Seen& seen) {
    const auto found = poster.open.find(seen.context);
    REQUIRE(found != poster.open.end());
    const OpenOperation operation = found->second;
    poster.open.erase(found);
    CHECK(seen.event == operation.event);
    const std::span<std::byte> own = poster.own.of(operation.from);
    poster.own_in_use[operation.from] = false;
    if (seen.event == Event::kRead) --poster.reads_open[operation.to];
    if (seen.status != Errc::kOk) {
        const bool is_cancelled =
            is_closing(link) && (seen.status == Errc::kCancelled || seen.status == Errc::kPeerLost);
        CHECK_MESSAGE((is_cancelled || is_doubtful(link) || is_late(link)),
                      "an operation ends with " << to_string(seen.status));
        return;
    }
    if (operation.is_stale) CHECK(operation.length == 0);
    if (seen.event == Event::kRead) {
        const auto expected = std::span(poster.bytes[operation.to]).first(operation.length);
        CHECK(are_equal(own.first(operation.length), expected));
        CHECK(all_are(own.subspan(operation.length), kBlank));
    }
    fill(own, kBlank);  // it may be used for something else from here on
}

void Model::deliver(Pair& link, Poster& from, const Seen& seen) {
    // An immediate whose write fails does not arrive.
    while (is_doubtful(link) && !from.deliveries.empty() &&
           from.deliveries.front().event == Event::kImmediate &&
           (seen.event != Event::kImmediate || seen.immediate != from.deliveries.front().immediate))
        from.deliveries.pop_front();
    REQUIRE_FALSE(from.deliveries.empty());
    const Delivery expected = std::move(from.deliveries.front());
    from.deliveries.pop_front();
    REQUIRE(seen.event == expected.event);
    CHECK(seen.message == expected.message);
    if (seen.event == Event::kImmediate) CHECK(seen.immediate == expected.immediate);
    if (is_doubtful(link) || from.writes[expected.slot] != expected.writes) return;
    // All that was written before it is there, and nothing was written since.
    CHECK(are_equal(from.targets.of(expected.slot), from.bytes[expected.slot]));
}

/// Ends a link, and checks what is left.
void Model::finish(Pair& link) {
    if (!is_doubtful(link) && !is_closing(link) && random_.below(2) == 0) {
        CHECK(stage_.until([&] {
            take_all();
            return link[0]->open.empty() && link[1]->open.empty() && link[0]->deliveries.empty() &&
                   link[1]->deliveries.empty();
        }));
    }
    for (const auto& side : link) {
        if (!is_closing(link) || is_doubtful(link)) close(*side);
    }
    REQUIRE(stage_.until([&] {
        take_all();
        return link[0]->is_closed && link[1]->is_closed;
    }));
    for (const auto& side : link) {
        side->own.check_borders();
        side->targets.check_borders();
        if (side->targets_are_gone) CHECK(all_are(side->targets.all(), kBlank));
    }
}

void Model::run(size_t actions) {
    for (size_t i = 0; i < actions; ++i) {
        Pair& link = links_[random_.below(links_.size())];
        const bool is_over = (is_doubtful(link) || is_closing(link)) && random_.below(30) == 0;
        if (is_over || (link[0]->is_closed && link[1]->is_closed)) {
            finish(link);
            connect(link);
        } else {
            act(link);
        }
    }
    for (Pair& link : links_)
        finish(link);
    if (was_broken_) return;
    for (const auto& side : links_[0])
        CHECK(side->party.endpoint().counters().refused == 0);
}

void any_order_that_is_allowed(Fabric& fabric) {
    const uint64_t seed = weir::testing::seed_or(36);
    const uint64_t histories = weir::testing::histories_or(4);
    for (uint64_t i = 0; i < histories; ++i) {
        INFO("run again with WEIR_HISTORIES=1 WEIR_SEED=" << seed + i);
        Model(fabric, seed + i).run(1000);
    }
}

}  // namespace

std::vector<Case> interleaving_cases() {
    return {{"any order that is allowed", any_order_that_is_allowed}};
}

}  // namespace weir::transport::conformance
