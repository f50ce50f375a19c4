// SPDX-License-Identifier: Apache-2.0
/// \file
/// The last closed iterations by ranges of positions, against a plain table of positions.

#include "lib/replication/closed_iterations.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

constexpr PositionRange kRing{0, ~uint64_t{0}};
constexpr uint64_t kCells = 32;  // the ring in equal parts
constexpr uint64_t kCellPositions = uint64_t{1} << 59;

PositionRange range_of(uint64_t begin, uint64_t end) {
    return {begin * kCellPositions, end * kCellPositions - 1};  // wraps to the end of the ring
}

/// One history by its seed.
class ClosedHistory {
public:
    explicit ClosedHistory(uint64_t seed) : random_(seed) {}

    void run() {
        for (uint64_t step = 0; step < 200; ++step) {
            take_step();
            compare();
        }
    }

private:
    struct Cell {
        std::optional<ClosedState> state;
        bool is_primary = false;
        friend bool operator==(const Cell&, const Cell&) = default;
    };

    void take_step() {
        switch (random_.below(5)) {
            case 0: return set_primary();
            case 1: return set();
            case 2: return drop();
            default: return close();
        }
    }

    void set_primary() {
        std::vector<PositionRange> ranges;
        for (uint64_t i = 0; i < kCells; ++i)
            cells_[i].is_primary = false;
        for (uint64_t begin = random_.below(4); begin < kCells;) {
            const uint64_t end = std::min(kCells, begin + 1 + random_.below(8));
            ranges.push_back(range_of(begin, end));
            for (uint64_t i = begin; i < end; ++i) {
                cells_[i].is_primary = true;
                if (!cells_[i].state) cells_[i].state.emplace();
            }
            begin = end + random_.below(8);
        }
        if (random_.below(2) == 0) std::ranges::reverse(ranges);
        closed_.set_primary(ranges);
    }

    void set() {
        const auto [begin, end] = some_cells();
        ClosedState state{random_.below(4) == 0 ? random_.below(200) : random_.below(5), {}};
        for (uint64_t i = 1; i <= state.last; ++i) {
            if (i + ClosedState::kRemembered <= state.last || random_.below(5) != 0) continue;
            state.failed.push_back({i, some_failure()});
        }
        for (uint64_t i = begin; i < end; ++i)
            cells_[i].state = state;
        closed_.set({range_of(begin, end), state});
    }

    void drop() {
        const auto [begin, end] = some_cells();
        const auto of_range = std::span(cells_).subspan(begin, end - begin);
        if (std::ranges::any_of(of_range, [](const Cell& cell) { return cell.is_primary; })) return;
        for (Cell& cell : of_range)
            cell.state.reset();
        closed_.drop(range_of(begin, end));
    }

    void close() {
        if (!closed_.has_primary()) return;
        const uint64_t closing =
            closed_.lowest() + 1 + (random_.below(8) == 0 ? random_.below(100) : 0);
        std::optional<IterationFailure> failure;
        if (random_.below(4) == 0) failure = some_failure();
        for (Cell& cell : cells_) {
            if (!cell.is_primary || cell.state->last >= closing) continue;
            cell.state->last = closing;
            if (failure) cell.state->failed.push_back({closing, *failure});
            std::erase_if(cell.state->failed, [&](const FailedIteration& one) {
                return one.iteration + ClosedState::kRemembered <= closing;
            });
        }
        closed_.close(closing, failure);
    }

    void compare() {
        uint64_t lowest = ~uint64_t{0};
        uint64_t highest = 0;
        bool has_primary = false;
        uint64_t run_count = 0;
        for (uint64_t i = 0; i < kCells; ++i) {
            const Cell& cell = cells_[i];
            if (cell.is_primary) {
                has_primary = true;
                lowest = std::min(lowest, cell.state->last);
                highest = std::max(highest, cell.state->last);
            }
            if (cell.state && (i == 0 || cells_[i - 1] != cell)) ++run_count;
            const uint64_t position = i * kCellPositions + random_.below(kCellPositions);
            const ClosedState* const found = closed_.find(position);
            REQUIRE((found != nullptr) == cell.state.has_value());
            if (found != nullptr) REQUIRE(*found == *cell.state);
        }
        REQUIRE(closed_.has_primary() == has_primary);
        REQUIRE(closed_.lowest() == (has_primary ? lowest : 0));
        REQUIRE(closed_.highest() == highest);
        REQUIRE(closed_.run_count() == run_count);
        compare_runs();
        compare_failures(highest);
    }

