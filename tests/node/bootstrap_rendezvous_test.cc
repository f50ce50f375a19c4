// SPDX-License-Identifier: Apache-2.0
#include "lib/node/bootstrap_rendezvous.h"

#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "lib/base/random.h"
#include "lib/node/bootstrap_identity.h"
#include "lib/node/bootstrap_rendezvous_client.h"
#include "lib/node/bootstrap_rendezvous_server.h"
#include "lib/node/bootstrap_secret.h"
#include "tests/node/bootstrap_testing.h"

namespace weir::boot {
namespace {

const SteadyClock kClock;

uint64_t in_s(uint64_t seconds) {
    return kClock.now_ns() + seconds * kSecond;
}

/// Rank 0 of a job on loopback, on a port that was free.
std::unique_ptr<RendezvousServer> open_server(uint32_t size,
                                              std::optional<transport::Secret> secret = {}) {
    RendezvousOptions options{.at = {"127.0.0.1", 0}, .size = size};
    options.secret = secret;
    options.host_id = "host-a";
    auto server = RendezvousServer::open(std::move(options), kClock);
    REQUIRE(server);
    return std::move(server).value();
}

/// Another rank of the same job, with whatever differences a test wants.
struct Other {
    uint32_t rank = 1;
    uint32_t size = 2;
    std::optional<transport::Secret> secret = {};
    std::string host_id = "host-a";
    uint64_t wait_s = 20;
};

Status run_other(uint16_t port, const Other& other, uint32_t* local_rank = nullptr) {
    RendezvousClient client({.at = {"127.0.0.1", port},
                             .rank = other.rank,
                             .size = other.size,
                             .secret = other.secret,
                             .host_id = other.host_id},
                            kClock);
    WEIR_TRY(client.put("name", fmt::format("rank-{}", other.rank)));
    WEIR_TRY(client.exchange(in_s(other.wait_s)));
    if (local_rank != nullptr) *local_rank = client.local_rank();
    for (uint32_t rank = 0; rank < other.size; ++rank) {
        WEIR_ASSIGN(const std::string name, client.get(rank, "name"));
        if (name != fmt::format("rank-{}", rank)) return Error(Errc::kProtocol, "changed");
    }
    return client.finish();
}

Status run_server(RendezvousServer& server, uint64_t wait_s) {
    WEIR_TRY(server.put("name", "rank-0"));
    return server.exchange(in_s(wait_s));
}

Fd connect_raw(uint16_t port) {
    auto fd = tcp_connect({"127.0.0.1", port}, kClock, in_s(5));
    REQUIRE(fd);
    return std::move(fd).value();
}

void send_raw(const Fd& fd, std::string_view bytes) {
    (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Takes a rank's seat and does nothing with it.
RendezvousLink sit_raw(uint16_t port, uint32_t rank, uint32_t size) {
    RendezvousLink link(connect_raw(port));
    link.queue({.kind = RendezvousKind::kHello, .rank = rank, .size = size});
    link.queue({.kind = RendezvousKind::kProof});
    REQUIRE(link.flush());
    for (;;) {
        const auto message = link.next();
        REQUIRE(message);
        if (!message->has_value()) {
            REQUIRE(link.fill());
        } else if ((**message).kind == RendezvousKind::kWelcome) {
            return link;
        }
    }
}

std::string text_of(const Status& status) {
    return status ? "ok" : status.error().message();
}

}  // namespace

TEST_SUITE("bootstrap rendezvous") {
    TEST_CASE("ranks see each other's values, and their numbers on each host") {
        const auto server = open_server(4);
        std::vector<Status> outcomes(4);
        std::vector<uint32_t> local_ranks(4);
        std::vector<std::thread> others;
        for (uint32_t rank = 1; rank < 4; ++rank) {
            others.emplace_back([&, rank] {
                outcomes[rank] =
                    run_other(server->port(),
                              {.rank = rank, .size = 4, .host_id = rank == 2 ? "host-b" : "host-a"},
                              &local_ranks[rank]);
            });
        }
        outcomes[0] = run_server(*server, 20);
        CHECK(server->get(3, "name").value() == "rank-3");
        for (std::thread& other : others)
            other.join();
        for (const Status& outcome : outcomes)
            CHECK(text_of(outcome) == "ok");
        CHECK(local_ranks == std::vector<uint32_t>{0, 1, 0, 2});
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
        const auto free_port = open_server(2)->port();
        Status outcome;
        std::thread other([&] { outcome = run_other(free_port, {}); });
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        auto server = make_rendezvous({.at = {"127.0.0.1", free_port}, .size = 2}, kClock);
        REQUIRE(server);
        CHECK(server.value()->put("name", "rank-0"));
        CHECK(server.value()->exchange(in_s(20)));
        other.join();
        CHECK(text_of(outcome) == "ok");
    }

    TEST_CASE("ranks that never come are named, on rank 0 and on those that came") {
        const auto server = open_server(5);
        Status other_outcome;
        std::thread other(
            [&] { other_outcome = run_other(server->port(), {.rank = 2, .size = 5}); });
        const Status status = run_server(*server, 1);
        other.join();
        REQUIRE(status.code() == Errc::kDeadline);
        CHECK(mentions(text_of(status), "ranks 1, 3 and 4 of 5"));
        REQUIRE_FALSE(other_outcome);
        CHECK(mentions(text_of(other_outcome), "ranks 1, 3 and 4 of 5"));
        CHECK(server->exchange(in_s(1)).code() == Errc::kCancelled);
    }

    TEST_CASE("a rank whose time is up first names the missing too, as far as it was told") {
        const auto server = open_server(3);
        Status outcome;
        std::thread other(
            [&] { outcome = run_other(server->port(), {.rank = 2, .size = 3, .wait_s = 1}); });
        CHECK_FALSE(run_server(*server, 4));
        other.join();
        REQUIRE(outcome.code() == Errc::kDeadline);
        CHECK(mentions(text_of(outcome), "rank 1 of 3"));
    }

    TEST_CASE("without a rank 0 the others give up at the deadline and say where they looked") {
        const auto free_port = open_server(2)->port();
        const Status outcome = run_other(free_port, {.wait_s = 1});
        REQUIRE(outcome.code() == Errc::kDeadline);
        CHECK(mentions(text_of(outcome), fmt::format("127.0.0.1:{}", free_port)));
        CHECK_MESSAGE(mentions(text_of(outcome), "refused"), text_of(outcome));
    }

    TEST_CASE(
        "two ranks of the same number, a number too high and another size are refused by name") {
        const CapturedLog captured;
        const auto server = open_server(3);
        std::vector<Status> outcomes(3);
        std::vector<Status> bad(4);
        std::thread rank_0([&] { outcomes[0] = run_server(*server, 20); });
        std::optional<RendezvousLink> first = sit_raw(server->port(), 1, 3);
        bad[0] = run_other(server->port(), {.rank = 3, .size = 3});
        bad[1] = run_other(server->port(), {.rank = 2, .size = 4});
        bad[2] = run_other(server->port(), {.rank = 0, .size = 3});
        bad[3] = run_other(server->port(), {.rank = 1, .size = 3});
        first.reset();  // its seat is free again before anybody new is let in
        std::thread rank_1(
            [&] { outcomes[1] = run_other(server->port(), {.rank = 1, .size = 3}); });
        outcomes[2] = run_other(server->port(), {.rank = 2, .size = 3});
        rank_0.join();
        rank_1.join();
        for (const Status& outcome : outcomes)
            CHECK(text_of(outcome) == "ok");
        CHECK(mentions(text_of(bad[0]), "rank 3 does not exist"));
        CHECK(mentions(text_of(bad[1]), "size 4, rank 0 with size 3"));
        CHECK(mentions(text_of(bad[2]), "rank 0 does not exist"));
        CHECK(mentions(text_of(bad[3]), "rank 1 is there already"));
        for (const Status& status : bad)
            CHECK(status.code() == Errc::kRefused);
        CHECK(mentions(captured.text(), "refused"));
    }

    TEST_CASE("what was refused is told again when the time is up") {
        const auto server = open_server(2);
        Status refused;
        std::thread other([&] { refused = run_other(server->port(), {.rank = 1, .size = 3}); });
        const Status status = run_server(*server, 1);
        other.join();
        CHECK(mentions(text_of(status), "rank 1 of 2"));
        CHECK(mentions(text_of(status), "size 3, rank 0 with size 2"));
    }

    TEST_CASE("with the same secret ranks meet; with another or none they are told") {
        const transport::Secret secret = make_secret();
        const auto server = open_server(2, secret);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server, 20); });
        const Status wrong = run_other(server->port(), {.secret = make_secret()});
        const Status none = run_other(server->port(), {});
        const Status right = run_other(server->port(), {.secret = secret});
        rank_0.join();
        CHECK(text_of(ours) == "ok");
        CHECK(text_of(right) == "ok");
        CHECK(wrong.code() == Errc::kRefused);
        CHECK(mentions(text_of(wrong), "WEIR_SECRET_FILE"));
        CHECK(none.code() == Errc::kRefused);
        CHECK(mentions(text_of(none), "rank 1 has no secret"));
    }

