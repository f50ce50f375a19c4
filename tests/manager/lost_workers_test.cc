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

    TEST_CASE("workers that gave up for the same reason are counted, and the reason stands once") {
        LostWorkers lost;
        for (uint32_t i = 0; i < 4; ++i)
            lost.add(i, i + 2, gave_up(Errc::kIo, "/data/train.svm: cannot be read"));
        CHECK(lost.error().text() ==
              "4 workers (the first is worker 0, rank 2) gave up: /data/train.svm: cannot be read");
        lost.add(4, 6, gave_up(Errc::kIo, "/data/more.svm: cannot be read"));
        lost.add(5, 7, {});
        lost.add(6, 8, {});
        CHECK(lost.error().text() ==
              "4 workers (the first is worker 0, rank 2) gave up: /data/train.svm: cannot be read; "
              "worker 4 (rank 6) gave up: /data/more.svm: cannot be read; "
              "worker 5 (rank 7) died, or the network to it is cut; "
              "worker 6 (rank 8) died, or the network to it is cut");
        for (uint32_t i = 7; i < 10; ++i)
            lost.add(i, i + 2, {});
        CHECK(lost.error().text().ends_with("to it is cut; and 3 more"));
    }

    TEST_CASE("a worker that was stopped by a signal needs no advice") {
        LostWorkers lost;
        lost.add(0, 2, gave_up(Errc::kTerminated, "stopped by SIGTERM"));
        CHECK(lost.error(kWithWhat).text() == "stopped by SIGTERM");
    }
}

}  // namespace weir::testing
