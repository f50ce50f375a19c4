// SPDX-License-Identifier: Apache-2.0
/// \file
/// The lease of a process with a server, as it and the manager count it.

#include "lib/node/lease_line.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/manager/member_links.h"
#include "tests/frames.h"
#include "transport/sim/network.h"

namespace weir::test {
namespace {

constexpr transport::sim::HostId kManager = 0;
constexpr transport::sim::HostId kServer = 1;
constexpr uint64_t kProcess = 77;
constexpr uint64_t kLeaseNs = 400 * kMillisecond;

/// A manager's endpoint, and a process with its life line and its lease.
class LeaseJob {
public:
    LeaseJob()
        : network_(1, clock),
          manager_device_(network_.make_device(kManager)),
          device_(network_.make_device(kServer)),
          links(std::move(manager_device_->make_endpoint({})).value(), clock, kLeaseNs),
          life_line_(std::move(device_->make_endpoint({})).value(), clock, links.address(),
                     kProcess, life) {
        while (!life->is_reached.load())
            step();
        line_.emplace(std::move(device_->make_endpoint({})).value(), clock, links.address(),
                      kProcess, life, lease);
    }

    void step() {
        std::array<transport::Completion, 8> completions;
        size_t done = 0;
        const size_t count = is_manager_running ? links.poll(completions) : 0;
        for (size_t i = 0; i < count; ++i)
            shown.push_back(completions[i].event);
        done += count;
        if (is_server_running) done += life_line_.poll() + (line_ ? line_->poll() : 0);
        if (done == 0 && !network_.step()) clock.advance(kMillisecond);
    }

    void pass(uint64_t ns) {
        for (const uint64_t end_ns = clock.now_ns() + ns; clock.now_ns() < end_ns;)
            step();
    }

    [[nodiscard]] bool holds() const { return lease->holds(clock.now_ns()); }

    /// As the manager sees it.
    [[nodiscard]] bool has_ended() const { return links.lease_end_ns(kProcess) < clock.now_ns(); }

    void cut() { network_.partition(kManager, kServer); }

    void heal() { network_.heal(kManager, kServer); }

    void kill() { network_.kill(kServer); }

    [[nodiscard]] std::unique_ptr<transport::Endpoint> stranger() {
        return std::move(device_->make_endpoint({})).value();
    }

