// SPDX-License-Identifier: Apache-2.0
/// \file
/// Conformance: messages.

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/transport/conformance/stage.h"

namespace weir::transport::conformance {

namespace {

void messages_arrive_in_order(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    const uint64_t seed = number_from_environment("WEIR_SEED", 7);
    CAPTURE(seed);
    Random random(seed);
    const uint32_t longest = a.endpoint().capabilities().message_bytes_max;
    std::vector<size_t> lengths;
    for (size_t i = 0; i < 1000; ++i) {
        lengths.push_back(random.below(random.below(4) == 0 ? longest + 1 : 200));
        stage.send(a, link.near, pattern(i, lengths.back()));
        if (i % 3 == 0) stage.send(b, link.far, pattern(i, 40));
    }
    REQUIRE(stage.until([&] { return b.seen().size() == 1001 && a.seen().size() == 335; }));
    for (size_t i = 0; i < 1000; ++i) {
        const Seen& seen = b.seen()[i + 1];
        REQUIRE(seen.event == Event::kReceived);
        REQUIRE(seen.message == pattern(i, lengths[i]));
    }
    for (size_t i = 0; i < 334; ++i)
        REQUIRE(a.seen()[i + 1].message == pattern(i * 3, 40));
    CHECK(a.endpoint().counters().messages_sent == 1000);
    CHECK(a.endpoint().counters().messages_received == 334);
    CHECK(b.endpoint().counters().messages_received == 1000);
}

void an_odd_longest_message_changes_nothing(Fabric& fabric) {
    Stage stage(fabric);
    EndpointOptions odd;
    odd.message_bytes_max = 1001;
    odd.messages_in_flight = 8;
    Party& a = stage.add(0, odd);
    Party& b = stage.add(1, odd);
    const Link link = stage.connect(a, b);
    const uint32_t longest = a.endpoint().capabilities().message_bytes_max;
    for (uint64_t i = 0; i < 20; ++i)
        stage.send(a, link.near, pattern(i, longest - i % 3));
    // Party checks that each of them is aligned.
    REQUIRE(stage.until([&] { return b.count(Event::kReceived, link.far) == 20; }));
    for (uint64_t i = 0; i < 20; ++i)
        CHECK(b.seen()[i + 1].message == pattern(i, longest - i % 3));
}

void empty_and_biggest_messages(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    const uint32_t longest = a.endpoint().capabilities().message_bytes_max;
    REQUIRE(longest > 0);
    REQUIRE(a.endpoint().capabilities().operations_max > 0);
    REQUIRE(stage.insist([&] { return a.endpoint().send(link.near, {}); }) == Post::kPosted);
    stage.send(a, link.near, "");
    stage.send(a, link.near, pattern(1, longest));
    CHECK(stage.insist([&] { return a.send(link.near, pattern(2, longest + 1)); }) ==
          Post::kInvalid);
    CHECK(stage.insist([&] { return a.send(link.near, pattern(2, longest + 1000000)); }) ==
          Post::kInvalid);
    stage.send(a, link.near, pattern(3, longest - 1));
    REQUIRE(stage.until([&] { return b.seen().size() == 5; }));
    CHECK(b.seen()[1].message.empty());
    CHECK(b.seen()[2].message.empty());
    CHECK(b.seen()[3].message == pattern(1, longest));
    CHECK(b.seen()[4].message == pattern(3, longest - 1));
    stage.settle();
    CHECK(b.seen().size() == 5);
}

void a_message_is_gathered_from_parts(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    std::string head = "head of eleven";
    std::string tail = pattern(9, 333);
    const std::string whole = head + tail + head;
    const std::vector<std::span<const std::byte>> parts{
        bytes_of(head), {}, bytes_of(tail), bytes_of(head)};
    REQUIRE(stage.insist([&] { return a.endpoint().send(link.near, parts); }) == Post::kPosted);
    head.assign(head.size(), '!');  // send() no longer needs the parts
    tail.assign(tail.size(), '!');
    REQUIRE(stage.until([&] { return b.seen().size() == 2; }));
    CHECK(b.seen()[1].message == whole);
}

void lent_messages_stay_until_the_next_poll(Fabric& fabric) {
    Stage stage(fabric);
    EndpointOptions small;
    small.messages_in_flight = 8;
    Party& a = stage.add(0, small);
    Party& b = stage.add(1, small);
    const Link link = stage.connect(a, b);
    stage.stop_polling(b);
    uint64_t sent = 0;
    uint64_t next = 0;
    std::vector<Completion> completions(5);
    const bool done = stage.until([&] {
        const size_t count = b.endpoint().poll(completions);
        // The peer keeps sending before the lent buffers are read.
        while (sent < 500 && a.send(link.near, pattern(sent, 500)) == Post::kPosted)
            ++sent;
        a.endpoint().flush();
        a.poll();
        fabric.advance();
        for (size_t i = 0; i < count; ++i) {
            REQUIRE(completions[i].event == Event::kReceived);
            REQUIRE(text_of(completions[i].message) == pattern(next++, 500));
        }
        return next == 500;
    });
    CHECK(done);
    CHECK(sent == 500);
}

void a_full_connection_says_not_now(Fabric& fabric) {
    Stage stage(fabric);
    EndpointOptions small;
    small.messages_in_flight = 16;
    Party& a = stage.add(0, small);
    Party& b = stage.add(1, small);
    const Link link = stage.connect(a, b);
    // b does not poll. One kNotNow may be temporary (credits in flight); 50 in a row mean full.
    uint64_t sent = 0;
    for (int refused = 0; refused < 50; ++refused) {
        const Post answer = a.send(link.near, pattern(sent, 100));
        if (answer == Post::kPosted) {
            refused = -1;
            REQUIRE(++sent < 100'000);
        } else {
            REQUIRE(answer == Post::kNotNow);
        }
        a.poll();
        fabric.advance();
    }
    const uint64_t all = sent + 500;
    for (; sent < all; ++sent)
        stage.send(a, link.near, pattern(sent, 100));
    REQUIRE(stage.until([&] { return b.seen().size() == all + 1; }));
    for (uint64_t i = 0; i < all; ++i)
        REQUIRE(b.seen()[i + 1].message == pattern(i, 100));
    stage.settle();
    CHECK(b.seen().size() == all + 1);
}

void both_directions_may_be_full_at_once(Fabric& fabric) {
    Stage stage(fabric);
    EndpointOptions small;
    small.messages_in_flight = 8;
    Party& a = stage.add(0, small);
    Party& b = stage.add(1, small);
    const Link link = stage.connect(a, b);
    constexpr uint64_t kEach = 2000;
    uint64_t from_a = 0;
    uint64_t from_b = 0;
    REQUIRE(stage.until([&] {  // sends both ways until both are full, then steps
        while (from_a < kEach && a.send(link.near, pattern(from_a, 64)) == Post::kPosted)
            ++from_a;
        while (from_b < kEach && b.send(link.far, pattern(from_b, 64)) == Post::kPosted)
            ++from_b;
        return a.seen().size() == kEach + 1 && b.seen().size() == kEach + 1;
    }));
    for (uint64_t i = 0; i < kEach; ++i) {
        REQUIRE(a.seen()[i + 1].message == pattern(i, 64));
        REQUIRE(b.seen()[i + 1].message == pattern(i, 64));
    }
}

void a_poll_of_one_takes_one(Fabric& fabric) {
    Stage stage(fabric);
    Party& a = stage.add(0);
    Party& b = stage.add(1);
    const Link link = stage.connect(a, b);
    for (uint64_t i = 0; i < 30; ++i)
        stage.send(a, link.near, pattern(i, 30));
    uint64_t next = b.count(Event::kReceived, link.far);
    stage.stop_polling(b);  // from here on only this case polls b
    const bool done = stage.until([&] {
        Completion one;
        const size_t count = b.endpoint().poll({&one, 1});
        REQUIRE(count <= 1);
        if (count == 1) {
            CHECK(one.event == Event::kReceived);
            CHECK(text_of(one.message) == pattern(next++, 30));
        }
        CHECK(b.endpoint().poll({}) == 0);
        return next == 30;
    });
    CHECK(done);
}

}  // namespace

std::vector<Case> message_cases() {
    return {
        {"messages arrive whole, once and in order", messages_arrive_in_order},
        {"empty and biggest messages pass, bigger ones are refused", empty_and_biggest_messages},
        {"a longest message of odd length changes nothing", an_odd_longest_message_changes_nothing},
        {"a message is gathered from its parts", a_message_is_gathered_from_parts},
        {"lent messages stay until the next poll", lent_messages_stay_until_the_next_poll},
        {"a full connection says not now and loses nothing", a_full_connection_says_not_now},
        {"both directions may be full at once", both_directions_may_be_full_at_once},
        {"a poll of one takes one", a_poll_of_one_takes_one},
    };
}

}  // namespace weir::transport::conformance
