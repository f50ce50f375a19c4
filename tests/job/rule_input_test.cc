// SPDX-License-Identifier: Apache-2.0
/// \file
/// Rules and arguments that cannot be, in real jobs: each is named to the user, and nothing is lost.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

const std::vector<uint64_t> kKeys = {3, 14, 1'000'000'007};
const std::vector<double> kOnes(kKeys.size(), 1);

std::string text_of(const Status& status) {
    return status ? "ok" : status.error().text();
}

Status push(Table<double>& table, const std::vector<NamedNumber>& arguments,
            std::optional<uint64_t> iteration = {}) {
    return table.push(kKeys, kOnes, {.iteration = iteration, .arguments = arguments}).wait();
}

/// What each of the keys has; not a number if they differ.
double value_of(Table<double>& table) {
    std::vector<double> values(kKeys.size());
    REQUIRE(table.pull(kKeys, values).wait());
    return values == std::vector<double>(kKeys.size(), values[0]) ? values[0] : std::nan("");
}

JobOptions with_backups(uint32_t workers) {
    JobOptions options;
    options.servers = 2;
    options.workers = workers;
    options.replicas = 1;
    return options;
}

}  // namespace

TEST_SUITE("rule input") {
    TEST_CASE("an argument that the rule does not have, or cannot be, is named; pushes go on") {
        const auto job = start_job(with_backups(1));
        auto client = std::move(job->make_client(0)).value();
        auto table = std::move(client.create_table<double>("t", {.rule = momentum(0.5)})).value();
        auto sums = std::move(client.create_table<double>("sums", {})).value();
        const double infinity = std::numeric_limits<double>::infinity();
        REQUIRE(push(table, {{"momentum", 0}}));
        const auto refused = [&](const std::vector<NamedNumber>& arguments,
                                 std::optional<uint64_t> iteration) {
            const Status outcome = push(table, arguments, iteration);
            CHECK(outcome.code() == Errc::kInvalidArgument);
            return text_of(outcome);
        };
        for (const bool has_iteration : {false, true}) {
            std::optional<uint64_t> iteration;
            if (has_iteration) iteration = 1;
            CHECK(refused({{"speed", 1}}, iteration) ==
                  "table 't': rule 'momentum' has no argument 'speed'; choose one of: rate, "
                  "momentum, weight_decay");
            CHECK(
                refused({{"rate", std::nan("")}}, iteration) ==
                "table 't': rule 'momentum': the argument rate must be finite as float64, is nan");
            CHECK(refused({{"momentum", infinity}}, iteration) ==
                  "table 't': rule 'momentum': the argument momentum must be finite as float64, is "
                  "inf");
            CHECK(refused({{"rate", 1}, {"weight_decay", -1}}, iteration) ==
                  "table 't': rule 'momentum': the argument weight_decay must be 0 or greater, is "
                  "-1");
            for (const double momentum : {1.0, 1 - 1e-17, 7.0})
                CHECK(refused({{"momentum", momentum}}, iteration)
                          .starts_with("table 't': rule 'momentum': the argument momentum must be "
                                       "less than 1 as float64, is "));
            CHECK(refused({{"rate", 1}, {"momentum", 0}, {"rate", 2}}, iteration) ==
                  "table 't': rule 'momentum': the argument rate is given twice; leave one out");
        }
        CHECK(text_of(push(sums, {{"rate", 1}})) ==
              "table 'sums': rule 'add' has no argument 'rate'; it has none");
        CHECK(value_of(table) == -0.5);
        CHECK(table.next_iteration() == 1U);  // the refused ones took no number
        REQUIRE(push(table, {{"momentum", 0}, {"rate", 0.25}}, 1));
        CHECK(value_of(table) == -0.75);
        REQUIRE(push(sums, {}));
        CHECK(value_of(sums) == 1);
        REQUIRE(client.leave());
        CHECK(job->serve());
    }

    TEST_CASE("a rule that does not work on a type, or with its parameters, is named; no table") {
        const auto job = start_job(with_backups(1));
        auto client = std::move(job->make_client(0)).value();
        const auto why = [&](const auto& made, Errc code = Errc::kInvalidArgument) {
            CHECK(made.code() == code);
            return made ? std::string("ok") : made.error().text();
        };
        for (const Rule& rule : {momentum(0.1), adam(), ftrl(0.1), adagrad(0.1), row_adagrad(0.1),
                                 rmsprop(0.1), lion(), sgd(0.1), prox_l1(0.1), mean()}) {
            const std::string text = "table 't': rule " + rule.name;
            CHECK(why(client.create_table<int32_t>("t", {.rule = rule}), Errc::kTypeMismatch) ==
                  text + " does not work on int32; use a floating type");
            CHECK(why(client.create_table<uint64_t>("t", {.rule = rule}), Errc::kTypeMismatch) ==
                  text + " does not work on uint64; use a floating type");
        }
        CHECK(why(client.create_table<float>("t", {.rule = adam(0.1, 1)})) ==
              "table 't': rule 'adam': beta1 must be less than 1, is 1");
        CHECK(why(client.create_table<float>("t", {.rule = momentum(std::nan(""))})) ==
              "table 't': rule 'momentum': rate must be finite, is nan");
        CHECK(why(client.create_table<uint32_t>("t", {.width = 12, .rule = count_min(5)})) ==
              "table 't': rule 'count_min': depth must be a whole number that divides the width");
        const auto unknown = client.create_table<float>("t", {.rule = "adamant"});
        REQUIRE(unknown.code() == Errc::kNotFound);
        CHECK(unknown.error().text().find("no update rule 'adamant'") != std::string::npos);
        // The name is free, and the job goes on.
        auto table = std::move(client.create_table<double>("t", {.rule = sgd(1)})).value();
        REQUIRE(push(table, {}));
        CHECK(value_of(table) == -1);
        REQUIRE(client.leave());
        CHECK(job->serve());
    }

    TEST_CASE("a table takes the mean of the workers' parts in place of their sum") {
        const auto job = start_job(with_backups(2));
        const Status ran = job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table,
                        client.create_table<double>(
                            "t", {.rule = sgd(1), .combine = Combine::kMean, .max_delay = 2}));
            CHECK(table.schema().combine == Combine::kMean);
            WEIR_ASSIGN(auto same, client.open_table<double>("t"));
            CHECK(same.schema().combine == Combine::kMean);
            // Key 1 is everybody's, 2 and 3 are one worker's alone.
            const double me = client.worker();
            const std::vector<uint64_t> keys = {1, 2 + client.worker()};
            const std::vector<double> gradient = {1 + me, 5};
            for (uint64_t i = 1; i <= 3; ++i)
                WEIR_TRY(table.push(keys, gradient, {.iteration = i}).wait());
            const std::vector<uint64_t> all = {1, 2, 3};
            std::vector<double> seen(3);
            WEIR_TRY(table.pull(all, seen, {.iteration = 3}).wait());
            CHECK(seen == std::vector<double>{-3 * 1.5, -15, -15});
            // Who asks for the sum is told what the table does.
            const auto sums = client.create_table<double>("t", {.rule = sgd(1), .max_delay = 2});
            CHECK(sums.code() == Errc::kAlreadyExists);
            CHECK_MESSAGE(
                text_of(sums ? Status() : Status(sums.error()))
                        .find("combine mean; that of the rule was asked for") != std::string::npos,
                text_of(sums ? Status() : Status(sums.error())));
            return client.barrier();
        });
        CHECK_MESSAGE(ran, text_of(ran));
        CHECK(job->serve());
    }

    TEST_CASE("a mean in place of a sum is refused where there is none") {
        const auto job = start_job(with_backups(1));
        auto client = std::move(job->make_client(0)).value();
        const auto why = [&](const auto& made, Errc code) {
            CHECK(made.code() == code);
            return made ? std::string("ok") : made.error().text();
        };
        const auto with_rule = [](const Rule& rule, Combine combine) {
            return TableOptions{.rule = rule, .combine = combine};
        };
        const std::string only =
            " of the workers' parts of an iteration; only a rule that takes their sum can take "
            "their mean in its place; leave combine out";
        CHECK(why(client.create_table<float>("t", with_rule(max(), Combine::kMean)),
                  Errc::kInvalidArgument) ==
              "table 't': combine is mean, and rule 'max' takes the greatest" + only);
        CHECK(why(client.create_table<float>("t", with_rule(assign(), Combine::kMean)),
                  Errc::kInvalidArgument) ==
              "table 't': combine is mean, and rule 'assign' takes the last" + only);
        CHECK(why(client.create_table<float>("t", with_rule(sgd(1), Combine::kMax)),
                  Errc::kInvalidArgument) ==
              "table 't': combine is greatest, and rule 'sgd' takes the sum" + only);
        CHECK(why(client.create_table<int32_t>("t", with_rule(add(), Combine::kMean)),
                  Errc::kTypeMismatch) ==
              "table 't': a mean of int32 values would be rounded; use a floating type, or leave "
              "combine out");
        // What the rule does anyway may be said.
        CHECK(client.create_table<float>("t", with_rule(max(), Combine::kMax)));
        CHECK(client.leave());
        CHECK(job->serve());
    }

    TEST_CASE("different arguments of an iteration are named to both workers, with backups") {
        const auto job = start_job(with_backups(2));
        const Status ran = job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("t", {.rule = sgd(0.5)}));
            for (uint64_t iteration = 1; iteration <= 4; iteration += 2) {
                const double own = 1 + client.worker();
                const Status different = push(table, {{"rate", own}}, iteration);
                CHECK(different.code() == Errc::kDifferentArguments);
                const std::string text = text_of(different);
                const bool names_both = text.find("workers 0 and 1") != std::string::npos ||
                                        text.find("workers 1 and 0") != std::string::npos;
                CHECK_MESSAGE(names_both, text);
                WEIR_TRY(client.barrier());
                WEIR_TRY(push(table, {{"rate", 0.25}}, iteration + 1));
                CHECK(value_of(table) == -0.25 * static_cast<double>(iteration + 1));
                WEIR_TRY(client.barrier());
            }
            return {};
        });
        CHECK_MESSAGE(ran, text_of(ran));
    }
}

}  // namespace weir::test