    TEST_CASE("rank 0 itself cannot be played without the secret") {
        const auto server = open_server(2);  // knows none
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server, 1); });
        const Status status = run_other(server->port(), {.secret = make_secret()});
        rank_0.join();
        CHECK(status.code() == Errc::kRefused);
    }

    TEST_CASE("a proof that was overheard is worth nothing on another connection") {
        const transport::Secret secret = make_secret();
        const auto server = open_server(2, secret);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server, 20); });
        RendezvousMessage hello{
            .kind = RendezvousKind::kHello, .rank = 1, .size = 2, .secured = true};
        const transport::Nonce old_nonce =
            transport::random_bytes();  // of the overheard connection
        RendezvousMessage proof{.kind = RendezvousKind::kProof};
        proof.proof = rendezvous_proof(secret, transport::Side::kConnecting, hello, old_nonce);
        const Fd replay = connect_raw(server->port());
        send_raw(replay, encode(hello) + encode(proof));
        std::string answer(4096, '\0');
        size_t length = 0;
        for (;;) {
            const ssize_t got =
                ::recv(replay.get(), answer.data() + length, answer.size() - length, 0);
            if (got == 0) break;
            if (got > 0) length += static_cast<size_t>(got);
        }
        CHECK(mentions(answer, "another secret"));
        CHECK(text_of(run_other(server->port(), {.secret = secret})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
    }

    TEST_CASE("garbage, half handshakes and hostile messages do not disturb the job") {
        const CapturedLog captured;
        const auto server = open_server(2);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server, 20); });
        Random random(7);
        std::vector<Fd> open;
        for (int i = 0; i < 8; ++i) {  // and hang up, or stay
            Fd fd = connect_raw(server->port());
            std::string bytes(random.below(300), '\0');
            for (char& c : bytes)
                c = static_cast<char>(random());
            send_raw(fd, bytes);
            if (i % 2 == 0) open.push_back(std::move(fd));
        }
        const std::string hello = encode({.kind = RendezvousKind::kHello, .rank = 1, .size = 2});
        const std::string proof = encode({.kind = RendezvousKind::kProof});
        const std::vector<std::string> hostile = {
            "GET / HTTP/1.1\r\n\r\n",
            hello.substr(0, 20),
            hello,
            hello + hello,
            proof,
            encode({.kind = RendezvousKind::kCommit, .round = 1}),
            encode({.kind = RendezvousKind::kHello, .rank = ~0U, .size = ~0U}) + proof,
            // joins as rank 1, then misbehaves: its seat must become free again
            hello + proof + encode({.kind = RendezvousKind::kEntry, .rank = 0, .key = "name"}),
            hello + proof + encode({.kind = RendezvousKind::kEntry, .rank = 1, .key = "a b"}),
            hello + proof + encode({.kind = RendezvousKind::kCommit, .round = 2}),
            hello + proof + encode({.kind = RendezvousKind::kRelease, .round = 1}),
            hello + proof + std::string("WRDV\x01\x06\x00\x00\xff\xff\xff\xff", 12),
        };
        for (const std::string& bytes : hostile) {
            open.push_back(connect_raw(server->port()));
            send_raw(open.back(), bytes);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        CHECK(text_of(run_other(server->port(), {})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
        CHECK(mentions(captured.text(), "closed the connection from 127.0.0.1:"));
        CHECK(mentions(captured.text(), "not a Weir rendezvous message"));
        CHECK(mentions(captured.text(), "out of turn"));
    }

    TEST_CASE("a crowd of silent strangers is kept small and does not keep the job out") {
        const CapturedLog captured;
        const auto server = open_server(2);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server, 20); });
        std::vector<Fd> crowd;
        for (size_t i = 0; i < 3 * RendezvousServer::kStrangersMax; ++i) {
            crowd.push_back(connect_raw(server->port()));
        }
        CHECK(text_of(run_other(server->port(), {})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
        CHECK(mentions(captured.text(), "too many strangers"));
        CHECK(mentions(captured.text(), "further such connections are not logged"));
    }

    TEST_CASE("a rank that dies after it came is missed by name") {
        const auto server = open_server(2);
        std::thread other([&] {
            const Fd fd = connect_raw(server->port());
            send_raw(fd, encode({.kind = RendezvousKind::kHello, .rank = 1, .size = 2}) +
                             encode({.kind = RendezvousKind::kProof}) +
                             encode({.kind = RendezvousKind::kEntry, .rank = 1, .key = "k"}));
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        });
        const Status status = run_server(*server, 1);
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
        const Status status = server->exchange(in_s(20));
        CHECK(kClock.now_ns() - before_ns < 5 * kSecond);
        REQUIRE(status.code() == Errc::kPeerLost);
        CHECK(mentions(text_of(status), "rank 1"));
    }

    TEST_CASE("when rank 0 dies the others stop waiting") {
        auto server = open_server(3);
        Status outcome;
        const uint16_t port = server->port();
        std::thread other([&] { outcome = run_other(port, {.rank = 1, .size = 3}); });
        // as a killed process: its socket is closed without a word, and nobody listens any more
        const int listener_gone_ms = 300;
        std::thread rank_0([&] {
            (void)server->exchange(kClock.now_ns() + listener_gone_ms * kMillisecond);
            server.reset();
        });
        rank_0.join();
        other.join();
        CHECK_FALSE(outcome);
    }

    TEST_CASE("who answers on the port but is no rank 0 is an error at once") {
        const auto listener = tcp_listen({"127.0.0.1", 0});
        REQUIRE(listener);
        std::thread stranger([&] {
            Fd fd;
            while (!fd.valid())
                fd = Fd(::accept(listener->get(), nullptr, nullptr));
            send_raw(fd, "SSH-2.0-OpenSSH_9.2\r\n");
            std::this_thread::sleep_for(std::chrono::milliseconds(200));
        });
        const Status status = run_other(tcp_port(*listener), {});
        stranger.join();
        REQUIRE(status.code() == Errc::kProtocol);
        CHECK(mentions(text_of(status), "choose another port"));
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
