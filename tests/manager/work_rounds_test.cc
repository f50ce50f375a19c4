// SPDX-License-Identifier: Apache-2.0
/// \file
/// How work is dealt out to workers, and the message that says so.

#include "lib/manager/work_rounds.h"

#include <algorithm>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/node/outbox.h"
#include "lib/wire/work_message.h"
#include "lib/wire/work_share.h"
#include "tests/node/fake_endpoint.h"
#include "tests/seed.h"

namespace weir::testing {
namespace {

using Numbers = std::vector<uint32_t>;

size_t held(const Pieces& pieces, uint32_t worker) {
    const auto at = pieces.find(worker);
    return at == pieces.end() ? 0 : at->second.size();
}

/// Of those that the worker had.
size_t kept(const Pieces& before, const Pieces& after, uint32_t worker) {
    if (!before.contains(worker)) return 0;
    return static_cast<size_t>(std::ranges::count_if(before.at(worker), [&](uint32_t piece) {
        return std::ranges::binary_search(after.at(worker), piece);
    }));
}

}  // namespace

TEST_SUITE("work_rounds") {
    TEST_CASE("pieces are dealt evenly, and what one had is kept") {
        CHECK(deal_pieces(5, Numbers{0, 7}, {}) == Pieces{{0, {0, 1, 2}}, {7, {3, 4}}});
        const Pieces three{{0, {0, 1}}, {1, {2, 3}}, {2, {4, 5}}};
        CHECK(deal_pieces(6, Numbers{0, 2}, three) == Pieces{{0, {0, 1, 2}}, {2, {3, 4, 5}}});
        CHECK(deal_pieces(6, Numbers{0, 1, 2, 3}, three) ==
              Pieces{{0, {0, 1}}, {1, {2, 3}}, {2, {4}}, {3, {5}}});
        CHECK(deal_pieces(2, Numbers{3, 4, 5}, {}) == Pieces{{3, {0}}, {4, {1}}, {5, {}}});
    }

    TEST_CASE("who does not ask any more has no share, or ends the round that gave it one") {
        FakeEndpoint endpoint;
        Outbox outbox(endpoint);
        WorkRounds rounds(outbox);
        const transport::ConnectionId connection = endpoint.accept();
        const auto asks = [&](uint32_t worker, uint64_t request) {
            const bool is_outside = rounds.arrive({connection, request, worker}, 4, "sums");
            rounds.settle({});
            return is_outside;
        };
        for (const uint32_t worker : {0U, 1U})
            rounds.add(worker);
        CHECK_FALSE(asks(0, 5));
        CHECK_FALSE(rounds.withdraw(0, 5));
        CHECK_FALSE(rounds.withdraw(0, 5));
        CHECK_FALSE(rounds.withdraw(7, 5));  // no such worker
        CHECK_FALSE(asks(1, 5));
        CHECK_FALSE(rounds.end());  // no round has begun: it needs worker 0
        CHECK_FALSE(asks(0, 6));
        CHECK_FALSE(rounds.is_outside(0));
        CHECK_FALSE(rounds.withdraw(0, 5));
        CHECK(rounds.withdraw(0, 6));
        CHECK(rounds.end());
        CHECK_FALSE(rounds.withdraw(0, 6));
    }

    TEST_CASE("once the work is done, whoever waits for a share or asks for one is refused") {
        FakeEndpoint endpoint;
        Outbox outbox(endpoint);
        WorkRounds rounds(outbox);
        const transport::ConnectionId connection = endpoint.accept();
        const auto asks = [&](uint32_t worker, const char* description) {
            const bool is_outside = rounds.arrive({connection, 1, worker}, 4, description);
            rounds.settle({});
            return is_outside;
        };
        for (const uint32_t worker : {0U, 1U})
            rounds.add(worker);
        CHECK(rounds.finish(0).code() == Errc::kInvalidArgument);  // nobody has a share
        CHECK_FALSE(asks(1, "sums"));
        CHECK_FALSE(asks(0, "others"));
        CHECK(rounds.description() == "sums");
        CHECK(rounds.has_share(1));
        rounds.add(2);
        CHECK(rounds.finish(2).code() == Errc::kInvalidArgument);
        CHECK(asks(2, "sums"));
        CHECK(rounds.end());
        CHECK(rounds.is_over());
        CHECK(rounds.is_outside(1));

        CHECK(rounds.finish(1));
        CHECK_FALSE(rounds.is_over());
        CHECK_FALSE(rounds.is_outside(1));
        CHECK(rounds.is_outside(2));
        CHECK_FALSE(asks(0, "sums"));
        CHECK_FALSE(rounds.end());
        CHECK_FALSE(rounds.remove(1));
        CHECK(rounds.round() == 1);
        (void)outbox.flush();
        size_t refused = 0;
        for (const std::vector<std::byte>& message : endpoint.sent(connection)) {
            wire::Frame frame;
            REQUIRE(wire::decode(message, frame) == Errc::kOk);
            refused += frame.header.status == Errc::kNotFound ? 1 : 0;
        }
        CHECK(refused == 2);
    }

    TEST_CASE("whoever comes and goes, each piece has one worker, and the least moves") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (int history = 0; history < 300; ++history) {
            const auto piece_count = static_cast<uint32_t>(1 + random.below(100));
            std::set<uint32_t> workers;
            uint32_t next = 0;
            Pieces before;
            for (int round = 0; round < 10; ++round) {
                for (uint64_t come = random.below(4) + (workers.empty() ? 1 : 0); come > 0; --come)
                    workers.insert(next++);
                while (workers.size() > 1 && random.below(3) == 0)
                    workers.erase(
                        std::next(workers.begin(), static_cast<int>(random.below(workers.size()))));
                const Numbers numbers(workers.begin(), workers.end());
                const Pieces after = deal_pieces(piece_count, numbers, before);
                REQUIRE(after.size() == workers.size());
                std::vector<bool> is_dealt(piece_count);
                for (const auto& [worker, mine] : after) {
                    REQUIRE(workers.contains(worker));
                    REQUIRE(std::ranges::is_sorted(mine));
                    REQUIRE(mine.size() >= piece_count / workers.size());
                    REQUIRE(mine.size() <= (piece_count - 1) / workers.size() + 1);
                    REQUIRE(kept(before, after, worker) ==
                            std::min(held(before, worker), mine.size()));
                    for (const uint32_t piece : mine) {
                        REQUIRE_FALSE(is_dealt[piece]);
                        is_dealt[piece] = true;
                    }
                }
                REQUIRE(std::ranges::all_of(is_dealt, [](bool is) { return is; }));
                before = after;
            }
        }
    }

