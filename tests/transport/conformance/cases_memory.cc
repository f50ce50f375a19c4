// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: one-sided access within regions.

#include <cstring>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

constexpr size_t kBigBytes = 1 << 20;

RemoteSpan expose(Party& owner, ConnectionId connection, std::span<const std::byte> memory) {
    const auto span = owner.endpoint().expose(connection, memory);
    REQUIRE_MESSAGE(span.has_value(), "expose: " << why(span));
    REQUIRE(span->length_bytes == memory.size());
    return *span;
}

void put(std::span<std::byte> where, std::string_view text) {
    REQUIRE(text.size() <= where.size());
    std::memcpy(where.data(), text.data(), text.size());
}

void read_and_write_move_bytes(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kLocal, kBigBytes);
    const Registered far(fabric, 1, Access::kRemote, kBigBytes);
    const Link link = stage.connect(a, b);
    uint64_t context = 100;
    for (const size_t length : {size_t{1}, size_t{8}, size_t{63}, size_t{4096}, kBigBytes - 13}) {
        const RemoteSpan span = expose(b, link.far, far.bytes().subspan(13, length));
        put(near.bytes(), pattern(length, length));
        REQUIRE(stage.insist([&] {
            return a.write(link.near, near.bytes().first(length), span, ++context);
        }) == Post::kPosted);
        REQUIRE(stage.until([&] { return a.open_operations(link.near) == 0; }));
        CHECK(a.last(Event::kWritten, link.near).status == Errc::kOk);
        CHECK(a.last(Event::kWritten, link.near).context == context);
        fill(near.bytes(), std::byte{0xee});
        // A read after a write of the same connection sees it.
        REQUIRE(stage.insist([&] {
            return a.read(link.near, near.bytes().first(length), span, ++context);
        }) == Post::kPosted);
        REQUIRE(stage.until([&] { return a.open_operations(link.near) == 0; }));
        CHECK(a.last(Event::kRead, link.near).status == Errc::kOk);
        CHECK(a.last(Event::kRead, link.near).context == context);
        CHECK(text_of(near.bytes().first(length)) == pattern(length, length));
        CHECK(all_are(near.bytes().subspan(length), std::byte{0xee}));
        CHECK(text_of(far.bytes().subspan(13, length)) == pattern(length, length));
        CHECK(all_are(far.all().first(4096 + 13), std::byte{0}));
    }
    CHECK(all_are(far.all().last(4096), std::byte{0}));
    CHECK(b.seen().size() == 1);  // kAccepted only: the target gets no completions
    CHECK(a.endpoint().counters().reads == 5);
    CHECK(a.endpoint().counters().writes == 5);
}

void both_sides_read_each_other(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kRemoteRead);
    const Registered far(fabric, 1, Access::kRemoteRead);
    const Link link = stage.connect(a, b);
    put(near.bytes(), "from near");
    put(far.bytes(), "from far");
    const RemoteSpan of_near = expose(a, link.near, near.bytes().first(100));
    const RemoteSpan of_far = expose(b, link.far, far.bytes().first(100));
    REQUIRE(stage.insist([&] {
        return a.read(link.near, near.bytes().subspan(200, 100), of_far, 1);
    }) == Post::kPosted);
    REQUIRE(stage.insist([&] {
        return b.read(link.far, far.bytes().subspan(200, 100), of_near, 1);
    }) == Post::kPosted);
    REQUIRE(stage.until([&] { return a.seen().size() == 2 && b.seen().size() == 2; }));
    CHECK(text_of(near.bytes().subspan(200, 8)) == "from far");
    CHECK(text_of(far.bytes().subspan(200, 9)) == "from near");
}

void every_operation_ends_once(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kLocal, 64 * 1024);
    const Registered far(fabric, 1, Access::kRemote, 64 * 1024);
    const Link link = stage.connect(a, b);
    for (size_t i = 0; i < 1024; ++i)
        put(far.bytes().subspan(i * 64), pattern(i, 64));
    const RemoteSpan span = expose(b, link.far, far.bytes());
    uint64_t posted = 0;
    REQUIRE(stage.until([&] {  // more than can be in flight, many times over
        while (posted < 3000) {
            const size_t offset = posted % 1024 * 64;
            if (a.read(link.near, near.bytes().subspan(offset, 64),
                       {span.address + offset, 64, span.key}, posted) != Post::kPosted) {
                break;
            }
            ++posted;
        }
        return posted == 3000 && a.open_operations(link.near) == 0;
    }));
    CHECK(a.count(Event::kRead, link.near) == 3000);
    for (const Seen& seen : a.seen())
        CHECK(seen.status == Errc::kOk);
    for (size_t i = 0; i < 1024; ++i) {
        CHECK(text_of(near.bytes().subspan(i * 64, 64)) == pattern(i, 64));
    }
}

