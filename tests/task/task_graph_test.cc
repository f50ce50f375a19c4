// SPDX-License-Identifier: Apache-2.0
#include "lib/task/task_graph.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

TEST_SUITE("task_graph") {
    using namespace weir;
    using Ids = std::vector<TaskId>;

    static Error broken(const std::string& text) {
        return {Errc::kPeerLost, text};
    }

    static bool mentions(const Status& status, const std::string& text) {
        return !status && status.error().text().find(text) != std::string::npos;
    }

    TEST_CASE("a task starts once all that it waits for have finished") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        const TaskId b = *graph.add();
        const TaskId c = *graph.add(Ids{a, b, a});
        CHECK(graph.start_next() == a);
        CHECK(graph.start_next() == b);
        CHECK_FALSE(graph.start_next());
        graph.finish(b, {});
        CHECK_FALSE(graph.start_next());
        graph.finish(a, {});
        CHECK(graph.start_next() == c);
        CHECK_FALSE(graph.is_finished(c));
        CHECK_FALSE(graph.take(c));
        graph.finish(c, {});
        CHECK(graph.is_finished(c));
        CHECK(graph.take(c)->has_value());
    }

    TEST_CASE("a task that was finished, taken or not, holds up nobody") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        CHECK(graph.start_next() == a);
        graph.finish(a, {});
        const TaskId b = *graph.add(Ids{a});
        CHECK(graph.start_next() == b);
        CHECK(graph.take(a));
        CHECK(graph.is_finished(a));
        const TaskId c = *graph.add(Ids{a});
        CHECK(graph.start_next() == c);
    }

    TEST_CASE(
        "a task that was never given out, or is another client's, is an error that names it") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        CHECK(mentions(graph.add(Ids{a, {3, 2}}).error(), "task 2 of client 3"));
        CHECK(mentions(graph.add(Ids{{3, 0}}).error(), "task 0 of client 3"));
        CHECK(mentions(graph.add(Ids{{5, 1}}).error(), "task 1 of client 5"));
        CHECK(graph.add(Ids{{3, ~uint64_t{0}}}).code() == Errc::kInvalidArgument);
        CHECK(graph.count() == 1);
        CHECK_FALSE(graph.is_finished({3, 2}));
        CHECK_FALSE(graph.is_finished({5, 1}));
        CHECK_FALSE(graph.take({5, 1}));
        CHECK_FALSE(graph.cancel({5, 1}, broken("x")));
    }

    TEST_CASE("a failure ends all that wait for it with the first cause, and starts none") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        const TaskId b = *graph.add();
        const TaskId c = *graph.add(Ids{a, b});
        const TaskId d = *graph.add(Ids{c});
        CHECK(graph.start_next() == a);
        CHECK(graph.start_next() == b);
        graph.finish(b, broken("first"));
        CHECK(graph.is_finished(d));
        graph.finish(a, broken("second"));
        CHECK_FALSE(graph.start_next());
        CHECK(graph.has_failed(d));
        const TaskId e = *graph.add(Ids{d});
        for (const TaskId id : {b, c, d, e}) {
            const auto outcome = graph.take(id);
            REQUIRE(outcome);
            CHECK(outcome->code() == Errc::kPeerLost);
            CHECK(mentions(*outcome, "first"));
        }
        CHECK(mentions(*graph.take(a), "second"));
        CHECK(graph.count() == 0);
        CHECK(graph.start_next() == std::nullopt);
    }

    TEST_CASE("an error names the task that it began with, once") {
        TaskGraph graph(3);
        const TaskId a = graph.add_running();
        const TaskId b = *graph.add(Ids{a});
        const TaskId c = *graph.add(Ids{b});
        const TaskId parent = graph.add_running();
        const TaskId child = *graph.add_subtask(parent, Ids{c});
        graph.finish(parent, {});
        graph.finish(a, broken("cut"));
        CHECK(graph.outcome(a).error().text() == "cut");
        for (const TaskId id : {b, c, parent, child})
            CHECK(graph.outcome(id).error().text() == "task 1 of client 3 failed: cut");
        CHECK(graph.add(Ids{c}).has_value());
        CHECK(graph.take({3, 6})->error().text() == "task 1 of client 3 failed: cut");
    }

    TEST_CASE("what the graph ends itself is told once") {
        TaskGraph graph(3);
        const TaskId a = graph.add_running();
        const TaskId b = *graph.add(Ids{a});
        const TaskId parent = graph.add_running();
        const TaskId child = *graph.add_subtask(parent);
        CHECK(graph.start_next() == child);
        graph.finish(parent, {});
        CHECK_FALSE(graph.next_settled());
        graph.finish(child, {});
        CHECK(graph.next_settled() == parent);
        graph.finish(a, broken("cut"));
        const TaskId c = *graph.add(Ids{a});
        CHECK(graph.next_settled() == b);
        CHECK(graph.next_settled() == c);
        CHECK_FALSE(graph.next_settled());
    }

    TEST_CASE("a task of another client with the same number is refused") {
        TaskGraph graph(3, TaskGraph::kCountMax, 1);
        TaskGraph other(3, TaskGraph::kCountMax, 2);
        const TaskId a = *graph.add();
        const TaskId b = *other.add();
        CHECK(graph.add(Ids{a}).has_value());
        CHECK(mentions(graph.add(Ids{b}).error(), "it is of another client with this number"));
        CHECK_FALSE(graph.is_finished(b));
    }

    TEST_CASE("a task is finished when its own work and its subtasks are") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        const TaskId after = *graph.add(Ids{a});
        CHECK(graph.start_next() == a);
        const TaskId s = *graph.add_subtask(a);
        const TaskId t = *graph.add_subtask(a, Ids{s});
        graph.finish(a, {});
        CHECK_FALSE(graph.is_finished(a));
        CHECK(graph.start_next() == s);
        const TaskId deep = *graph.add_subtask(s);
        graph.finish(s, {});
        CHECK(graph.start_next() == deep);
        CHECK_FALSE(graph.start_next());  // t waits for s, which waits for deep
        graph.finish(deep, {});
        CHECK(graph.start_next() == t);
        CHECK_FALSE(graph.is_finished(a));
        graph.finish(t, {});
        CHECK(graph.is_finished(a));
        CHECK(graph.start_next() == after);
    }

    TEST_CASE("a task has the first error of its own work and its subtasks") {
        for (const bool own_first : {true, false}) {
            TaskGraph graph(3);
            const TaskId a = *graph.add();
            CHECK(graph.start_next() == a);
            const TaskId s = *graph.add_subtask(a);
            const TaskId t = *graph.add_subtask(a);
            CHECK(graph.start_next() == s);
            CHECK(graph.start_next() == t);
            if (own_first) graph.finish(a, broken("own"));
            graph.finish(s, broken("sub"));
            if (!own_first) graph.finish(a, broken("own"));
            CHECK_FALSE(graph.is_finished(a));
            graph.finish(t, {});
            CHECK(mentions(*graph.take(a), own_first ? "own" : "sub"));
        }
    }

    TEST_CASE("only a running task gets subtasks") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        CHECK(mentions(graph.add_subtask(a).error(), "task 1 of client 3"));
        CHECK(graph.start_next() == a);
        const TaskId s = *graph.add_subtask(a);
        graph.finish(a, {});
        CHECK(graph.add_subtask(a).code() == Errc::kInvalidArgument);
        CHECK(graph.start_next() == s);
        graph.finish(s, {});
        CHECK(graph.add_subtask(a).code() == Errc::kInvalidArgument);
        CHECK(graph.add_subtask({4, 1}).code() == Errc::kInvalidArgument);
    }

    TEST_CASE("no cycle can be built") {
        TaskGraph graph(3);
        const TaskId other = *graph.add();
        const TaskId a = *graph.add();
        const TaskId b = *graph.add(Ids{a});
        const TaskId c = *graph.add(Ids{b});
        CHECK_FALSE(graph.add(Ids{{3, c.number + 1}}).has_value());  // not even itself
        CHECK(graph.start_next() == other);
        CHECK(graph.start_next() == a);
        const TaskId s = *graph.add_subtask(a);
        CHECK(graph.start_next() == s);
        // Each of these ends after a, which ends after the new subtask of a or of s.
        for (const TaskId parent : {a, s}) {
            for (const TaskId after : {a, b, c})
                CHECK(mentions(graph.add_subtask(parent, Ids{other, after}).error(),
                               to_string(after)));
        }
        CHECK(graph.add_subtask(s, Ids{s}).code() == Errc::kInvalidArgument);
        // A subtask of another task that waits for a: then that other task does.
        const TaskId o = *graph.add_subtask(other, Ids{c});
        CHECK(graph.add_subtask(s, Ids{other}).code() == Errc::kInvalidArgument);
        CHECK(graph.add_subtask(s, Ids{o}).code() == Errc::kInvalidArgument);
        const TaskId sibling = *graph.add_subtask(a, Ids{s});
        CHECK(graph.count() == 7);
        graph.finish(s, {});
        CHECK(graph.start_next() == sibling);
    }

    TEST_CASE("a task that was cancelled does not tie what it waited for to its parent") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        const TaskId b = *graph.add();
        CHECK(graph.start_next() == a);
        CHECK(graph.start_next() == b);
        const TaskId s = *graph.add_subtask(b, Ids{a});
        CHECK_FALSE(graph.add_subtask(a, Ids{b}));
        CHECK(graph.cancel(s, broken("late")));
        CHECK(graph.add_subtask(a, Ids{b}));
    }

    TEST_CASE("a task that was cancelled is not started, one that runs is not cancelled") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        const TaskId b = *graph.add(Ids{a});
        const TaskId c = *graph.add(Ids{b});
        const TaskId ready = *graph.add();
        CHECK(graph.cancel(b, broken("late")));
        CHECK(graph.cancel(ready, broken("late")));
        CHECK_FALSE(graph.cancel(ready, broken("later")));
        CHECK(graph.start_next() == a);
        CHECK_FALSE(graph.cancel(a, broken("late")));
        CHECK_FALSE(graph.start_next());
        graph.finish(a, {});
        CHECK_FALSE(graph.start_next());
        for (const TaskId id : {b, c, ready})
            CHECK(mentions(*graph.take(id), "late"));
    }

    TEST_CASE("a task that nobody wants is forgotten when it has finished, but counts until then") {
        TaskGraph graph(3);
        const TaskId a = *graph.add();
        const TaskId b = *graph.add(Ids{a});
        graph.forget(a);
        CHECK(graph.start_next() == a);
        CHECK_FALSE(graph.is_finished(a));
        graph.finish(a, broken("lost"));
        CHECK(graph.count() == 1);
        CHECK(graph.is_finished(a));
        CHECK(mentions(*graph.take(b), "lost"));
        const TaskId c = *graph.add();
        CHECK(graph.start_next() == c);
        graph.finish(c, {});
        graph.forget(c);
        CHECK(graph.count() == 0);
    }

    TEST_CASE("the limit is an error until a task is taken") {
        TaskGraph graph(3, 2);
        const TaskId a = *graph.add();
        CHECK(graph.start_next() == a);
        const TaskId b = *graph.add_subtask(a);
        CHECK(graph.add().code() == Errc::kBusy);
        CHECK(graph.add_subtask(a).code() == Errc::kBusy);
        CHECK(graph.start_next() == b);
        graph.finish(b, {});
        CHECK(graph.add().code() == Errc::kBusy);
        CHECK(graph.take(b));
        CHECK(graph.add());
    }

    TEST_CASE("a chain of a million tasks runs to its end, and fails to its end") {
        constexpr size_t kLength = 1'000'000;
        for (const bool fails : {false, true}) {
            TaskGraph graph(3);
            Ids chain{*graph.add()};
            while (chain.size() < kLength)
                chain.push_back(*graph.add(Ids{chain.back()}));
            size_t started = 0;
            while (const auto id = graph.start_next()) {
                ++started;
                graph.finish(*id, fails ? Status(broken("x")) : Status());
            }
            CHECK(started == (fails ? 1 : kLength));
            size_t failed = 0;
            for (const TaskId id : chain)
                failed += !*graph.take(id);
            CHECK(failed == (fails ? kLength : 0));
            CHECK(graph.count() == 0);
        }
    }

    TEST_CASE("subtasks a million deep end their ancestors") {
        constexpr size_t kDepth = 1'000'000;
        TaskGraph graph(3);
        const TaskId first = *graph.add();
        const TaskId other = *graph.add();
        Ids chain{first};
        CHECK(graph.start_next() == first);
        CHECK(graph.start_next() == other);
        while (chain.size() < kDepth) {
            chain.push_back(*graph.add_subtask(chain.back()));
            CHECK(graph.start_next() == chain.back());
            graph.forget(chain.back());
        }
        CHECK_FALSE(graph.add_subtask(chain.back(), Ids{first}));  // looks at all ancestors
        for (const TaskId id : chain)
            graph.finish(id, {});
        CHECK(graph.is_finished(first));
        CHECK(graph.count() == 2);
    }
}
