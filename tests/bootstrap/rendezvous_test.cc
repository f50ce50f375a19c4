// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/bootstrap/identity.h"
#include "tests/bootstrap/rendezvous_testing.h"
#include "transport/net/reserved_port.h"

namespace weir::boot {

TEST_SUITE("bootstrap rendezvous") {
    TEST_CASE("ranks see each other's values") {
        const auto server = open_server(4);
        std::vector<Status> outcomes(4);
        std::vector<std::thread> others;
        for (uint32_t rank = 1; rank < 4; ++rank) {
            others.emplace_back([&, rank] {
                outcomes[rank] = run_other(server->port(), {.rank = rank, .size = 4});
            });
        }
        outcomes[0] = run_server(*server);
        CHECK(server->get(3, "name").value() == "rank-3");
        for (std::thread& other : others)
            other.join();
        for (const Status& outcome : outcomes)
            CHECK(text_of(outcome) == "ok");
    }

    TEST_CASE("many rounds stay in step, with large values") {
        const auto server = open_server(2);
        constexpr int kRounds = 20;
        const auto rounds = [](Bootstrap& self) -> Status {
            for (int round = 0; round < kRounds; ++round) {
                const std::string key = fmt::format("k{}", round);
                WEIR_TRY(self.put(key, std::string(4096, static_cast<char>(round + self.rank()))));
                WEIR_TRY(self.exchange(in_s(kPatienceS)));
                const uint32_t peer = 1 - self.rank();
                WEIR_ASSIGN(const std::string value, self.get(peer, key));
                if (value != std::string(4096, static_cast<char>(round + peer))) {
                    return Error(Errc::kProtocol, "changed");
                }
            }
            return {};
        };
        Status theirs;
        std::thread other([&] {
            RendezvousClient client({.at = {"127.0.0.1", server->port()}, .rank = 1, .size = 2},
                                    kClock);
            theirs = rounds(client);
        });
        const Status ours = rounds(*server);
        other.join();
        CHECK(text_of(ours) == "ok");
        CHECK(text_of(theirs) == "ok");
    }

    TEST_CASE("rank 0 may come last") {
        const auto reserved = transport::ReservedPort::make();
        REQUIRE(reserved);
        const uint16_t port = reserved->number();
        const AheadClock clock;
        Status outcome;
        std::thread other([&] { outcome = run_other(port, {}, clock); });
        while (clock.readings() < 10)  // a refused attempt reads it three times at most
            std::this_thread::yield();
        auto server = make_rendezvous({.at = {"127.0.0.1", port}, .size = 2}, kClock);
        REQUIRE(server);
        CHECK(server.value()->put("name", "rank-0"));
        CHECK(server.value()->exchange(in_s(kPatienceS)));
        other.join();
        CHECK(text_of(outcome) == "ok");
    }

    TEST_CASE("ranks that never come are named, on rank 0 and on those that came") {
        CHECK(comes_true([](uint64_t wait_ms) {
            const auto server = open_server(5);
            Status theirs;
            std::thread other([&] { theirs = run_other(server->port(), {.rank = 2, .size = 5}); });
            const Status ours = run_server(*server, wait_ms);
            other.join();
            REQUIRE(ours.code() == Errc::kDeadline);
            REQUIRE_FALSE(theirs);
            CHECK(server->exchange(in_s(1)).code() == Errc::kCancelled);
            return mentions(text_of(ours), "ranks 1, 3 and 4 of 5") &&
                   mentions(text_of(theirs), "ranks 1, 3 and 4 of 5");
        }));
    }

    TEST_CASE("a rank whose time is up first names the missing too, as far as it was told") {
        CHECK(comes_true([](uint64_t wait_ms) {
            AheadClock clock;
            const auto server = open_server(3, {}, clock);
            Status theirs;
            std::thread other([&] {
                theirs = run_other(server->port(), {.rank = 2, .size = 3, .wait_ms = wait_ms});
                clock.advance_s(kTooLongS);
            });
            CHECK_FALSE(server->exchange(in_s(kTooLongS)));
            other.join();
            REQUIRE(theirs.code() == Errc::kDeadline);
            return mentions(text_of(theirs), "rank 1 of 3");
        }));
    }

    TEST_CASE("without a rank 0 the others give up at the deadline and say where they looked") {
        const auto reserved = transport::ReservedPort::make();
        REQUIRE(reserved);
        const uint16_t port = reserved->number();
        CHECK(comes_true([&](uint64_t wait_ms) {
            const Status outcome = run_other(port, {.wait_ms = wait_ms});
            REQUIRE(outcome.code() == Errc::kDeadline);
            CHECK(mentions(text_of(outcome), fmt::format("127.0.0.1:{}", port)));
            return mentions(text_of(outcome), "refused");
        }));
    }

    TEST_CASE("what was refused is told again when the time is up") {
        AheadClock clock;
        const auto server = open_server(2, {}, clock);
        Status theirs;
        std::thread other([&] {
            theirs = run_other(server->port(), {.rank = 1, .size = 3});
            clock.advance_s(kTooLongS);
        });
        const Status ours = server->exchange(in_s(kTooLongS));
        other.join();
        CHECK(theirs.code() == Errc::kRefused);
        CHECK(mentions(text_of(ours), "rank 1 of 2"));
        CHECK(mentions(text_of(ours), "size 3, rank 0 with size 2"));
    }

    TEST_CASE("a rank that dies after it came is missed by name") {
        AheadClock clock;
        const auto server = open_server(2, {}, clock);
        std::thread other([&] {
            {
                RendezvousLink link = sit_raw(server->port(), 1, 2);
                link.queue({.kind = RendezvousKind::kEntry, .rank = 1, .key = "k"});
                REQUIRE(link.flush());
            }
            // Rank 0 refuses it only after it has seen the other's end.
            CHECK_FALSE(run_other(server->port(), {.rank = 1, .size = 3}));
            clock.advance_s(kTooLongS);
        });
        const Status status = server->exchange(in_s(kTooLongS));
        other.join();
        REQUIRE(status.code() == Errc::kDeadline);
        CHECK(mentions(text_of(status), "rank 1 of 2"));
    }

    TEST_CASE("a rank that leaves between two rounds ends the second at once, by name") {
        const auto server = open_server(2);
        Status theirs;
        std::thread other([&] { theirs = run_other(server->port(), {}); });
        CHECK(text_of(run_server(*server)) == "ok");
        other.join();
        const Status status = server->exchange(in_s(kTooLongS));
        REQUIRE(status.code() == Errc::kPeerLost);
        CHECK(mentions(text_of(status), "rank 1"));
    }

    TEST_CASE("when rank 0 dies the others stop waiting") {
        auto server = open_server(2);
        const uint16_t port = server->port();
        std::atomic<bool> waits_again = false;
        Status outcome;
        std::thread other([&] {
            RendezvousClient client({.at = {"127.0.0.1", port}, .rank = 1, .size = 2}, kClock);
            outcome = client.exchange(in_s(kPatienceS));
            CHECK(text_of(outcome) == "ok");
            waits_again = true;
            outcome = client.exchange(in_s(kTooLongS));
        });
        CHECK(text_of(run_server(*server)) == "ok");
        while (!waits_again)
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        // As of a killed process: the sockets are closed without a message.
        server.reset();
        other.join();
        CHECK(outcome.code() == Errc::kPeerLost);
    }

    TEST_CASE("the port of another job's rank 0 is in use, and the error says so") {
        const auto server = open_server(2);
        const auto second =
            make_rendezvous({.at = {"127.0.0.1", server->port()}, .size = 2}, kClock);
        REQUIRE(second.code() == Errc::kAlreadyExists);
        CHECK(mentions(second.error().text(), fmt::format("127.0.0.1:{}", server->port())));
    }

    TEST_CASE("everybody gets rank 0's address and secret, or finds its own file different") {
        const TemporaryFile file("a secret of 23 letters.", 0600);
        const TemporaryFile another("b secret of 23 letters.", 0600);

        struct Trial {
            std::string ours;
            std::string theirs;
            Errc expected;
        };

        for (const Trial& trial :
             {Trial{"", "", Errc::kOk}, Trial{file.path(), file.path(), Errc::kOk},
              Trial{file.path(), another.path(), Errc::kRefused},
              Trial{file.path(), "", Errc::kRefused}, Trial{"", file.path(), Errc::kRefused}}) {
            const auto server = open_server(2);
            Result<JobIdentity> theirs = JobIdentity{};
            std::thread other([&] {
                RendezvousClient client({.at = {"127.0.0.1", server->port()}, .rank = 1, .size = 2},
                                        kClock);
                theirs = exchange_identity(client, "not used", in_s(kPatienceS), trial.theirs);
            });
            const auto ours =
                exchange_identity(*server, "10.0.0.1:7", in_s(kPatienceS), trial.ours);
            other.join();
            REQUIRE(ours);
            CHECK(theirs.code() == trial.expected);
            if (!theirs) continue;
            CHECK(theirs->manager_address == "10.0.0.1:7");
            CHECK(theirs->secret == ours->secret);
            CHECK(theirs->rank == 1);
        }
    }
}

}  // namespace weir::boot