    TEST_CASE("a question for work is decoded as it was, and no other bytes are") {
        const WorkMessage question{12, "sums"};
        const auto body = question.encode();
        const auto decoded = WorkMessage::decode(body);
        REQUIRE(decoded.has_value());
        CHECK(decoded->piece_count == 12);
        CHECK(decoded->description == "sums");
        for (size_t size = 0; size < body.size(); ++size)
            CHECK_FALSE(WorkMessage::decode(std::span(body).first(size)));
        auto longer = body;
        longer.push_back({});
        CHECK_FALSE(WorkMessage::decode(longer));
        for (const uint32_t pieces : {0U, 4097U})
            CHECK_FALSE(WorkMessage::decode(WorkMessage{pieces, {}}.encode()));
        CHECK(WorkMessage::decode(WorkMessage{1, std::string(4096, 'a')}.encode()));
        CHECK_FALSE(WorkMessage::decode(WorkMessage{1, std::string(4097, 'a')}.encode()));
    }

    TEST_CASE("a list of lost workers is decoded as it was, and no other bytes are") {
        const auto body = LostWorkersMessage{{1, 5}}.encode();
        const auto decoded = LostWorkersMessage::decode(body);
        REQUIRE(decoded.has_value());
        CHECK(decoded->workers == Numbers{1, 5});
        CHECK_FALSE(LostWorkersMessage::decode(std::span(body).first(7)));
        for (const Numbers& wrong : {Numbers{5, 1}, Numbers{1, 1}})
            CHECK_FALSE(LostWorkersMessage::decode(LostWorkersMessage{wrong}.encode()));
        CHECK_FALSE(LostWorkersMessage::decode(std::vector<std::byte>(257 * 4)));
    }

    TEST_CASE("a share is decoded as it was, and no other bytes are") {
        const WorkShare share{7, 1, 3, 20, {0, 8, 19}};
        const auto body = share.encode();
        CHECK(WorkShare::decode(body) == share);
        for (size_t size = 0; size < body.size(); ++size)
            CHECK_FALSE(WorkShare::decode(std::span(body).first(size)));
        auto longer = body;
        longer.push_back({});
        CHECK_FALSE(WorkShare::decode(longer));
        longer = body;
        longer.back() |= std::byte{16};  // piece 20 of 20
        CHECK_FALSE(WorkShare::decode(longer));
        CHECK_FALSE(WorkShare::decode(WorkShare{7, 3, 3, 20, {}}.encode()));
        CHECK_FALSE(WorkShare::decode(WorkShare{7, 0, 3, 4097, {}}.encode()));
        CHECK(WorkShare::decode(WorkShare{7, 0, 3, 4096, {4095}}.encode()));
    }
}

}  // namespace weir::testing
