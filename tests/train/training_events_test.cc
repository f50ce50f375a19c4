// SPDX-License-Identifier: Apache-2.0
#include "lib/train/training_events.h"

#include <chrono>
#include <vector>

#include <doctest/doctest.h>

using namespace weir;
using std::chrono::seconds;

namespace {

using EventKind = JobEvent::Kind;

/// As the manager tells of it when it has just happened.
JobEvent event_of(EventKind kind, uint64_t number) {
    JobEvent event;
    event.kind = kind;
    event.number = number;
    return event;
}

}  // namespace

TEST_SUITE("training events") {
    const TrainingEvents::Time start{seconds(1000)};

    TEST_CASE("what happens in a pass is placed between the ends of passes") {
        TrainingEvents events;
        events.note_pass(2, start);
        events.note_pass(4, start + seconds(2));
        events.add(event_of(EventKind::kServerLost, 1), start + seconds(1));
        JobEvent failed = event_of(EventKind::kCheckpointFailed, 7);
        failed.why = "full";
        events.add(failed, start - seconds(1));
        const std::vector<TrainingEvent> placed = events.placed();
        REQUIRE(placed.size() == 2);
        CHECK(placed[0].kind == EventKind::kCheckpointFailed);
        CHECK(placed[0].number == 7);
        CHECK(placed[0].why == "full");
        CHECK(placed[0].seconds == doctest::Approx(1));
        CHECK(placed[1].seconds == doctest::Approx(3));
    }

    TEST_CASE("what happens before the first pass begins is placed at its begin") {
        TrainingEvents events;
        events.add(event_of(EventKind::kWorkerLost, 3), start - seconds(100));
        events.note_pass(2, start);
        const std::vector<TrainingEvent> placed = events.placed();
        REQUIRE(placed.size() == 1);
        CHECK(placed[0].number == 3);
        CHECK(placed[0].seconds == 0);
    }

    TEST_CASE("what happens in a training without a pass is placed at its begin") {
        TrainingEvents events;
        events.add(event_of(EventKind::kServerJoined, 3), start);
        events.add(event_of(EventKind::kWorkerLeft, 1), start + seconds(1));
        const std::vector<TrainingEvent> placed = events.placed();
        REQUIRE(placed.size() == 2);
        CHECK(placed[0].kind == EventKind::kServerJoined);
        CHECK(placed[1].seconds == 0);
    }

    TEST_CASE("workers that leave when the last pass has ended are left out") {
        TrainingEvents events;
        events.note_pass(2, start);
        events.add(event_of(EventKind::kWorkerLeft, 1), start + seconds(1));
        CHECK(events.placed().empty());
    }
}
