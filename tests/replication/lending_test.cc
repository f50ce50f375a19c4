// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/cluster/stream_pair.h"
#include "tests/table_schemas.h"

namespace weir::test {
namespace {

/// A backup that has all, and a table with rows enough to be lent.
class LendingPair : public StreamPair {
public:
    LendingPair() : StreamPair(1, ~size_t{0}, true) {
        make_table(testing::dense_table("t", 2000));
        push_extent(0);
        back_up_all();
        settle();
    }

    void push_and_settle() {
        push_extent(0);
        settle();
    }

    /// Pushes that its learner does not receive. Returns how much is lent then.
    [[nodiscard]] size_t push_unheard() {
        is_learner_stopped = true;
        for (size_t i = 0; i < 4; ++i)
            push_extent(0);
        settle();
        return lent.bytes_in_use();
    }
};

TEST_SUITE("lending") {
    TEST_CASE("a backup takes long rows from the memory of the primary") {
        LendingPair pair;
        const uint64_t row_bytes = 4 * pair.primary.tables[0]->rows->extents()[0].key_count();
        const uint64_t before = pair.from->counters().bytes_sent;
        const size_t pushes = 20;
        for (size_t i = 0; i < pushes; ++i) {
            pair.push_and_settle();
        }
        pair.check_equal();
        CHECK(pair.wrong == "");
        CHECK(pair.from->counters().bytes_sent - before < pushes * row_bytes / 2);
        CHECK(pair.lent.allocations() < pushes);  // it is used again
    }

    TEST_CASE("what is lent is kept until its reader has no way to it") {
        LendingPair pair;
        const size_t before = pair.lent.bytes_in_use();
        const size_t lent = pair.push_unheard();
        CHECK(lent > before);
        pair.name_nobody();  // the stream ends, and the reader has not heard of it
        CHECK(pair.lent.bytes_in_use() == lent);
        pair.is_learner_stopped = false;
        CHECK(pair.run_until([&] { return pair.lent.bytes_in_use() < lent; }));
        CHECK(pair.wrong == "");
    }

    TEST_CASE("what was lent is not used again while the reader may not have given it up") {
        for (const bool is_in_doubt : {false, true}) {
            CAPTURE(is_in_doubt);
            LendingPair pair;
            pair.push_and_settle();
            pair.is_learner_stopped = true;
            pair.push_and_settle();
            pair.is_in_doubt = is_in_doubt;
            pair.break_stream();
            pair.is_learner_stopped = false;
            pair.settle(3000);
            pair.check_equal();
            const size_t before = pair.lent.allocations();
            for (int i = 0; i < 3; ++i) {
                pair.push_and_settle();
            }
            CHECK(pair.lent.allocations() - before == (is_in_doubt ? 1 : 0));
            pair.check_equal();
            CHECK(pair.wrong == "");
        }
    }

    TEST_CASE("what is in doubt comes back when its reader is heard again, or is in no view") {
        for (const bool is_removed : {false, true}) {
            CAPTURE(is_removed);
            LendingPair pair;
            pair.push_and_settle();
            const size_t before = pair.lent.bytes_in_use();
            const size_t lent = pair.push_unheard();
            CHECK(lent > before);
            pair.is_in_doubt = true;
            pair.break_stream();
            pair.settle();
            CHECK(pair.lent.bytes_in_use() >= lent);  // it may have stopped for a while only
            if (is_removed) {
                pair.remove_learner();
            } else {
                pair.is_learner_stopped = false;
                pair.settle(3000);
                pair.check_equal();
                CHECK(pair.wrong == "");
            }
            CHECK(pair.lent.bytes_in_use() <= before);
        }
    }

    TEST_CASE("rows that were lent are lent again over another connection, or sent") {
        LendingPair pair;
        pair.is_learner_stopped = true;
        pair.push_and_settle();
        pair.break_stream();
        pair.is_learner_stopped = false;
        pair.push_extent(0);
        pair.settle(3000);
        pair.check_equal();
    }
}

}  // namespace
}  // namespace weir::test