void an_immediate_follows_its_data(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kLocal, kBigBytes);
    const Registered far(fabric, 1, Access::kRemoteWrite, kBigBytes);
    const Link link = stage.connect(a, b);
    const RemoteSpan span = expose(b, link.far, far.bytes());
    for (uint64_t round = 1; round <= 20; ++round) {
        fill(near.bytes(), static_cast<std::byte>(round));
        REQUIRE(stage.insist([&] {
            return a.write_immediate(link.near, near.bytes(), span,
                                     0xffffff00U + static_cast<uint32_t>(round), round);
        }) == Post::kPosted);
        REQUIRE(stage.until([&] { return b.count(Event::kImmediate, link.far) == round; }));
        CHECK(b.last(Event::kImmediate, link.far).immediate == 0xffffff00U + round);
        CHECK(all_are(far.bytes(), static_cast<std::byte>(round)));
        REQUIRE(stage.until([&] { return a.open_operations(link.near) == 0; }));
        CHECK(a.last(Event::kWritten, link.near).status == Errc::kOk);
    }
    CHECK(a.count(Event::kWritten, link.near) == 20);
    CHECK(b.seen().size() == 21);
}

void immediates_and_messages_keep_their_order(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered near(fabric, 0, Access::kLocal, 64 * 1024);
    const Registered far(fabric, 1, Access::kRemote, 64 * 1024);
    const Link link = stage.connect(a, b);
    const RemoteSpan span = expose(b, link.far, far.bytes());
    const uint64_t seed = number_from_environment("WEIR_SEED", 11);
    CAPTURE(seed);
    Random random(seed);
    std::vector<uint64_t> kinds;
    for (uint32_t i = 0; i < 600; ++i) {
        kinds.push_back(random.below(3));
        const size_t length = 1 + random.below(random.below(8) == 0 ? 60'000 : 200);
        const Post answer = stage.insist([&] {
            if (kinds[i] == 0) return a.send(link.near, pattern(i, 50));
            if (kinds[i] == 1) {
                return a.write_immediate(link.near, {}, {span.address, 0, span.key}, i, i);
            }
            return a.write_immediate(link.near, near.bytes().first(length),
                                     {span.address, length, span.key}, i, i);
        });
        REQUIRE(answer == Post::kPosted);
    }
    REQUIRE(stage.until([&] { return b.seen().size() == 601; }));
    for (uint32_t i = 0; i < 600; ++i) {
        const Seen& seen = b.seen()[i + 1];
        REQUIRE(seen.event == (kinds[i] == 0 ? Event::kReceived : Event::kImmediate));
        if (kinds[i] == 0) CHECK(seen.message == pattern(i, 50));
        if (kinds[i] != 0) CHECK(seen.immediate == i);
    }
    REQUIRE(stage.until([&] { return a.open_operations(link.near) == 0; }));
}

void immediates_meet_backpressure_too(Fabric& fabric) {
    Stage stage(fabric);
    EndpointOptions small;
    small.messages_in_flight = 16;
    Party& a = stage.add(0, small);
    Party& b = stage.add(1, small);
    const Registered near(fabric, 0, Access::kLocal);
    const Registered far(fabric, 1, Access::kRemoteWrite);
    const Link link = stage.connect(a, b);
    const RemoteSpan span = expose(b, link.far, far.bytes().first(8));
    uint32_t sent = 0;
    for (int refused = 0; refused < 50; ++refused) {  // b does not poll
        const Post answer = a.write_immediate(link.near, near.bytes().first(8), span, sent, sent);
        if (answer == Post::kPosted) {
            refused = -1;
            REQUIRE(++sent < 100'000);
        } else {
            REQUIRE(answer == Post::kNotNow);
        }
        a.poll();
        fabric.advance();
    }
    REQUIRE(stage.until([&] { return b.seen().size() == sent + 1; }));
    for (uint32_t i = 0; i < sent; ++i)
        REQUIRE(b.seen()[i + 1].immediate == i);
}

void mapped_memory_is_the_peers(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Registered far(fabric, 1, Access::kRemote);
    const Link link = stage.connect(a, b);
    const RemoteSpan span = expose(b, link.far, far.bytes().subspan(8, 1000));
    std::byte* const there = a.endpoint().map(link.near, span, Access::kRemote);
    if (!a.endpoint().capabilities().maps_memory) {
        CHECK(there == nullptr);
        MESSAGE("does not apply: this backend does not map memory");
        return;
    }
    REQUIRE(there != nullptr);
    put(far.bytes().subspan(8), "written by the owner");
    CHECK(text_of({there, 20}) == "written by the owner");
    put({there + 500, 100}, "written by the peer");
    stage.send(a, link.near, "it is written");
    REQUIRE(stage.until([&] { return b.count(Event::kReceived, link.far) == 1; }));
    CHECK(text_of(far.bytes().subspan(508, 19)) == "written by the peer");
}

}  // namespace

std::vector<Case> memory_cases() {
    return {
        {"read and write move bytes", read_and_write_move_bytes},
        {"both sides may read each other", both_sides_read_each_other},
        {"every operation ends exactly once", every_operation_ends_once},
        {"an immediate comes when all of its data is there", an_immediate_follows_its_data},
        {"immediates and messages keep their order", immediates_and_messages_keep_their_order},
        {"immediates meet backpressure too", immediates_meet_backpressure_too},
        {"mapped memory is the peer's", mapped_memory_is_the_peers},
    };
}

}  // namespace weir::transport::conformance
