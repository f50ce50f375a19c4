// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/rendezvous/rendezvous.h"

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
        outcomes[0] = run_server(*server, 20);
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
                WEIR_TRY(self.exchange(in_s(20)));
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
        Status outcome;
        std::thread other([&] { outcome = run_other(port, {}); });
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        auto server = make_rendezvous({.at = {"127.0.0.1", port}, .size = 2}, kClock);
        REQUIRE(server);
        CHECK(server.value()->put("name", "rank-0"));
        CHECK(server.value()->exchange(in_s(20)));
        other.join();
        CHECK(text_of(outcome) == "ok");
    }

    TEST_CASE("ranks that never come are named, on rank 0 and on those that came") {
        CHECK(comes_true([](uint64_t wait_s) {
            const auto server = open_server(5);
            Status theirs;
            std::thread other([&] { theirs = run_other(server->port(), {.rank = 2, .size = 5}); });
            const Status ours = run_server(*server, wait_s);
            other.join();
            REQUIRE(ours.code() == Errc::kDeadline);
            REQUIRE_FALSE(theirs);
            CHECK(server->exchange(in_s(1)).code() == Errc::kCancelled);
            return mentions(text_of(ours), "ranks 1, 3 and 4 of 5") &&
                   mentions(text_of(theirs), "ranks 1, 3 and 4 of 5");
        }));
    }

    TEST_CASE("a rank whose time is up first names the missing too, as far as it was told") {
        CHECK(comes_true([](uint64_t wait_s) {
            const auto server = open_server(3);
            Status theirs;
            std::thread other([&] {
                theirs = run_other(server->port(), {.rank = 2, .size = 3, .wait_s = wait_s});
            });
            CHECK_FALSE(run_server(*server, wait_s + 3));
            other.join();
            REQUIRE(theirs.code() == Errc::kDeadline);
            return mentions(text_of(theirs), "rank 1 of 3");
        }));
    }

    TEST_CASE("without a rank 0 the others give up at the deadline and say where they looked") {
        const auto reserved = transport::ReservedPort::make();
        REQUIRE(reserved);
        const uint16_t port = reserved->number();
        const Status outcome = run_other(port, {.wait_s = 1});
        REQUIRE(outcome.code() == Errc::kDeadline);
        CHECK(mentions(text_of(outcome), fmt::format("127.0.0.1:{}", port)));
        CHECK_MESSAGE(mentions(text_of(outcome), "refused"), text_of(outcome));
    }

    TEST_CASE("what was refused is told again when the time is up") {
        CHECK(comes_true([](uint64_t wait_s) {
            const auto server = open_server(2);
            Status theirs;
            std::thread other([&] { theirs = run_other(server->port(), {.rank = 1, .size = 3}); });
            const Status ours = run_server(*server, wait_s);
            other.join();
            REQUIRE_FALSE(theirs);
            CHECK(mentions(text_of(ours), "rank 1 of 2"));
            return mentions(text_of(ours), "size 3, rank 0 with size 2");
        }));
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
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
            clock.advance(200 * kSecond);
        });
        const Status status = server->exchange(in_s(100));
        other.join();
        REQUIRE(status.code() == Errc::kDeadline);
        CHECK(mentions(text_of(status), "rank 1 of 2"));
    }

    TEST_CASE("a rank that leaves between two rounds ends the second at once, by name") {
        const auto server = open_server(2);
        Status theirs;
        std::thread other([&] { theirs = run_other(server->port(), {}); });
        CHECK(text_of(run_server(*server, 20)) == "ok");
        other.join();
        const uint64_t before_ns = kClock.now_ns();
        const Status status = server->exchange(in_s(100));
        CHECK(kClock.now_ns() - before_ns < 50 * kSecond);
        REQUIRE(status.code() == Errc::kPeerLost);
        CHECK(mentions(text_of(status), "rank 1"));
    }

    TEST_CASE("when rank 0 dies the others stop waiting") {
        const auto reserved = transport::ReservedPort::make();
        REQUIRE(reserved);
        const uint16_t port = reserved->number();
        auto server = open_server(3, {}, kClock, port);
        Status outcome;
        std::thread other([&] { outcome = run_other(port, {.rank = 1, .size = 3}); });
        // as a killed process: its socket is closed without a message, and the port does not listen any more
        const int listener_gone_ms = 300;
        std::thread rank_0([&] {
            (void)server->exchange(kClock.now_ns() + listener_gone_ms * kMillisecond);
            server.reset();
        });
        rank_0.join();
        other.join();
        CHECK_FALSE(outcome);
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
                theirs = exchange_identity(client, "not used", in_s(20), trial.theirs);
            });
            const auto ours = exchange_identity(*server, "10.0.0.1:7", in_s(20), trial.ours);
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
