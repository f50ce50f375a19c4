// SPDX-License-Identifier: Apache-2.0
/// \file
/// Peers that a rendezvous refuses: unknown programs, garbage, wrong secrets, ranks that do not fit.

#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/bootstrap/secret.h"
#include "tests/bootstrap/rendezvous_testing.h"
#include "tests/log_lines.h"
#include "tests/seed.h"

namespace weir::boot {

TEST_SUITE("bootstrap rendezvous refusal") {
    TEST_CASE(
        "two ranks of the same number, a number too high and another size are refused by name") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        const auto server = open_server(3);
        std::vector<Status> outcomes(3);
        std::vector<Status> bad(4);
        std::thread rank_0([&] { outcomes[0] = run_server(*server); });
        std::optional<RendezvousLink> first = sit_raw(server->port(), 1, 3);
        bad[0] = run_other(server->port(), {.rank = 3, .size = 3});
        bad[1] = run_other(server->port(), {.rank = 2, .size = 4});
        bad[2] = run_other(server->port(), {.rank = 0, .size = 3});
        bad[3] = run_other(server->port(), {.rank = 1, .size = 3});
        first.reset();  // its place is free again before a new peer is admitted
        std::thread rank_1(
            [&] { outcomes[1] = run_other(server->port(), {.rank = 1, .size = 3}); });
        outcomes[2] = run_other(server->port(), {.rank = 2, .size = 3});
        rank_0.join();
        rank_1.join();
        for (const Status& outcome : outcomes)
            CHECK(text_of(outcome) == "ok");
        CHECK(mentions(text_of(bad[0]), "rank 3 is not a rank of this job"));
        CHECK(mentions(text_of(bad[1]), "size 4, rank 0 with size 3"));
        CHECK(mentions(text_of(bad[2]), "rank 0 is not a rank of this job"));
        CHECK(mentions(text_of(bad[3]), "rank 1 has joined already"));
        for (const Status& status : bad)
            CHECK(status.code() == Errc::kRefused);
        CHECK(mentions(captured.text(), "refused"));
    }

