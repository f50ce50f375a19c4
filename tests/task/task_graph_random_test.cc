// SPDX-License-Identifier: Apache-2.0
/// \file
/// TaskGraph against a model that remembers everything and finds out what follows by looking at
/// all tasks again and again.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/task/task_graph.h"
#include "tests/seed.h"

TEST_SUITE("task_graph_random") {
    using namespace weir;

    struct ModelTask {
        std::vector<uint64_t> after;  ///< without those that were forgotten when it was added
        uint64_t parent = 0;
        bool has_started = false;
        bool own_work_ended = false;
        bool is_finished = false;
        bool is_forgotten = false;
        std::set<std::string> errors;  ///< its error is one of these; none: it has not failed
        std::string error;             ///< what the graph said
    };

    struct Model {
        std::vector<ModelTask> tasks{1};  ///< by number; number 0 is no task

        /// Whether `what` ends only after `number` ends: by the meaning of waiting, not by lists.
        [[nodiscard]] bool ends_after(uint64_t what, uint64_t number) const {
            std::vector<bool> reached(tasks.size());
            reached[number] = true;
            for (bool changed = true; changed;) {
                changed = false;
                for (uint64_t n = 1; n < tasks.size(); ++n) {
                    if (reached[n]) continue;
                    bool waits = false;
                    if (!tasks[n].has_started) {
                        for (const uint64_t other : tasks[n].after)
                            waits |= reached[other] && !tasks[other].is_finished;
                    }
                    for (uint64_t child = 1; child < tasks.size(); ++child)
                        waits |= tasks[child].parent == n && reached[child];
                    if (waits && !tasks[n].is_finished) reached[n] = changed = true;
                }
            }
            return reached[what];
        }

        [[nodiscard]] bool may_start(uint64_t number) const {
            const ModelTask& task = tasks[number];
            return !task.has_started && !task.is_finished &&
                   std::ranges::all_of(task.after, [&](uint64_t other) {
                       return tasks[other].is_finished && tasks[other].errors.empty();
                   });
        }

        /// Ends what follows from the last event. An error that was known before it comes first.
        void follow() {
            std::vector<bool> had_error(tasks.size());
            for (size_t n = 1; n < tasks.size(); ++n)
                had_error[n] = !tasks[n].errors.empty();
            for (bool changed = true; changed;) {
                changed = false;
                for (uint64_t n = 1; n < tasks.size(); ++n) {
                    ModelTask& task = tasks[n];
                    const size_t known = task.errors.size();
                    if (!task.has_started && !task.is_finished) {
                        for (const uint64_t other : task.after)
                            take_errors(task, tasks[other]);
                        if (!task.errors.empty()) task.is_finished = changed = true;
                    }
                    bool open = false;
                    for (const ModelTask& child : tasks) {
                        if (child.parent != n) continue;
                        open |= !child.is_finished;
                        if (!had_error[n]) take_errors(task, child);
                    }
                    if (task.own_work_ended && !task.is_finished && !open)
                        task.is_finished = changed = true;
                    changed |= task.errors.size() > known;
                }
            }
        }

        static void take_errors(ModelTask& task, const ModelTask& from) {
            if (from.is_finished) task.errors.insert(from.errors.begin(), from.errors.end());
        }
    };

    /// A graph and its model, driven by the same random events.
    struct History {
        Random random;
        TaskGraph graph{9};
        Model model;
        std::vector<uint64_t> running;

        explicit History(uint64_t seed) : random(seed) {}

        std::vector<TaskId> some_tasks() {
            std::vector<TaskId> ids;
            for (uint64_t i = random.below(4); i-- > 0 && model.tasks.size() > 1;) {
                const uint64_t reach = std::min<uint64_t>(model.tasks.size() - 1, 12);
                ids.push_back({9, model.tasks.size() - 1 - random.below(reach)});
            }
            return ids;
        }

        void added(TaskId id, uint64_t parent, const std::vector<TaskId>& after) {
            REQUIRE(id.number == model.tasks.size());
            ModelTask task;
            task.parent = parent;
            for (const TaskId other : after) {
                if (!model.tasks[other.number].is_forgotten) task.after.push_back(other.number);
            }
            model.tasks.push_back(task);
            model.follow();
        }

        void add() {
            const auto after = some_tasks();
            added(*graph.add(after), 0, after);
        }

        void add_subtask() {
            if (running.empty()) return;
            const uint64_t parent = running[random.below(running.size())];
            const auto after = some_tasks();
            const bool is_cycle = std::ranges::any_of(after, [&](TaskId id) {
                return !model.tasks[id.number].is_finished && model.ends_after(id.number, parent);
            });
            const auto id = graph.add_subtask({9, parent}, after);
            CHECK(id.has_value() == !is_cycle);
            if (id) added(*id, parent, after);
        }

        void start() {
            const auto id = graph.start_next();
            if (!id) {
                for (uint64_t n = 1; n < model.tasks.size(); ++n)
                    CHECK_FALSE(model.may_start(n));
                return;
            }
            CHECK(model.may_start(id->number));
            model.tasks[id->number].has_started = true;
            running.push_back(id->number);
        }

        void finish() {
            if (running.empty()) return;
            const size_t i = random.below(running.size());
            const uint64_t number = running[i];
            running.erase(running.begin() + static_cast<ptrdiff_t>(i));
            ModelTask& task = model.tasks[number];
            const bool fails = random.below(8) == 0;
            task.own_work_ended = true;
            const std::string error = std::to_string(number);
            if (fails && task.errors.empty()) task.errors.insert(error);
            model.follow();
            graph.finish({9, number}, fails ? Status(Error(Errc::kIo, error)) : Status());
        }

        void cancel() {
            if (model.tasks.size() == 1) return;
            const uint64_t number = 1 + random.below(model.tasks.size() - 1);
            ModelTask& task = model.tasks[number];
            const bool can = !task.has_started && !task.is_finished;
            const std::string error = "cancelled " + std::to_string(number);
            CHECK(graph.cancel({9, number}, {Errc::kCancelled, error}) == can);
            if (!can) return;
            task.is_finished = true;
            task.errors.insert(error);
            model.follow();
        }

        void take() {
            if (model.tasks.size() == 1) return;
            const uint64_t number = 1 + random.below(model.tasks.size() - 1);
            ModelTask& task = model.tasks[number];
            const auto outcome = graph.take({9, number});
            CHECK(outcome.has_value() == task.is_finished);
            if (!outcome) return;
            if (task.is_forgotten) {
                CHECK(outcome->has_value());
            } else {
                CHECK(outcome->has_value() == task.errors.empty());
                if (!*outcome) {
                    // After the name of the task that it began with, if that is another.
                    const std::string& text = outcome->error().text();
                    const size_t name_end = text.rfind(" failed: ");
                    CHECK(task.errors.contains(
                        name_end == std::string::npos ? text : text.substr(name_end + 9)));
                    CHECK(text.find(" failed: ") == name_end);
                }
            }
            task.is_forgotten = true;
        }

        void check() const {
            size_t remembered = 0;
            for (uint64_t n = 1; n < model.tasks.size(); ++n) {
                const ModelTask& task = model.tasks[n];
                CHECK(graph.is_finished({9, n}) == task.is_finished);
                CHECK(graph.has_failed({9, n}) ==
                      (task.is_finished && !task.is_forgotten && !task.errors.empty()));
                remembered += !task.is_forgotten;
            }
            CHECK(graph.count() == remembered);
        }
    };

    TEST_CASE("random graphs: tasks start, end and fail as in the model") {
        WEIR_TEST_SEED(seed, 92);
        for (uint64_t number = 0; number < testing::histories_or(200); ++number) {
            CAPTURE(number);
            History history(seed * 1'000'003 + number);
            for (int step = 0; step < 120; ++step) {
                switch (history.random.below(10)) {
                    case 0:
                    case 1: history.add(); break;
                    case 2:
                    case 3: history.add_subtask(); break;
                    case 4:
                    case 5:
                    case 6: history.start(); break;
                    case 7:
                    case 8: history.finish(); break;
                    default:
                        history.random.below(3) == 0 ? history.cancel() : history.take();
                        break;
                }
                history.check();
            }
            // Whatever is left can come to its end: nothing waits for itself.
            for (history.start(); !history.running.empty(); history.start())
                history.finish();
            history.check();
            for (uint64_t n = 1; n < history.model.tasks.size(); ++n)
                CHECK(history.graph.is_finished({9, n}));
        }
    }

    TEST_CASE("tasks that end early leave nothing behind at the task that they waited for") {
        TaskGraph graph(9);
        const TaskId slow = *graph.add();
        CHECK(graph.start_next() == slow);
        for (int i = 0; i < 100'000; ++i) {
            const TaskId waits = *graph.add(std::vector<TaskId>{slow});
            const TaskId ready = *graph.add();
            CHECK(graph.cancel(waits, {Errc::kDeadline, "late"}));
            CHECK(graph.cancel(ready, {Errc::kDeadline, "late"}));
            CHECK(graph.take(waits));
            CHECK(graph.take(ready));
        }
        CHECK(graph.count() == 1);
        CHECK(graph.bytes() < 4096);
        graph.finish(slow, {});
        CHECK(graph.take(slow)->has_value());
    }
}
