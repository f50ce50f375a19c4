// SPDX-License-Identifier: Apache-2.0
/// \file
/// A walk through the public API against an installed Weir: every step says what it expects and
/// ends the program with 1 if that is not so. Two jobs live in this process at once, to show that
/// they share nothing.

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include <weir/rules.h>
#include <weir/weir.h>

namespace {

using namespace std::chrono_literals;

constexpr uint64_t kDenseKeys = 100'000;

bool expect(bool holds, const char* what) {
    std::printf("%s  %s\n", holds ? "yes" : "NO ", what);
    return holds;
}

bool expect(const weir::Status& status, const char* what) {
    if (!status) std::printf("     %s\n", status.error().message().c_str());
    return expect(status.has_value(), what);
}

/// An update rule of the trainer's own: values that follow what is pushed half of the way.
struct HalfWay {
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr weir::Combine kCombine = weir::Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const weir::RuleParameters&) { return nullptr; }

    static double initial_state(const weir::RuleParameters&) { return 0; }

    template <class T>
    static void update(T& value, T*, const T* pushed, const weir::RuleContext&) {
        value += (*pushed - value) / 2;
    }
};

std::unique_ptr<weir::Job> start(uint32_t workers) {
    weir::JobOptions options{.servers = 1, .shards_per_server = 2, .workers = workers};
    options.add_rules = [](weir::RuleRegistry& rules) {
        expect(rules.register_rule<HalfWay>("half_way"), "a rule of the trainer's own");
    };
    auto job = weir::Job::start(options);
    if (!job) {
        std::printf("     %s\n", job.error().message().c_str());
        return nullptr;
    }
    return std::move(*job);
}

