// SPDX-License-Identifier: Apache-2.0
#include "lib/worker/peers/standing.h"

#include <utility>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

std::string Standing::name() const {
    return fmt::format("worker {}", options_.worker);
}

Status Standing::check_ready() const {
    if (phase_ == Phase::kReady) return {};
    if (!failure_) return failure_;
    return Error(Errc::kUnavailable, "the client has not joined its job yet");
}

void Standing::enter(Phase next) {
    WEIR_CHECK(next != Phase::kFailed);  // see end()
    WEIR_CHECK(static_cast<int>(next) == static_cast<int>(phase_) + 1);
    phase_ = next;
}

void Standing::leave() {
    enter(Phase::kLeft);
    failure_ = Error(Errc::kUnavailable, "this client has left its job");
}

void Standing::end(Status why) {
    WEIR_CHECK(!why.has_value());
    if (phase_ == Phase::kFailed) return;
    phase_ = Phase::kFailed;
    failure_ = std::move(why);
}

void Standing::fail(Status why) {
    if (phase_ == Phase::kFailed) return;
    end(std::move(why));
    calls_.for_each([&](Calls::Id, Call& call) { call.fail(failure_); });
}

void Standing::admit(const AdmitMessage& numbers) {
    WEIR_CHECK(options_.joiner != 0 && !is_admitted_);
    is_admitted_ = true;
    options_.worker = numbers.number;
    options_.rank = numbers.rank;
}

}  // namespace weir