    ManualClock clock;

private:
    transport::sim::Network network_;
    std::unique_ptr<transport::Device> manager_device_;
    std::unique_ptr<transport::Device> device_;

public:
    std::shared_ptr<ManagerLife> life = std::make_shared<ManagerLife>();
    std::shared_ptr<ServerLease> lease = std::make_shared<ServerLease>();
    MemberLinks links;
    bool is_server_running = true;
    bool is_manager_running = true;
    std::vector<transport::Event> shown;  ///< to the manager

private:
    LifeLine life_line_;
    std::optional<LeaseLine> line_;
};

}  // namespace

TEST_SUITE("lease_line") {
    TEST_CASE("a process in reach holds its lease all the time, and the manager counts longer") {
        LeaseJob job;
        CHECK_FALSE(job.holds());
        job.pass(20 * kMillisecond);
        for (int i = 0; i < 3000; ++i) {
            job.step();
            REQUIRE(job.holds());
            REQUIRE_FALSE(job.has_ended());
        }
        CHECK(job.clock.now_ns() > 4 * kLeaseNs);
        // A frame about a lease is nothing for the manager.
        for (const transport::Event event : job.shown)
            CHECK(event != transport::Event::kReceived);
    }

    TEST_CASE("when it is cut off its lease ends, first here and then at the manager") {
        LeaseJob job;
        job.pass(kLeaseNs);
        job.cut();
        const uint64_t cut_ns = job.clock.now_ns();
        uint64_t here_ns = 0;
        while (!job.has_ended()) {
            job.step();
            if (here_ns == 0 && !job.holds()) here_ns = job.clock.now_ns();
        }
        const uint64_t there_ns = job.clock.now_ns();
        CHECK(here_ns > cut_ns + kLeaseNs / 4);
        CHECK(here_ns <= cut_ns + lease_of_server_ns(kLeaseNs) + 2 * kMillisecond);
        // Room for two clocks of which one goes 10 % too fast and the other 10 % too slow.
        CHECK(static_cast<double>(there_ns - cut_ns) * 0.9 >
              static_cast<double>(here_ns - cut_ns) * 1.1);
        CHECK(there_ns <= cut_ns + lease_of_manager_ns(kLeaseNs) + 2 * kMillisecond);
        CHECK(job.links.heard_ns(kProcess) <= cut_ns);
        job.heal();
        job.pass(kSecond);
        CHECK(job.holds());
        CHECK_FALSE(job.has_ended());
    }

    TEST_CASE("a process that was stopped finds its lease ended when it goes on") {
        LeaseJob job;
        job.pass(kLeaseNs);
        job.is_server_running = false;
        job.pass(2 * kLeaseNs);
        CHECK(job.has_ended());
        CHECK_FALSE(job.holds());  // before anything of it runs
    }

    TEST_CASE(
        "a manager is silent that leaves a question unanswered for two minutes, until it answers") {
        LeaseJob job;
        job.pass(kLeaseNs);
        job.is_manager_running = false;
        job.pass(LeaseLine::kSilentNs - kLeaseNs);
        CHECK_FALSE(job.life->is_silent);
        job.pass(2 * kLeaseNs);
        CHECK(job.life->is_silent);
        job.is_manager_running = true;
        job.pass(kLeaseNs);
        CHECK_FALSE(job.life->is_silent);
    }

    TEST_CASE("it is not, for a process that was stopped itself") {
        LeaseJob job;
        job.pass(kLeaseNs);
        job.is_server_running = false;
        job.pass(2 * LeaseLine::kSilentNs);
        job.is_server_running = true;
        for (const uint64_t end_ns = job.clock.now_ns() + kLeaseNs; job.clock.now_ns() < end_ns;) {
            job.step();
            REQUIRE_FALSE(job.life->is_silent);
        }
    }

    TEST_CASE("a lease that is refused ends for good, though the process asks on") {
        LeaseJob job;
        job.pass(kLeaseNs);
        job.links.refuse_leases(kProcess);
        const uint64_t end_ns = job.links.lease_end_ns(kProcess);
        job.pass(10 * kLeaseNs);
        CHECK_FALSE(job.holds());
        CHECK(job.links.lease_end_ns(kProcess) == end_ns);
    }

    TEST_CASE("the end of the process is proved: there is no lease to wait for") {
        LeaseJob job;
        job.pass(kLeaseNs);
        CHECK(job.links.lease_end_ns(kProcess) > job.clock.now_ns());
        job.kill();
        job.is_server_running = false;
        job.pass(kLeaseNs / 2);
        CHECK(job.links.lease_end_ns(kProcess) == 0);
        CHECK(job.links.heard_ns(kProcess) == ~uint64_t{0});
    }

    TEST_CASE("who has no life line gets no lease, and the manager is shown the frame") {
        LeaseJob job;
        job.pass(kLeaseNs);
        const auto stranger = job.stranger();
        const auto connection = stranger->connect(job.links.address());
        REQUIRE(connection.has_value());
        bool is_open = false;
        std::array<transport::Completion, 4> completions;
        for (int i = 0; i < 100 && !is_open; ++i) {
            job.step();
            const size_t count = stranger->poll(completions);
            for (size_t k = 0; k < count; ++k)
                is_open |= completions[k].event == transport::Event::kConnected;
        }
        REQUIRE(is_open);
        wire::FrameHeader header = testing::frame_header(wire::Kind::kLease, 1);
        header.first = kProcess + 1;
        REQUIRE(testing::send_frame(*stranger, *connection, header) == transport::Post::kPosted);
        stranger->flush();
        job.shown.clear();
        job.pass(10 * kMillisecond);
        CHECK(std::ranges::count(job.shown, transport::Event::kReceived) == 1);
        CHECK(job.links.heard_ns(kProcess + 1) == ~uint64_t{0});
    }
}

}  // namespace weir::test