    void compare_runs() {
        const auto [begin, end] = some_cells();
        std::vector<ClosedRun> wanted;
        for (uint64_t i = begin; i < end; ++i) {
            if (!cells_[i].state) continue;
            const bool goes_on = i > begin && cells_[i - 1].state == cells_[i].state;
            if (goes_on) wanted.back().range.last = range_of(i, i + 1).last;
            if (!goes_on) wanted.push_back({range_of(i, i + 1), *cells_[i].state});
        }
        const std::vector<ClosedRun> runs = closed_.runs(range_of(begin, end));
        REQUIRE(runs == wanted);
        for (const ClosedRun& run : runs)
            REQUIRE(run.state.is_sound());
    }

    void compare_failures(uint64_t highest) {
        const uint64_t iteration = 1 + random_.below(highest + 1);
        bool has_failed = false;
        for (const Cell& cell : cells_)
            has_failed = has_failed || (cell.is_primary && cell.state->failure_of(iteration));
        REQUIRE(closed_.failure_of(iteration).has_value() == has_failed);
    }

    std::pair<uint64_t, uint64_t> some_cells() {
        const uint64_t begin = random_.below(kCells);
        return {begin, begin + 1 + random_.below(kCells - begin)};
    }

    IterationFailure some_failure() {
        return {random_.below(2) == 0 ? Errc::kNoMemory : Errc::kPeerLost,
                static_cast<uint32_t>(random_.below(2))};
    }

    Random random_;
    std::array<Cell, kCells> cells_;
    ClosedIterations closed_;
};

}  // namespace

TEST_SUITE("closed_iterations") {
    TEST_CASE("they are those of a plain table of positions, in hundreds of histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(300);
        MESSAGE("histories by WEIR_SEED from " << first << " to " << first + count - 1);
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            ClosedHistory(seed).run();
        }
    }

    TEST_CASE("a segment that is behind takes the next iteration, one that has it does not") {
        ClosedIterations closed;
        CHECK(closed.lowest() == 0);
        closed.set_primary(std::array{range_of(0, 8), range_of(16, 24)});
        closed.close(3, std::nullopt);
        closed.set({range_of(8, 16), {2, {{2, {Errc::kNoMemory, 7}}}}});
        CHECK(closed.lowest() == 3);  // it is only learned
        closed.set_primary(std::array{range_of(0, 24)});
        CHECK(closed.lowest() == 2);
        CHECK(closed.highest() == 3);
        CHECK(closed.failure_of(2) == IterationFailure{Errc::kNoMemory, 7});
        closed.close(3, IterationFailure{Errc::kPeerLost, 1});
        CHECK(closed.lowest() == 3);
        CHECK(closed.find(0)->failed.empty());
        CHECK(closed.find(range_of(8, 9).first)->failed.size() == 2);
        closed.close(4, std::nullopt);
        CHECK(closed.lowest() == 4);
    }

    TEST_CASE("neighbours become one again when what they differed in is forgotten") {
        ClosedIterations closed;
        closed.set_primary(std::array{kRing});
        closed.close(1, std::nullopt);
        closed.set({range_of(0, 5), {1, {{1, {Errc::kNoMemory, 0}}}}});
        CHECK(closed.run_count() == 2);
        for (uint64_t i = 2; i <= ClosedState::kRemembered; ++i)
            closed.close(i, std::nullopt);
        CHECK(closed.run_count() == 2);
        CHECK(closed.failure_of(1).has_value());
        closed.close(ClosedState::kRemembered + 1, std::nullopt);
        CHECK(closed.run_count() == 1);
    }

    TEST_CASE("a state from elsewhere is looked at") {
        const IterationFailure why{Errc::kNoMemory, 0};
        CHECK(ClosedState{100, {{37, why}, {100, why}}}.is_sound());
        CHECK_FALSE(ClosedState{100, {{36, why}}}.is_sound());   // too old to be remembered
        CHECK_FALSE(ClosedState{100, {{101, why}}}.is_sound());  // not closed
        CHECK_FALSE(ClosedState{100, {{40, why}, {40, why}}}.is_sound());
        CHECK_FALSE(ClosedState{100, {{41, why}, {40, why}}}.is_sound());
        CHECK_FALSE(ClosedState{100, {{41, {}}}}.is_sound());
        CHECK_FALSE(ClosedState{5, {{0, why}}}.is_sound());
        CHECK_FALSE(ClosedState{ClosedState::kIterationMax + 1, {}}.is_sound());
    }
}

}  // namespace weir::test
