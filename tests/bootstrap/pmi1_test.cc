// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/pmi1.h"

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/bootstrap/testing.h"

namespace weir::boot {
namespace {

/// A launcher for `size` ranks, one socket each, which answers as hydra and Slurm do.
class FakeLauncher {
public:
    explicit FakeLauncher(size_t size) : ends_(size) {
        for (int& end : ends_) {
            int pair[2] = {-1, -1};
            REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
            end = pair[0];
            client_fds.push_back(pair[1]);
        }
        thread_ = std::thread([this] { run(); });
    }

    FakeLauncher(const FakeLauncher&) = delete;
    FakeLauncher& operator=(const FakeLauncher&) = delete;

    ~FakeLauncher() {
        thread_.join();  // ends when all clients have closed
        for (const int end : ends_)
            ::close(end);
    }

    std::vector<int> client_fds;
    size_t longest_request = 0;  // read after the clients are gone

private:
    void run() {
        std::vector<std::string> received(ends_.size());
        size_t open = ends_.size();
        while (open > 0) {
            std::vector<pollfd> entries;
            for (const int end : ends_)
                entries.push_back({closed_.contains(end) ? -1 : end, POLLIN, 0});
            ::poll(entries.data(), entries.size(), 1000);
            for (size_t i = 0; i < entries.size(); ++i) {
                if (entries[i].revents == 0) continue;
                char buffer[2048];
                const ssize_t got = ::read(ends_[i], buffer, sizeof(buffer));
                if (got <= 0) {
                    closed_[ends_[i]] = true;
                    --open;
                    continue;
                }
                received[i].append(buffer, static_cast<size_t>(got));
                for (size_t end = 0; (end = received[i].find('\n')) != std::string::npos;) {
                    longest_request = std::max(longest_request, end + 1);
                    answer(i, parse_pmi1_line(received[i].substr(0, end)).value());
                    received[i].erase(0, end + 1);
                }
            }
        }
    }

    void say(size_t rank, const std::string& line) const {
        REQUIRE(::write(ends_[rank], line.data(), line.size()) ==
                static_cast<ssize_t>(line.size()));
    }

