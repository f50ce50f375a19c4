// SPDX-License-Identifier: Apache-2.0
/// \file
/// Real jobs with a rule of the program that throws.

#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/rules.h"
#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

/// Adds, but to no row that would become negative.
struct NeverNegative {
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters&) { return nullptr; }

    static double initial_state(const RuleParameters&) { return 0; }

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        value += *pushed;
        if (value < 0) throw std::range_error("a count below 0");
    }
};

/// Adds, and keeps state of rows that are wide enough.
struct WideRows {
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_floating_point_v<T>;

    static const char* check(const RuleParameters&, uint32_t) { return nullptr; }

    template <class T>
    static size_t state_bytes(size_t width) {
        if (width < 5) throw std::length_error("no state of a row of less than 5 values");
        return sizeof(T);
    }

    template <class T>
    static void update_row(const RuleRow<T>& row, const RuleContext&) {
        for (uint32_t i = 0; i < row.width; ++i)
            row.values[i] += row.pushed[i];
    }
};

JobOptions negative_options(uint32_t servers, uint32_t replicas) {
    JobOptions options;
    options.servers = servers;
    options.replicas = replicas;
    options.workers = 2;
    options.add_rules = [](RuleRegistry& rules) {
        REQUIRE(rules.register_rule<NeverNegative>("never_negative").has_value());
    };
    return options;
}

void check_names_rule(const Status& outcome) {
    CHECK(outcome.code() == Errc::kException);
    INFO((outcome ? std::string("ok") : outcome.error().text()));
    CHECK((!outcome && outcome.error().text().find("rule 'never_negative' of table 'counts' threw: "
                                                   "a count below 0") != std::string::npos));
}

}  // namespace

TEST_SUITE("throwing rules of jobs") {
    TEST_CASE("a rule that throws is an error of all calls, of run_workers() and of serve()") {
        for (const uint32_t replicas : {0, 1}) {
            for (const bool in_iterations : {false, true}) {
                CAPTURE(replicas);
                CAPTURE(in_iterations);
                const auto job = start_job(negative_options(1 + replicas, replicas));
                std::vector<Status> pushed(2);
                const Status worked = job->run_workers([&](Client& client) -> Status {
                    WEIR_ASSIGN(auto table,
                                client.create_table<float>("counts", {.rule = "never_negative"}));
                    WEIR_TRY(client.barrier());
                    const std::vector<uint64_t> keys = {3, 8, 20};
                    const std::vector<float> more(keys.size(), 1);
                    const std::vector<float> less = {1, -50, 1};
                    PushOptions options;
                    for (uint64_t i = 1;; ++i) {
                        if (in_iterations) options.iteration = i;
                        const bool is_last = i == 5 && client.worker() == 0;
                        const Status one = table.push(keys, is_last ? less : more, options).wait();
                        if (!one) return one;
                    }
                });
                check_names_rule(worked);
                check_names_rule(job->serve());
            }
        }
    }

    TEST_CASE("run() ends with the error") {
        const Status done =
            run(negative_options(1, 0), small_pools(), [](Client& client) -> Status {
                WEIR_ASSIGN(auto table,
                            client.create_table<float>("counts", {.rule = "never_negative"}));
                const std::vector<uint64_t> keys = {3};
                const std::vector<float> less = {-1};
                return table.push(keys, less).wait();
            });
        check_names_rule(done);
    }

    TEST_CASE("a rule is asked about rows of the table's width only, and named if it throws then") {
        JobOptions options;
        options.workers = 1;
        options.add_rules = [](RuleRegistry& rules) {
            REQUIRE(rules.register_rule<WideRows>("wide_rows").has_value());
        };
        const auto job = start_job(options);
        auto client = std::move(job->make_client(0)).value();
        const auto narrow = client.create_table<float>("t", {.width = 4, .rule = "wide_rows"});
        REQUIRE(narrow.code() == Errc::kException);
        CHECK(narrow.error().text() ==
              "table 't': rule 'wide_rows' threw: no state of a row of less than 5 values");
        auto wide = client.create_table<float>("t", {.width = 5, .rule = "wide_rows"});
        REQUIRE_MESSAGE(wide, wide.error().text());
        const std::vector<uint64_t> keys = {3};
        const std::vector<float> ones(5, 1);
        std::vector<float> values(5);
        REQUIRE(wide->push(keys, ones).wait());
        REQUIRE(wide->pull(keys, values).wait());
        CHECK(values == ones);
        REQUIRE(client.leave());
        CHECK(job->serve());
    }
}

}  // namespace weir::test