/// All keys of a dense table, in registered memory, without a copy.
bool dense(weir::Client& client) {
    weir::TableOptions options;
    options.layout = weir::Layout::kDense;
    options.key_count = kDenseKeys;
    auto table = client.create_table<float>("dense", options);
    auto values = client.make_buffer<float>(kDenseKeys);
    if (!expect(table.has_value() && values.has_value(), "a dense table and a buffer"))
        return false;
    std::iota(values->begin(), values->end(), 0.0F);
    const weir::KeyRange all{0, kDenseKeys};
    weir::Task push = table->push(all, *values);
    while (!push.test()) {  // a trainer would work here
    }
    if (!expect(push.wait(), "a push that was tested until it was finished")) return false;
    if (!expect(table->push(all, *values).wait(), "and pushed again")) return false;

    // Memory that the trainer already has, made known to the transport.
    std::vector<float> mine(kDenseKeys);
    auto registration = client.register_memory(std::as_writable_bytes(std::span(mine)));
    if (!expect(registration.has_value(), "memory of the trainer's is registered")) return false;
    if (!expect(table->pull(all, mine).wait(), "and pulled into")) return false;
    auto stats = client.stats();
    return expect(mine[0] == 0 && mine[77'777] == 2 * 77'777.0F, "the values are the sums") &&
           expect(stats && stats->bytes_copied == 0 && stats->servers_bytes_copied == 0,
                  "neither side copied a byte");
}

/// Any 64-bit keys, two values per key, in plain memory.
bool sparse(weir::Client& client, int64_t mark) {
    auto table = client.create_table<int64_t>("sparse", {.width = 2});
    if (!expect(table.has_value(), "a sparse table of width 2")) return false;
    const std::vector<uint64_t> keys = {3, 1'000'000'007, ~uint64_t{0} - 1};
    const std::vector<int64_t> ones = {mark, 1, mark, 1, mark, 1};
    for (int round = 0; round < 3; ++round) {
        if (!expect(table->push(keys, ones).wait(), "a push of three keys")) return false;
    }
    std::vector<int64_t> found(6);
    const std::vector<int64_t> expected = {3 * mark, 3, 3 * mark, 3, 3 * mark, 3};
    return expect(table->pull(keys, found).wait(), "a pull of them") &&
           expect(found == expected, "each counted three times, by this job alone");
}

/// A table with a rule of the trainer's own.
bool own_rule(weir::Client& client) {
    auto table = client.create_table<float>("half_way", {.rule = "half_way"});
    if (!expect(table.has_value(), "a table with the trainer's rule")) return false;
    const std::vector<uint64_t> keys = {5};
    std::vector<float> value = {8};
    return expect(table->push(keys, value).wait(), "a push") &&
           expect(table->push(keys, value).wait(), "and another") &&
           expect(table->pull(keys, value).wait() && value[0] == 6,
                  "the rule made 0, 4, 6 of it") &&
           expect(client.drop_table("half_way"), "nobody needs the table") &&
           expect(client.open_table<float>("half_way").code() == weir::Errc::kNotFound,
                  "it is gone");
}

/// Checks the errors that a trainer gets when it, or the job, does something wrong.
bool errors(weir::Client& client) {
    auto table = client.create_table<double>("errors", {});
    if (!expect(table.has_value(), "another table")) return false;
    const std::vector<uint64_t> unsorted = {2, 1};
    const std::vector<uint64_t> sorted = {1, 2};
    std::vector<double> values = {1, 2};
    const weir::Status skips = table->push(sorted, values, {.iteration = 2}).wait();
    const weir::Status none = table->push(sorted, values, {.iteration = 0}).wait();
    const weir::Status own = table->pull(sorted, values, {.iteration = 1}).wait();
    return expect(table->push(unsorted, values).wait().code() == weir::Errc::kInvalidArgument,
                  "unsorted keys are refused") &&
           expect(client.open_table<float>("errors").code() == weir::Errc::kTypeMismatch,
                  "so is another value type") &&
           expect(client.open_table<float>("none").code() == weir::Errc::kNotFound,
                  "and a table that nobody made") &&
           expect(skips.code() == weir::Errc::kInvalidArgument, "an iteration that is not next") &&
           expect(none.code() == weir::Errc::kInvalidArgument, "iterations count from 1") &&
           expect(own.code() == weir::Errc::kInvalidArgument, "one that waits for our own push") &&
           expect(table->push(sorted, values, {.iteration = 1}).wait(), "the first iteration") &&
           expect(table->pull(sorted, values, {.iteration = 1}).wait(), "is there") &&
           expect(values[1] == 2, "with what was pushed");
}

/// Two workers, of which the second does not push: what waits for it ends at its deadline.
bool deadlines(weir::Job& job) {
    std::array<bool, 2> fine{true, true};  // each written by its own worker
    const weir::Status done = job.run_workers([&](weir::Client& client) -> weir::Status {
        WEIR_ASSIGN(auto table, client.create_table<double>("deadlines", {}));
        const uint32_t worker = client.worker();
        if (worker == 0) {
            const std::vector<uint64_t> keys = {1};
            const std::vector<double> values = {1};
            const auto begin = std::chrono::steady_clock::now();
            weir::Task push = table.push(keys, values, {.iteration = 1, .deadline = 500ms});
            const bool early = push.wait_for(1ms).code() == weir::Errc::kDeadline && !push.test();
            const bool stood = std::chrono::steady_clock::now() - begin >= 500ms;  // the machine
            const weir::Status late = push.wait();
            fine[0] =
                expect(early || stood, "a task that takes longer than wait_for() goes on") &&
                expect(late.code() == weir::Errc::kDeadline, "what misses its deadline says so") &&
                expect(std::chrono::steady_clock::now() - begin < 20s, "in time");
        }
        fine[worker] &= expect(client.barrier(), "both are done");
        return {};
    });
    return fine[0] && fine[1] && expect(done, "and leave") &&
           expect(job.serve(), "the third job has ended well");
}

}  // namespace

int main() {
    const auto one = start(1);
    const auto two = start(1);
    if (!expect(one && two, "two jobs in one process")) return 1;
    {
        auto first = one->make_client(0);
        auto second = two->make_client(0);
        if (!expect(first && second, "a client of each")) return 1;
        const bool fine = dense(*first) && sparse(*first, 1) && sparse(*second, 10) &&
                          own_rule(*first) && errors(*second) &&
                          expect(first->leave(), "the first leaves") &&
                          expect(second->leave(), "the second leaves");
        if (!fine) return 1;
    }
    if (!expect(one->serve(), "the first job has ended well") ||
        !expect(two->serve(), "the second job has ended well")) {
        return 1;
    }
    const auto three = start(2);
    return expect(three != nullptr, "a job of two workers") && deadlines(*three) ? 0 : 1;
}
