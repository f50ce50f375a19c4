// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rendezvous of a job that runs: who finds the job there, and who is refused.

#include "lib/bootstrap/rendezvous/open_rendezvous.h"

#include <memory>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <poll.h>

#include "lib/base/random.h"
#include "lib/bootstrap/find_contact.h"
#include "lib/bootstrap/rendezvous/rendezvous_call.h"
#include "lib/bootstrap/secret.h"
#include "tests/bootstrap/rendezvous_testing.h"
#include "tests/log_lines.h"
#include "tests/seed.h"
#include "tests/wait_until.h"
#include "transport/net/reserved_port.h"

namespace weir::boot {
namespace {

using MaybeSecret = std::optional<transport::Secret>;

Contact a_contact(const MaybeSecret& secret) {
    return {"shm:1.2,verbs:10.0.0.1:4000", secret.value_or(transport::Secret{std::byte{9}})};
}

/// The rendezvous of a job of one rank that has begun, polled by a thread of its own.
class RunningJob {
public:
    explicit RunningJob(const MaybeSecret& secret = {}) {
        const auto server = open_server(1, secret);
        REQUIRE(server->exchange(in_s(kPatienceS)));
        auto open = server->stay_open(a_contact(secret));
        REQUIRE(open);
        rendezvous_ = std::move(*open);
        REQUIRE(rendezvous_ != nullptr);
        port_ = rendezvous_->port();
        thread_ = std::jthread([this](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                if (rendezvous_->poll() > 0) continue;
                pollfd wanted{rendezvous_->arm(), POLLIN, 0};
                (void)::poll(&wanted, 1, 20);
            }
        });
    }

    [[nodiscard]] uint16_t port() const { return port_; }

    [[nodiscard]] HostPort at() const { return {"127.0.0.1", port_}; }

    [[nodiscard]] Result<Contact> ask(const MaybeSecret& secret = {},
                                      uint64_t wait_s = kPatienceS) const {
        return ask_for_contact(at(), secret, kClock, in_s(wait_s));
    }

private:
    std::unique_ptr<OpenRendezvous> rendezvous_;
    uint16_t port_ = 0;
    std::jthread thread_;
};

std::string error_of(const Result<Contact>& contact) {
    return contact ? "ok" : contact.error().message();
}

}  // namespace

