// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the others hear of workers that died or gave up.

#include "lib/manager/members/lost_workers.h"

#include <doctest/doctest.h>

namespace weir::testing {
namespace {

constexpr std::string_view kWithWhat = ", with `resume` /run (checkpoint 7)";

LeaveMessage gave_up(Errc status, const char* why) {
    LeaveMessage message;
    message.status = status;
    message.why = why;
    return message;
}

}  // namespace

TEST_SUITE("lost_workers") {
    TEST_CASE("the checkpoint to go on from is named, if there is one") {
        LostWorkers lost;
        lost.add(1, 3, {});
        CHECK(lost.error().text() == "worker 1 (rank 3) died, or the network to it is cut");
        CHECK(lost.error(kWithWhat).text() ==
              "worker 1 (rank 3) died, or the network to it is cut; start the job again, with "
              "`resume` /run (checkpoint 7)");
    }

    TEST_CASE("it is named once, also if the worker that gave up has named it") {
        LostWorkers lost;
        lost.add(
            0, 2,
            gave_up(Errc::kPeerLost, "worker 1 died; start the job again, with `resume` /run"));
        const std::string text = lost.error(kWithWhat).text();
        CHECK(text ==
              "worker 0 (rank 2) gave up: worker 1 died; start the job again, with `resume` "
              "/run");
    }

    TEST_CASE("a worker that was stopped by a signal needs no advice") {
        LostWorkers lost;
        lost.add(0, 2, gave_up(Errc::kTerminated, "stopped by SIGTERM"));
        CHECK(lost.error(kWithWhat).text() == "stopped by SIGTERM");
    }
}

}  // namespace weir::testing