    void answer(size_t rank, const Pmi1Line& request) {
        if (request.command == "init") {
            say(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
        } else if (request.command == "get_maxes") {
            say(rank, "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
        } else if (request.command == "get_my_kvsname") {
            say(rank, "cmd=my_kvsname kvsname=kvs_1\n");
        } else if (request.command == "put") {
            const bool fresh = values_.emplace(*request.find("key"), *request.find("value")).second;
            say(rank,
                fresh ? "cmd=put_result rc=0 msg=success\n" : "cmd=put_result rc=-1 msg=dup\n");
        } else if (request.command == "barrier_in") {
            if (++waiting_ < ends_.size()) return;
            waiting_ = 0;
            for (size_t r = 0; r < ends_.size(); ++r)
                say(r, "cmd=barrier_out rc=0\n");
        } else if (request.command == "get") {
            const auto found = values_.find(*request.find("key"));
            say(rank, found == values_.end()
                          ? "cmd=get_result rc=-1 msg=key not found value=unknown\n"
                          : "cmd=get_result rc=0 value=" + found->second + "\n");
        } else {
            say(rank, "cmd=finalize_ack rc=0\n");
        }
    }

    std::vector<int> ends_;
    std::map<int, bool> closed_;
    std::map<std::string, std::string> values_;
    size_t waiting_ = 0;
    std::thread thread_;
};

/// Opens against a launcher that says `lines`, whatever it is asked, and then stays silent or
/// leaves.
Status open_against(const std::string& lines, const Clock& clock, bool leaves) {
    int pair[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    const Descriptor launcher(pair[0]);
    const Descriptor client(pair[1]);  // stays open until the process ends
    REQUIRE(::write(pair[0], lines.data(), lines.size()) == static_cast<ssize_t>(lines.size()));
    if (leaves) (void)::shutdown(pair[0], SHUT_WR);
    const auto made =
        Pmi1Bootstrap::open({.fd = pair[1], .rank = 0, .size = 2}, clock, clock.now_ns() + kSecond);
    return made ? Status() : Status(made.error());
}

}  // namespace

TEST_SUITE("bootstrap pmi1") {
    TEST_CASE("a line is cut into its command and fields, and words of a message are skipped") {
        const auto line = parse_pmi1_line("cmd=get_result rc=-1 msg=no such key value=a=b");
        REQUIRE(line);
        CHECK(line->command == "get_result");
        CHECK_FALSE(line->succeeded());
        CHECK(*line->find("msg") == "no");
        CHECK(*line->find("value") == "a=b");
        CHECK(line->find("nothing") == nullptr);
        CHECK(parse_pmi1_line("cmd=barrier_out")->succeeded());
    }

    TEST_CASE("what is no line of PMI-1 is refused") {
        for (const std::string& bad :
             {std::string(), std::string("hello"), std::string("cmd="), std::string("cmd=a\tb"),
              std::string("cmd=\xff"), std::string("rc=0 cmd=init"),
              "cmd=" + std::string(kPmi1LineBytesMax, 'a')}) {
            CHECK(parse_pmi1_line(bad).code() == Errc::kProtocol);
        }
        const auto line =
            parse_pmi1_line("cmd=maxes keylen_max=64 vallen_max=-3 other=65x").value();
        CHECK(line.number("keylen_max", 64).value() == 64);
        CHECK(line.number("keylen_max", 63).code() == Errc::kProtocol);
        CHECK(line.number("vallen_max", 1000).code() == Errc::kProtocol);
        CHECK(line.number("other", 1000).code() == Errc::kProtocol);
        CHECK(line.number("missing", 1000).code() == Errc::kProtocol);
    }

    TEST_CASE("every byte survives hexadecimal, and half a byte does not") {
        std::string bytes;
        for (int i = 0; i < 256; ++i)
            bytes += static_cast<char>(i);
        CHECK(hex_decode(hex_encode(bytes)).value() == bytes);
        for (const char* bad : {"a", "0g", "0A", "zz", "0 "})
            CHECK_FALSE(hex_decode(bad));
    }

    TEST_CASE("values of every length survive chunks of every size") {
        for (const size_t chunk_bytes : {16, 17, 100, 1023}) {
            for (size_t length = 0; length <= 600; length = length * 2 + 1) {
                const std::string value(length, '\xa5');
                Pmi1Joiner joiner;
                for (const std::string& chunk : pmi1_chunks(value, chunk_bytes)) {
                    CHECK_FALSE(joiner.complete());
                    CHECK(chunk.size() <= chunk_bytes);
                    REQUIRE(joiner.add(chunk));
                }
                REQUIRE(joiner.complete());
                CHECK(joiner.value().value() == value);
            }
        }
    }

    TEST_CASE("chunks that do not add up are refused") {
        for (const std::vector<std::string>& bad :
             std::vector<std::vector<std::string>>{{"abcd"},
                                                   {":ab"},
                                                   {"4:ababab"},
                                                   {"4:ab", "ababab"},
                                                   {"99999:"},
                                                   {"-1:"},
                                                   {""},
                                                   {"4:", ""}}) {
            Pmi1Joiner joiner;
            bool refused = false;
            for (const std::string& chunk : bad)
                refused = refused || !joiner.add(chunk);
            CHECK(refused);
        }
    }

    TEST_CASE("ranks see each other's values, large and binary, over two rounds") {
        constexpr uint32_t kSize = 3;
        std::vector<Status> outcomes(kSize);
        size_t longest_request = 0;
        {
            const SteadyClock clock;
            FakeLauncher launcher(kSize);
            const auto rank_main = [&](uint32_t rank) -> Status {
                const uint64_t deadline_ns = clock.now_ns() + 20 * kSecond;
                WEIR_ASSIGN(const auto self,
                            Pmi1Bootstrap::open(
                                {.fd = launcher.client_fds[rank], .rank = rank, .size = kSize},
                                clock, deadline_ns));
                const std::string big(Bootstrap::kValueBytesMax, static_cast<char>(200 + rank));
                WEIR_TRY(self->put("big", big));
                WEIR_TRY(self->put("empty", ""));
                if (!self->put("n", "1") || self->exchange(deadline_ns).code() != Errc::kOk) {
                    return Error(Errc::kIo, "round 1");
                }
                for (uint32_t other = 0; other < kSize; ++other) {
                    WEIR_ASSIGN(const std::string value, self->get(other, "big"));
                    WEIR_ASSIGN(const std::string empty, self->get(other, "empty"));
                    const bool same = value == std::string(Bootstrap::kValueBytesMax,
                                                           static_cast<char>(200 + other));
                    if (!same || !empty.empty()) return Error(Errc::kIo, "changed");
                }
                if (self->get(0, "none").code() != Errc::kNotFound) return Error(Errc::kIo, "none");
                if (self->put("n", "2").code() != Errc::kRefused) return Error(Errc::kIo, "twice");
                WEIR_TRY(self->exchange(deadline_ns));
                return self->finish();
            };
            std::vector<std::thread> ranks;
            for (uint32_t rank = 0; rank < kSize; ++rank) {
                ranks.emplace_back([&, rank] { outcomes[rank] = rank_main(rank); });
            }
            for (std::thread& rank : ranks)
                rank.join();
            longest_request = launcher.longest_request;
        }
        for (const Status& outcome : outcomes) {
            CHECK_MESSAGE(outcome, (outcome ? "" : outcome.error().message()));
        }
        CHECK(longest_request <= 1000);  // Slurm's plugin reads 1024 bytes and no more
        CHECK(longest_request > 900);
    }

    TEST_CASE("a rank that does not come is an error after the deadline, not a wait for ever") {
        const HurriedClock clock(kSecond);
        FakeLauncher launcher(2);
        const Descriptor never_comes(launcher.client_fds[1]);
        const Descriptor waits(launcher.client_fds[0]);
        const auto self = Pmi1Bootstrap::open({.fd = launcher.client_fds[0], .rank = 0, .size = 2},
                                              clock, clock.now_ns() + 600 * kSecond);
        REQUIRE(self);
        const Status status = self.value()->exchange(clock.now_ns() + 2 * kSecond);
        REQUIRE(status.code() == Errc::kDeadline);
        CHECK(mentions(status.error().text(), "2 ranks"));
        CHECK(self.value()->put("k", "v").code() == Errc::kCancelled);
        // Closing the socket would have the launcher kill us before we can say why.
        CHECK(::fcntl(waits.get(), F_GETFD) != -1);
    }

    TEST_CASE("a launcher that says something else is an error that tells what") {
        const SteadyClock clock;
        CHECK(open_against("cmd=hello\n", clock, false).code() == Errc::kProtocol);
        CHECK(open_against("garbage\n", clock, false).code() == Errc::kProtocol);
        CHECK(open_against(std::string(20'000, 'x'), clock, false).code() == Errc::kProtocol);
        CHECK(open_against("cmd=response_to_init rc=-1\n", clock, false).code() == Errc::kProtocol);
        const std::string init = "cmd=response_to_init rc=0\n";
        CHECK(open_against(init + "cmd=maxes keylen_max=8 vallen_max=8\n", clock, false).code() ==
              Errc::kProtocol);
        CHECK(open_against(init, clock, true).code() == Errc::kPeerLost);
        CHECK(open_against("cmd=resp", clock, true).code() == Errc::kPeerLost);
    }

    TEST_CASE("a silent launcher is given up after the deadline") {
        CHECK(open_against("cmd=respo", HurriedClock(kSecond), false).code() == Errc::kDeadline);
    }
}

}  // namespace weir::boot
