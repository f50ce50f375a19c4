// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tasks that wait for others, against an installed Weir: two workers run the same iterations under
/// the three consistency models, then one chains calls and lets a handler start more of them.

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include <weir/weir.h>

namespace {

constexpr uint64_t kIterations = 50;
constexpr uint32_t kWorkers = 2;

weir::Status wrong(const char* what) {
    return weir::Error(weir::Errc::kProtocol, what);
}

/// Every worker adds 1 in every iteration.
weir::Status count(weir::Client& client, weir::Consistency model, const char* name) {
    weir::Iterations iterations(client, model);
    WEIR_ASSIGN(auto table, iterations.create_table<int64_t>(name, {}));
    const std::vector<uint64_t> keys = {3, 14, 1'000'000'007};
    std::vector<int64_t> seen(keys.size());
    weir::Staleness staleness;
    weir::Tasks pushes;
    for (uint64_t t = 1; t <= kIterations; ++t) {
        WEIR_TRY(iterations.begin(t));
        weir::Task pull = iterations.pull(table, keys, seen);
        WEIR_TRY(pull.wait());
        const uint64_t finished = model.finished_before(t);
        if (seen[0] < static_cast<int64_t>(kWorkers * finished)) return wrong("too stale");
        const auto shown = pull.iteration_shown();  // none with eventual(), nor in the first ones
        if (shown) {
            if (seen[0] < static_cast<int64_t>(kWorkers * *shown))
                return wrong("an untrue staleness");
            staleness.count(t, *shown);
        }
        WEIR_ASSIGN(const std::span<int64_t> ones, iterations.values(table, keys.size()));
        std::fill(ones.begin(), ones.end(), 1);
        pushes.add(iterations.push(table, keys, ones));
    }
    WEIR_TRY(pushes.wait());
    WEIR_TRY(client.barrier());
    WEIR_TRY(table.pull(keys, seen).wait());
    std::printf("worker %u, %s: %lld; staleness %.2f on average, %llu at most\n", client.worker(),
                name, static_cast<long long>(seen[2]), staleness.mean(),
                static_cast<unsigned long long>(staleness.max()));
    if (!model.is_eventual() && staleness.max() > model.tau()) return wrong("too stale");
    return seen[2] == static_cast<int64_t>(kWorkers * kIterations) ? weir::Status()
                                                                   : wrong("a wrong sum");
}

/// Copies a value from key to key, without waiting between the calls.
weir::Status chain(weir::Client& client) {
    WEIR_ASSIGN(auto table, client.create_table<int64_t>("chained", {.rule = weir::assign()}));
    constexpr uint64_t kCopies = 10;
    std::vector<uint64_t> keys;
    for (uint64_t key = 0; key <= kCopies; ++key)
        keys.push_back(key);
    std::vector<int64_t> value = {42};
    std::vector<int64_t> last(1);
    weir::Tasks tasks;  // of the chain, and of the handler
    const auto key = [&](uint64_t i) { return std::span(keys).subspan(i, 1); };

    weir::Task task = table.push(key(0), value);
    weir::TaskId before = task.id();
    tasks.add(std::move(task));
    for (uint64_t i = 0; i < kCopies; ++i) {
        weir::Task pull = table.pull(key(i), value, {.after = {before}});
        weir::Task push = table.push(key(i + 1), value, {.after = {pull.id()}});
        before = push.id();
        tasks.add(std::move(pull));
        tasks.add(std::move(push));
    }
    weir::Task end = table.pull(key(kCopies), last, {.after = {before}});
    int handled = 0;
    WEIR_TRY(end.then([&](const weir::Status& pulled) {
        handled = pulled && last[0] == 42 ? 1 : 2;
        tasks.add(table.push(key(0), last));  // a subtask: `end` has ended when it has
    }));
    WEIR_TRY(end.wait());
    WEIR_TRY(tasks.wait());
    return handled == 1 ? weir::Status() : wrong("the value was not handed on");
}

/// What waits for a task that fails is not sent, and says why.
weir::Status failures(weir::Client& client) {
    WEIR_ASSIGN(auto table, client.create_table<int64_t>("failures", {}));
    const std::vector<uint64_t> unsorted = {2, 1};
    const std::vector<uint64_t> sorted = {1, 2};
    const std::vector<int64_t> values = {1, 1};
    std::vector<int64_t> seen(2);
    weir::Task bad = table.push(unsorted, values);
    weir::Task next = table.push(sorted, values, {.after = {bad.id()}});
    const weir::Status failed = next.wait();
    std::printf("as it should: %s\n", failed ? "ok" : failed.error().message().c_str());
    if (failed.code() != weir::Errc::kInvalidArgument) return wrong("no error was passed on");
    if (bad.wait()) return wrong("unsorted keys were taken");
    weir::Task never = table.push(sorted, values, {.after = {{client.worker(), 12345}}});
    if (never.wait().code() != weir::Errc::kInvalidArgument) return wrong("an unknown task");
    WEIR_TRY(table.pull(sorted, seen).wait());
    return seen[0] == 0 ? weir::Status() : wrong("something was sent");
}

weir::Status train(weir::Client& client) {
    WEIR_TRY(count(client, weir::Consistency::sequential(), "sequential"));
    WEIR_TRY(count(client, weir::Consistency::bounded(4), "bounded by 4"));
    WEIR_TRY(count(client, weir::Consistency::eventual(), "eventual"));
    if (client.worker() != 0) return {};
    WEIR_TRY(chain(client));
    return failures(client);
}

}  // namespace

int main() {
    const weir::Status done = weir::run({.shards_per_server = 2, .workers = kWorkers}, train);
    if (!done) std::fprintf(stderr, "chained: %s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