TEST_SUITE("bootstrap open rendezvous") {
    TEST_CASE("a newcomer learns the manager's address and the secret, as often as it asks") {
        for (const MaybeSecret& secret : {MaybeSecret(), MaybeSecret(make_secret())}) {
            const RunningJob job(secret);
            for (int i = 0; i < 3; ++i) {
                const auto contact = job.ask(secret);
                REQUIRE_MESSAGE(contact.has_value(), error_of(contact));
                CHECK(*contact == a_contact(secret));
            }
        }
    }

    TEST_CASE("with a secret, the rendezvous sends it to nobody") {
        const MaybeSecret secret = make_secret();
        const RunningJob job(secret);
        RendezvousCall call(job.at(), secret, kClock);
        REQUIRE(call.connect({.role = RendezvousHello::Role::kNewcomer}, in_s(kPatienceS)));
        const auto record = call.receive(in_s(kPatienceS));
        REQUIRE(record);
        const auto message = decode_message(*record);
        REQUIRE(message);
        CHECK(message->kind == RendezvousKind::kContact);
        CHECK_FALSE(message->secret.has_value());
    }

    TEST_CASE("another secret, or one on one side only, is refused on both sides with what to do") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        const MaybeSecret secret = make_secret();
        const RunningJob with(secret);
        const RunningJob without;
        const auto wrong = with.ask(make_secret());
        const auto none = with.ask();
        const auto one = without.ask(make_secret());
        for (const auto* const refused : {&wrong, &none, &one}) {
            CHECK(refused->code() == Errc::kRefused);
            CHECK(mentions(error_of(*refused), "WEIR_SECRET_FILE"));
        }
        CHECK(mentions(error_of(wrong), "the newcomer has another secret than rank 0"));
        CHECK(mentions(error_of(none), "the newcomer has no secret, rank 0 has"));
        CHECK(mentions(error_of(one), "the newcomer has a secret, rank 0 has none"));
        CHECK(captured.count("rendezvous: refused 127.0.0.1:") == 3);
        CHECK(error_of(with.ask(secret)) == "ok");
        CHECK(error_of(without.ask()) == "ok");
    }

    TEST_CASE("another version is named to the newcomer, and logged at the job") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        const RunningJob job;
        const transport::Socket socket = connect_raw(job.port());
        std::string hello = record_of(kHelloType, sizeof(transport::Nonce));
        hello[4] = static_cast<char>(kRendezvousProtocol.version + 1);
        send_raw(socket.fd(), hello);
        // What the newcomer reads is a record of this version: its reader names both.
        std::string answer(200, '\0');
        ssize_t got = -1;
        REQUIRE(weir::testing::wait_until(
            [&] { return (got = ::recv(socket.fd(), answer.data(), answer.size(), 0)) >= 0; },
            [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
        REQUIRE(got > 0);
        transport::Protocol next = kRendezvousProtocol;
        ++next.version;
        transport::RecordReader reader(next, kRendezvousBodyBytesMax);
        reader.append(std::as_bytes(std::span(answer).first(static_cast<size_t>(got))));
        const auto record = reader.next();
        REQUIRE(record.code() == Errc::kProtocol);
        CHECK(mentions(record.error().message(),
                       fmt::format("it uses version {} of", kRendezvousProtocol.version)));
        CHECK(error_of(job.ask()) == "ok");
        CHECK(mentions(captured.text(), fmt::format("it uses version {} of", next.version)));
    }

    TEST_CASE("a rank that comes after the start is refused, whatever its number") {
        const RunningJob job;
        for (const uint32_t rank : {1U, 2U, ~0U}) {
            const Status late = run_other(job.port(), {.rank = rank, .size = 3});
            CHECK(late.code() == Errc::kRefused);
            CHECK(mentions(text_of(late), fmt::format("rank {} comes too late", rank)));
            CHECK(mentions(text_of(late), "weir server --join"));
        }
        CHECK(error_of(job.ask()) == "ok");
    }

    TEST_CASE("a newcomer before the job has begun is told so, and the ranks meet") {
        const auto server = open_server(2);
        Status ours;
        std::thread rank_0([&] { ours = run_server(*server); });
        const auto early =
            ask_for_contact({"127.0.0.1", server->port()}, {}, kClock, in_s(kPatienceS));
        CHECK(early.code() == Errc::kRefused);
        CHECK(mentions(error_of(early), "the job has not begun yet"));
        CHECK(text_of(run_other(server->port(), {})) == "ok");
        rank_0.join();
        CHECK(text_of(ours) == "ok");
    }

    TEST_CASE("where no job is, the error says what to look for") {
        const auto reserved = transport::ReservedPort::make();
        REQUIRE(reserved);
        const HostPort at{"127.0.0.1", reserved->number()};
        const auto contact = ask_for_contact(at, {}, kClock, in_s(kPatienceS));
        CHECK(contact.code() == Errc::kUnavailable);
        CHECK(mentions(error_of(contact), at.text()));
        CHECK(mentions(error_of(contact), "is the job running"));
    }

    TEST_CASE("who answers on the port but is no job is an error at once") {
        const OtherProgram program;
        const auto contact =
            ask_for_contact({"127.0.0.1", program.port()}, {}, kClock, in_s(kTooLongS));
        CHECK(contact.code() == Errc::kProtocol);
        CHECK(mentions(error_of(contact), "not as rank 0 of a Weir job"));
    }

    TEST_CASE("garbage and newcomers that misbehave lose their connection, no more") {
        const ::weir::testing::LogLines captured(LogLevel::kWarning);
        const RunningJob job;
        WEIR_TEST_SEED(seed, 13);
        Random random(seed);
        std::vector<transport::Socket> open;
        const std::string hello = record_of(kHelloType, sizeof(transport::Nonce));
        for (int i = 0; i < 20; ++i) {
            std::string bytes = i % 2 == 0 ? hello : "";
            for (uint64_t more = random.below(300); more > 0; --more)
                bytes.push_back(static_cast<char>(random()));
            open.push_back(connect_raw(job.port()));
            send_raw(open.back().fd(), bytes);
            if (i % 3 == 0) open.pop_back();
        }
        RendezvousCall call(job.at(), {}, kClock);
        REQUIRE(call.connect({.role = RendezvousHello::Role::kNewcomer}, in_s(kPatienceS)));
        REQUIRE(call.receive(in_s(kPatienceS)));
        call.queue({.kind = RendezvousKind::kCommit, .round = 1});
        CHECK(call.receive(in_s(kPatienceS)).code() == Errc::kPeerLost);
        CHECK(error_of(job.ask()) == "ok");
        CHECK(mentions(captured.text(), "a newcomer sends nothing after the handshake"));
    }

    TEST_CASE("a crowd that says nothing, or does not go, does not keep a newcomer out") {
        const RunningJob job;
        std::vector<transport::Socket> silent;
        for (uint32_t i = 0; i < 2 * RendezvousListener::kUnkeptMax; ++i)
            silent.push_back(connect_raw(job.port()));
        CHECK(error_of(job.ask()) == "ok");
        silent.clear();
        std::vector<std::unique_ptr<RendezvousCall>> staying;
        for (uint32_t i = 0; i < 2 * RendezvousListener::kUnkeptMax; ++i) {
            staying.push_back(std::make_unique<RendezvousCall>(job.at(), std::nullopt, kClock));
            REQUIRE(staying.back()->connect({.role = RendezvousHello::Role::kNewcomer},
                                            in_s(kPatienceS)));
        }
        CHECK(error_of(job.ask()) == "ok");
    }

    TEST_CASE("what looks like HOST:PORT is a rendezvous, and anything with a folder a file") {
        const RunningJob job;
        const Config config{Environment(Environment::Map{})};
        const auto contact = find_contact(job.at().text(), config, kClock);
        REQUIRE_MESSAGE(contact.has_value(), error_of(contact));
        CHECK(*contact == a_contact({}));
        for (const std::string& path : {std::string("./nothing-here:7777"), std::string("nothing"),
                                        "/tmp/" + job.at().text() + "x"}) {
            const auto missing = find_contact(path, config, kClock);
            CHECK(missing.code() == Errc::kNotFound);
            CHECK(mentions(error_of(missing), "contact file " + path));
        }
    }
}

}  // namespace weir::boot
