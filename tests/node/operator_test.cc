// SPDX-License-Identifier: Apache-2.0
/// \file
/// A command whose process gets no processor time for longer than its deadline.

#include "lib/node/operator.h"

#include <memory>
#include <utility>

#include <doctest/doctest.h>

#include "lib/node/manager_place.h"
#include "tests/node/fake_endpoint.h"

namespace weir::testing {
namespace {

/// Between two looks at it, more than half of the deadline goes by.
class StarvedClock final : public Clock {
public:
    [[nodiscard]] uint64_t now_ns() const noexcept override { return now_ns_ += 6 * kSecond; }

private:
    mutable uint64_t now_ns_ = 0;
};

constexpr transport::ConnectionId kFirst = 1;

}  // namespace

TEST_SUITE("operator") {
    TEST_CASE("an answer that came in time counts, however late the process looks") {
        const StarvedClock clock;
        auto owned = std::make_unique<FakeEndpoint>();
        FakeEndpoint& endpoint = *owned;
        Operator command(std::move(owned), {{0, "fake:1"}}, clock, 10 * kSecond);
        endpoint.answer(kFirst);
        endpoint.on_sent = [&](const Bytes& frame) {
            const wire::FrameHeader sent = header_in(frame);
            if (sent.kind != wire::Kind::kShutdown) return;
            wire::FrameHeader reply = wire::header_of(wire::Kind::kReply);
            reply.request = sent.request;
            endpoint.arrive(kFirst, reply);
        };
        const Status stopped = command.stop(Operator::Stop::kNow);
        CHECK_MESSAGE(stopped, stopped.error().text());
    }

    TEST_CASE("a connection that ends right behind the last message is not asked again") {
        // Both come at once: what is behind the end of the job, or behind an answer, counts too.
        for (const wire::Kind last : {wire::Kind::kShutdown, wire::Kind::kReply}) {
            const StarvedClock clock;
            auto owned = std::make_unique<FakeEndpoint>();
            FakeEndpoint& endpoint = *owned;
            Operator command(std::move(owned), {{0, "fake:1"}}, clock, 10 * kSecond);
            endpoint.answer(kFirst);
            endpoint.on_sent = [&](const Bytes& frame) {
                const wire::FrameHeader sent = header_in(frame);
                if (sent.kind != wire::Kind::kShutdown) return;
                wire::FrameHeader reply = wire::header_of(last);
                reply.request = sent.request;
                endpoint.arrive(kFirst, reply);
                endpoint.end_in_order(kFirst);
            };
            const Status stopped = command.stop(Operator::Stop::kNow);
            CHECK(stopped.code() == (last == wire::Kind::kReply ? Errc::kOk : Errc::kUnavailable));
            endpoint.is_unreachable = true;
            CHECK(command.status().code() == Errc::kUnavailable);
        }
    }

    TEST_CASE("a manager that does not answer is named at the deadline") {
        const StarvedClock clock;
        auto owned = std::make_unique<FakeEndpoint>();
        FakeEndpoint& endpoint = *owned;
        Operator command(std::move(owned), {{3, "fake:1"}}, clock, 10 * kSecond);
        endpoint.answer(kFirst);
        const Status stopped = command.stop(Operator::Stop::kNow);
        CHECK(stopped.code() == Errc::kDeadline);
        CHECK(stopped.error().text().find("rank 3, at fake:1") != std::string::npos);
    }
}

}  // namespace weir::testing