    TEST_CASE("with the same secret ranks meet; with another or none they are told") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        const transport::Secret secret = make_secret();
        const auto server = open_server(2, secret);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server); });
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
        CHECK(mentions(captured.text(), "rank 1 has another secret than rank 0"));
    }

    TEST_CASE("a rank that did not connect because of another secret is named with that reason") {
        AheadClock clock;
        const auto server = open_server(2, make_secret(), clock);
        Status ours;
        std::thread rank_0([&] { ours = server->exchange(in_s(kTooLongS)); });
        const Status wrong = run_other(server->port(), {.secret = make_secret()});
        clock.advance_s(kTooLongS);
        rank_0.join();
        CHECK(wrong.code() == Errc::kRefused);
        CHECK(mentions(text_of(ours), "another secret"));
    }

    TEST_CASE("rank 0 itself cannot be played without the secret") {
        AheadClock clock;
        const auto server = open_server(2, {}, clock);  // knows none
        Status ours;
        std::thread rank_0([&] { ours = server->exchange(in_s(kTooLongS)); });
        const Status status = run_other(server->port(), {.secret = make_secret()});
        clock.advance_s(kTooLongS);
        rank_0.join();
        CHECK(status.code() == Errc::kRefused);
    }

    TEST_CASE("a proof that was overheard is worth nothing on another connection") {
        const transport::Secret secret = make_secret();
        const auto server = open_server(2, secret);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server); });
        // What a rank says in a handshake with another rank 0 that knows the same secret.
        const RendezvousHello hello{.rank = 1, .size = 2, .secured = true};
        const auto side = [&](transport::Side which) {
            return transport::Handshake(kRendezvousProtocol, which, secret,
                                        transport::random_bytes());
        };
        transport::Handshake rank_1 = side(transport::Side::kConnecting);
        transport::Handshake elsewhere = side(transport::Side::kAccepting);
        const auto deliver = [](transport::Handshake& from, transport::Handshake& to) {
            transport::RecordReader reader(kRendezvousProtocol, 1000);
            reader.append(from.output());
            const auto record = reader.next();
            REQUIRE(record);
            REQUIRE(to.take(**record));
        };
        const std::vector<std::byte> first = rank_1.output();
        deliver(rank_1, elsewhere);
        rank_1.output().clear();
        deliver(elsewhere, rank_1);
        rank_1.send_payload(hello.encode());
        const auto as_text = [](const std::vector<std::byte>& bytes) {
            return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        };
        const transport::Socket replay = connect_raw(server->port());
        send_raw(replay.fd(), as_text(first) + as_text(rank_1.output()));
        std::string answer(4096, '\0');
        size_t length = 0;
        for (;;) {
            const ssize_t got =
                ::recv(replay.fd(), answer.data() + length, answer.size() - length, 0);
            if (got == 0) break;
            if (got > 0) length += static_cast<size_t>(got);
        }
        CHECK(mentions(answer, "another secret"));
        CHECK(text_of(run_other(server->port(), {.secret = secret})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
    }

    TEST_CASE("garbage, half handshakes and hostile messages do not disturb the job") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        const auto server = open_server(2);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server); });
        WEIR_TEST_SEED(seed, 7);
        Random random(seed);
        std::vector<transport::Socket> open;
        for (int i = 0; i < 8; ++i) {  // and hang up, or stay
            transport::Socket socket = connect_raw(server->port());
            std::string bytes(random.below(300), '\0');
            for (char& c : bytes)
                c = static_cast<char>(random());
            send_raw(socket.fd(), bytes);
            if (i % 2 == 0) open.push_back(std::move(socket));
        }
        const std::string hello = record_of(kHelloType, sizeof(transport::Nonce));
        const uint8_t commit = static_cast<uint8_t>(RendezvousKind::kCommit);
        const std::vector<std::string> hostile = {
            "GET / HTTP/1.1\r\n\r\n",
            hello.substr(0, 20),
            hello,
            hello + hello,
            record_of(kSaidType, 100),
            record_of(commit, 4),
            hello + record_of(commit, 4),
            hello + record_of(kSaidType, 0),
            hello + record_of(kSaidType, sizeof(transport::Proof)),
            hello + record_of(kSaidType, 60),
            hello + record_of(kSaidType, 500),
            hello + record_of(kSaidType, 5000),
            hello + record_of(255, 0),
        };
        for (const std::string& bytes : hostile) {
            open.push_back(connect_raw(server->port()));
            send_raw(open.back().fd(), bytes);
        }
        // Joins as rank 1, then misbehaves: its seat must become free again. Rank 0 reads that before
        // it admits the next one, who comes later.
        const std::vector<RendezvousMessage> bad = {
            {.kind = RendezvousKind::kEntry, .rank = 0, .key = "name"},
            {.kind = RendezvousKind::kEntry, .rank = 1, .key = "a b"},
            {.kind = RendezvousKind::kCommit, .round = 2},
            {.kind = RendezvousKind::kRelease, .round = 1},
        };
        std::vector<RendezvousLink> seats;
        for (const RendezvousMessage& message : bad) {
            seats.push_back(sit_raw(server->port(), 1, 2));
            seats.back().queue(message);
            REQUIRE(seats.back().flush());
        }
        for (const std::string& bytes :
             {hello, record_of(commit, 5), record_of(commit, 0xffff), record_of(0, 0)}) {
            seats.push_back(sit_raw(server->port(), 1, 2));
            send_raw(seats.back().fd(), bytes);
        }
        CHECK(text_of(run_other(server->port(), {})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
        CHECK(mentions(captured.text(), "closed the connection from 127.0.0.1:"));
        CHECK(mentions(captured.text(), "not the rendezvous of a Weir job"));
        CHECK(mentions(captured.text(), "not expected now"));
    }

    TEST_CASE("a rendezvous without a secret warns of the risk and says how to give one") {
        for (const bool secured : {false, true}) {
            const ::weir::testing::LogLines captured(LogLevel::kWarning);
            const SteadyClock clock;
            RendezvousOptions options{.at = {"127.0.0.1", 0}, .size = 2};
            if (secured) options.secret = transport::Secret{};
            REQUIRE(RendezvousServer::open(options, clock));
            CHECK(captured.count("any process of this host can join this job") ==
                  (secured ? 0 : 1));
            CHECK(captured.count("WEIR_SECRET_FILE (make one with: umask 077") ==
                  (secured ? 0 : 1));
        }
    }

    TEST_CASE("a crowd of silent strangers is kept small and does not keep the job out") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        auto server = open_server(2);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server); });
        std::vector<transport::Socket> crowd;
        for (size_t i = 0; i < 3 * RendezvousListener::kUnkeptMax; ++i) {
            crowd.push_back(connect_raw(server->port()));
        }
        CHECK(text_of(run_other(server->port(), {})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
        server.reset();  // says how many lines it has not logged
        CHECK(captured.count("did not prove in time") == 2);
        CHECK(captured.count("more like this in the last") == 1);
    }

    TEST_CASE("who answers on the port but is no rank 0 is an error at once") {
        const OtherProgram program;
        const Status status = run_other(program.port(), {.wait_ms = kTooLongS * 1000});
        REQUIRE(status.code() == Errc::kProtocol);
        CHECK(mentions(text_of(status), "choose another port"));
    }
}

}  // namespace weir::boot
