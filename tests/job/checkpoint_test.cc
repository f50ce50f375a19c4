// SPDX-License-Identifier: Apache-2.0
/// \file
/// Real jobs that write checkpoints, and others that go on from them.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "lib/base/prox.h"
#include "lib/checkpoint/folder.h"
#include "lib/checkpoint/manifest.h"
#include "lib/store/rules/row_rules.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/weir.h"
#include "tests/job/small_job.h"
#include "tests/log_lines.h"
#include "tests/wait_until.h"

namespace weir::test {
namespace {

/// A folder that is gone at the end.
class NewFolder {
public:
    NewFolder() {
        std::string pattern = std::filesystem::temp_directory_path() / "weir-checkpoint-XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path_ = pattern;
    }

    ~NewFolder() { std::filesystem::remove_all(path_); }

    NewFolder(const NewFolder&) = delete;
    NewFolder& operator=(const NewFolder&) = delete;

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// A rule that its author has mended.
template <uint32_t kItsVersion>
struct Mended : rules::Adam<false> {
    static constexpr uint32_t kVersion = kItsVersion;
};

/// What was pushed, in the order of the keys, before and behind the checkpoint of version 1.
struct PushesOfV1 {
    static constexpr uint64_t kBefore = 3;

    explicit PushesOfV1(size_t keys)
        : slopes(keys * kWidth, 0.25F),
          squares(keys * kWidth),
          steps(keys, ProxState<double>{0, 2}) {}

    /// Push number `i`, from 1, and what it makes of the values.
    void make(uint64_t i) {
        gradients.clear();
        for (size_t k = 0; k < slopes.size(); ++k) {
            const float g = 0.5F * static_cast<float>(i) + static_cast<float>(k);
            gradients.push_back(g);
            squares[k] += g * g;
            slopes[k] -= 0.5F * g / (std::sqrt(squares[k]) + 1e-8F);
        }
        curved.clear();
        for (size_t k = 0; k < steps.size(); ++k) {
            const auto key = static_cast<double>(k);
            curved.push_back(1 - 0.75 * static_cast<double>(i) + key);
            curved.push_back(2 + key);
            steps[k] = prox_l1_step(steps[k], curved[2 * k], curved[2 * k + 1], 0.125);
        }
    }

    [[nodiscard]] std::vector<double> weights() const {
        std::vector<double> all;
        for (const ProxState<double>& step : steps)
            all.push_back(step.weight);
        return all;
    }

    static constexpr uint32_t kWidth = 3;
    std::vector<float> slopes;   ///< of adagrad(0.5), from 0.25 on
    std::vector<float> squares;  ///< its state
    std::vector<float> gradients;
    std::vector<ProxState<double>> steps;  ///< of prox_l1(0.125, 2)
    std::vector<double> curved;
};

JobOptions job_options(uint32_t servers, uint32_t shards, uint32_t workers) {
    JobOptions options;
    options.servers = servers;
    options.shards_per_server = shards;
    options.workers = workers;
    return options;
}

}  // namespace

TEST_SUITE("checkpoints of jobs") {
    TEST_CASE("a worker asks for a checkpoint, and another job goes on from it") {
        const NewFolder folder;
        std::vector<double> ones(1000, 1);
        TableOptions scratch = dense_options(1000);
        scratch.in_checkpoints = false;
        {
            JobOptions options = job_options(2, 2, 2);
            options.checkpoint_folder = folder.path();
            const auto job = start_job(options);
            CHECK(job->run_workers([&](Client& client) -> Status {
                WEIR_ASSIGN(auto table, client.create_table<double>("sums", dense_options(1000)));
                WEIR_ASSIGN(auto other, client.create_table<double>("scratch", scratch));
                CHECK(client.resumed_from()->checkpoint == 0);
                CHECK(table.next_iteration() == 1U);
                for (uint64_t i = 1; i <= 3; ++i)
                    WEIR_TRY(table.push(KeyRange{0, 1000}, ones, {.iteration = i}).wait());
                WEIR_TRY(other.push(KeyRange{0, 1000}, ones).wait());
                std::vector<double> sum = {1};
                WEIR_TRY(client.allreduce(sum));
                if (client.worker() != 0) return client.barrier();
                const Result<uint64_t> first = client.checkpoint();
                REQUIRE_MESSAGE(first, first.error().text());
                CHECK(*first == 1);
                CHECK(*client.checkpoint() == 2);
                WEIR_ASSIGN(const std::vector<JobEvent> events, client.take_events());
                REQUIRE(events.size() == 2);
                for (size_t i = 0; i < 2; ++i) {
                    CHECK(events[i].kind == JobEvent::Kind::kCheckpoint);
                    CHECK(events[i].number == i + 1);
                }
                CHECK(events[0].age >= events[1].age);
                CHECK(client.take_events()->empty());
                return client.barrier();
            }));
        }
        checkpoint::RealDisk disk;
        CHECK(checkpoint::read_manifest(disk, folder.path(), 1)->new_bytes() > 8000);
        const auto second = checkpoint::read_manifest(disk, folder.path(), 2);
        CHECK(second->bytes() > 8000);
        CHECK(second->new_bytes() == 0);  // nothing had changed
        JobOptions options = job_options(1, 3, 1);
        options.resume = folder.path();
        const auto job = start_job(options);
        CHECK(job->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(const ResumedFrom from, client.resumed_from());
            CHECK(from.checkpoint == 2);
            REQUIRE(from.tables.size() == 1);
            CHECK(from.tables[0].name == "sums");
            std::vector<double> sum = {1};
            WEIR_TRY(client.allreduce(sum));
            CHECK(sum[0] == 1);
            CHECK(from.tables[0].closed == 3);
            const auto wrong = client.create_table<double>("sums", dense_options(999));
            REQUIRE(wrong.code() == Errc::kAlreadyExists);
            CHECK(wrong.error().text().find("key_count 1000; 999 was asked for") !=
                  std::string::npos);
            CHECK(wrong.error().text().find("checkpoint 2") != std::string::npos);
            WEIR_ASSIGN(auto table, client.create_table<double>("sums", dense_options(1000)));
            WEIR_ASSIGN(auto other, client.create_table<double>("scratch", scratch));
            CHECK(table.next_iteration() == 4U);
            std::vector<double> values(1000);
            WEIR_TRY(table.push(KeyRange{0, 1000}, ones, {.iteration = 4}).wait());
            WEIR_TRY(table.pull(KeyRange{0, 1000}, values).wait());
            CHECK(values == std::vector<double>(1000, 7));
            WEIR_TRY(other.pull(KeyRange{0, 1000}, values).wait());
            CHECK(values == std::vector<double>(1000, 0));
            CHECK(client.checkpoint().code() == Errc::kUnavailable);  // it has no folder of its own
            return {};
        }));
    }

    TEST_CASE(
        "rule state and random rows go on in other shards, with another version of the rule") {
        const NewFolder folder;
        std::vector<uint64_t> keys(2000);
        for (uint64_t key = 0; key < keys.size(); ++key)
            keys[key] = key * 1'000'003;
        const auto pushed = std::span(keys).first(500);
        TableOptions wanted{
            .width = 3, .rule = {"mended", adam(0.1).parameters}, .initial_value = normal(0, 1, 5)};
        std::vector<float> before(keys.size() * wanted.width);
        std::vector<float> after(before);
        const std::vector<float> ones(pushed.size() * wanted.width, 1);
        // Runs the pushes of `count` steps, and pulls all keys.
        const auto train = [&](Client& client, int count, std::vector<float>& all) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<float>("t", wanted));
            for (int i = 0; i < count; ++i)
                WEIR_TRY(table.push(pushed, ones).wait());
            return table.pull(keys, all).wait();
        };
        JobOptions options = job_options(1, 2, 1);
        options.add_rules = [](RuleRegistry& rules) {
            REQUIRE(rules.register_rule<Mended<1>>("mended"));
        };
        options.checkpoint_folder = folder.path();
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            WEIR_TRY(train(client, 3, before));
            WEIR_TRY(client.checkpoint());
            WEIR_TRY(train(client, 0, after));
            CHECK(after == before);
            return train(client, 2, before);
        }));
        options = job_options(2, 3, 1);
        options.add_rules = [](RuleRegistry& rules) {
            REQUIRE(rules.register_rule<Mended<2>>("mended"));
        };
        options.resume = folder.path();
        const Status went_on = start_job(options)->run_workers(
            [&](Client& client) -> Status { return train(client, 2, after); });
        REQUIRE_MESSAGE(went_on, went_on.error().text());
        CHECK(after == before);
        wanted.width = 4;
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            const auto wider = client.create_table<float>("t", wanted);
            CHECK(wider.code() == Errc::kTypeMismatch);
            CHECK(wider.error().text().find("exists with 3 values of type float32 per key; 4 of") !=
                  std::string::npos);
            return {};
        }));
    }

    // checkpoint_v1 was written by the last program of that version.
    TEST_CASE("a checkpoint of version 1 is gone on from, with rule state and iterations") {
        const char* const folder = std::getenv("CHECKPOINT_V1");
        REQUIRE_MESSAGE(folder != nullptr, "CHECKPOINT_V1 is to be the folder checkpoint_v1");
        JobOptions options = job_options(2, 1, 1);
        options.resume = folder;
        const Status went_on = start_job(options)->run_workers([&](Client& client) -> Status {
            CHECK(client.resumed_from()->tables.size() == 4);
            for (const bool is_dense : {true, false}) {
                const std::string kind = is_dense ? "dense" : "sparse";
                std::vector<uint64_t> keys = {2, 3, 5, 1'000'000'007};
                if (is_dense) {
                    keys.resize(12);
                    std::iota(keys.begin(), keys.end(), 0);
                }
                TableOptions wanted = is_dense ? dense_options(keys.size()) : TableOptions();
                wanted.width = PushesOfV1::kWidth;
                wanted.rule = adagrad(0.5);
                wanted.initial_value = 0.25;
                WEIR_ASSIGN(auto slopes, client.create_table<float>(kind + " adagrad", wanted));
                wanted.width = 1;
                wanted.rule = prox_l1(0.125, 2);
                wanted.initial_value = 0;
                WEIR_ASSIGN(auto steps, client.create_table<double>(kind + " prox_l1", wanted));
                PushesOfV1 pushes(keys.size());
                for (uint64_t i = 1; i <= PushesOfV1::kBefore; ++i)
                    pushes.make(i);
                PushOptions push;
                for (uint64_t i = PushesOfV1::kBefore;; ++i) {
                    std::vector<float> slope_values(pushes.slopes.size());
                    std::vector<double> weights(keys.size());
                    WEIR_TRY(slopes.pull(keys, slope_values).wait());
                    WEIR_TRY(steps.pull(keys, weights).wait());
                    CHECK(slope_values == pushes.slopes);
                    CHECK(weights == pushes.weights());
                    if (i == PushesOfV1::kBefore + 3) break;
                    pushes.make(i + 1);
                    CHECK(slopes.next_iteration() == (is_dense ? i + 1 : 1U));
                    if (is_dense) push.iteration = i + 1;
                    WEIR_TRY(slopes.push(keys, pushes.gradients, push).wait());
                    WEIR_TRY(steps.push(keys, pushes.curved, push).wait());
                }
            }
            return {};
        });
        CHECK_MESSAGE(went_on, went_on.error().text());
    }

    TEST_CASE("tables of narrow values go on with the same bits") {
        const NewFolder folder;
        std::vector<uint64_t> keys(1000);
        std::iota(keys.begin(), keys.end(), 0);
        TableOptions sparse{.width = 3, .rule = adam(0.1), .initial_value = normal(0, 1, 5)};
        sparse.store_as = ValueType::kBFloat16;
        TableOptions dense = dense_options(keys.size());
        dense.width = 5;
        dense.rule = adam(0.1);
        dense.store_as = ValueType::kFloat16;
        using Rows = std::vector<std::byte>;
        // Pushes `count` times to the keys below 700 of both tables, and brings all rows of both.
        const auto train = [&](Client& client, int count) -> Result<std::array<Rows, 2>> {
            std::array<Rows, 2> all;
            for (size_t i = 0; i < 2; ++i) {
                WEIR_ASSIGN(auto table, client.create_table<float>(i == 0 ? "brains" : "halves",
                                                                   i == 0 ? sparse : dense));
                const auto pushed = std::span(keys).first(700);
                std::vector<float> values(pushed.size() * table.width());
                for (int step = 0; step < count; ++step) {
                    for (size_t k = 0; k < values.size(); ++k)
                        values[k] = 0.001F * static_cast<float>(k % 101) - 0.03F;
                    WEIR_TRY(table.push(pushed, values).wait());
                }
                all[i].resize(keys.size() * table.row_bytes());
                WEIR_TRY(table.pull_rows(keys, all[i]).wait());
            }
            return all;
        };
        JobOptions options = job_options(1, 2, 1);
        options.checkpoint_folder = folder.path();
        std::array<Rows, 2> drawn;  // as of the checkpoint
        const auto run = [&](int count) {
            return start_job(options)->run_workers([&](Client& client) -> Status {
                WEIR_ASSIGN(drawn, train(client, count));
                return client.checkpoint().has_value() ? Status() : Error(Errc::kIo, "none");
            });
        };
        const auto goes_on = [&](uint32_t servers, int count, std::array<Rows, 2>& rows) {
            JobOptions later = job_options(servers, 3, 1);
            later.resume = folder.path();
            return start_job(later)->run_workers([&](Client& client) -> Status {
                WEIR_ASSIGN(rows, train(client, count));
                return {};
            });
        };
        std::array<Rows, 2> rows;
        CHECK(run(3));
        CHECK(goes_on(2, 0, rows));
        CHECK(rows == drawn);
        // To the nearest nothing is drawn, so that jobs in other shapes compute the same.
        sparse.rounding = dense.rounding = Rounding::kNearest;
        std::filesystem::remove_all(folder.path());
        std::filesystem::create_directory(folder.path());
        CHECK(run(3));
        CHECK(goes_on(2, 2, rows));
        CHECK(goes_on(1, 2, drawn));
        CHECK(rows == drawn);
        std::filesystem::remove_all(folder.path());
        std::filesystem::create_directory(folder.path());
        CHECK(run(5));
        CHECK(rows == drawn);
    }

    TEST_CASE("one that is due by iterations is counted from the last one, whoever asked for it") {
        const NewFolder folder;
        const std::vector<double> ones(10, 1);
        TableOptions scratch = dense_options(10);
        scratch.in_checkpoints = false;
        JobOptions options = job_options(1, 2, 1);
        options.checkpoint_folder = folder.path();
        options.checkpoint_every_iterations = 100;
        options.resume = std::string(kResumeAuto);
        checkpoint::RealDisk disk;
        const auto push_up_to = [&](Table<double>& table, uint64_t last) -> Status {
            for (uint64_t i = *table.next_iteration(); i <= last; ++i)
                WEIR_TRY(table.push(KeyRange{0, 10}, ones, {.iteration = i}).wait());
            return {};
        };
        const auto newest = [&] {
            const auto numbers = checkpoint::list_checkpoints(disk, folder.path());
            return numbers->empty() ? 0 : numbers->back();
        };
        const auto stays_at = [&](uint64_t number) {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            CHECK(newest() == number);
        };
        const auto comes_to = [&](uint64_t number, uint64_t iteration) {
            REQUIRE(testing::wait_until(
                [&] { return newest() == number; },
                [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }));
            CHECK(checkpoint::read_manifest(disk, folder.path(), number)->iteration == iteration);
        };
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("sums", dense_options(10)));
            WEIR_ASSIGN(auto other, client.create_table<double>("scratch", scratch));
            WEIR_TRY(push_up_to(table, 50));
            CHECK(*client.checkpoint() == 1);
            WEIR_TRY(push_up_to(table, 149));
            WEIR_TRY(push_up_to(other, 400));
            stays_at(1);
            WEIR_TRY(push_up_to(table, 150));
            comes_to(2, 150);
            return {};
        }));
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("sums", dense_options(10)));
            WEIR_TRY(push_up_to(table, 249));
            stays_at(2);
            WEIR_TRY(push_up_to(table, 252));  // shards say how many in steps of 6
            comes_to(3, 252);
            return {};
        }));
    }

    TEST_CASE("what nobody has asked for is in later checkpoints, until it is forgotten") {
        const NewFolder first;
        const NewFolder second;
        const auto run = [](JobOptions options, const std::function<Status(Client&)>& work) {
            const Status ran = start_job(options)->run_workers(work);
            REQUIRE_MESSAGE(ran, ran.error().text());
        };
        const auto checkpoint = [](Client& client) -> Status {
            const Result<uint64_t> made = client.checkpoint();
            return made ? Status() : Status(made.error());
        };
        JobOptions options = job_options(1, 2, 1);
        options.checkpoint_folder = first.path();
        const std::vector<double> ones(10, 1);
        run(options, [&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("old", dense_options(10)));
            WEIR_TRY(table.push(KeyRange{0, 10}, ones).wait());
            return checkpoint(client);
        });
        options = job_options(2, 1, 1);
        options.checkpoint_folder = second.path();
        options.resume = first.path();
        run(options, [&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("new", dense_options(10)));
            WEIR_TRY(table.push(KeyRange{0, 10}, ones).wait());
            return checkpoint(client);
        });
        options.resume = std::string(kResumeAuto);  // now from the second folder
        run(options, [&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.open_table<double>("old"));
            std::vector<double> values(10);
            WEIR_TRY(table.pull(KeyRange{0, 10}, values).wait());
            CHECK(values == ones);
            CHECK(client.resumed_from()->tables.size() == 2);
            WEIR_TRY(client.forget_unread_tables());
            CHECK(client.open_table<double>("new").code() == Errc::kNotFound);
            return checkpoint(client);
        });
        run(options, [&](Client& client) -> Status {
            const auto from = client.resumed_from();
            REQUIRE(from->tables.size() == 1);
            CHECK(from->tables[0].name == "old");
            return {};
        });
    }

    TEST_CASE("a job goes on from an older checkpoint, and finds its tables there to the end") {
        const NewFolder folder;
        JobOptions options = job_options(1, 2, 1);
        options.checkpoint_folder = folder.path();
        const std::vector<double> ones(10, 1);
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("sums", dense_options(10)));
            for (uint64_t i = 1; i <= 3; ++i) {
                WEIR_TRY(table.push(KeyRange{0, 10}, ones).wait());
                CHECK(*client.checkpoint() == i);
            }
            return {};
        }));
        options.resume = folder.path();
        options.resume_number = 1;
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            CHECK(client.resumed_from()->checkpoint == 1);
            for (uint64_t i = 4; i <= 6; ++i)
                CHECK(*client.checkpoint() == i);  // of the newest three, 1 is none any more
            WEIR_ASSIGN(auto table, client.open_table<double>("sums"));
            std::vector<double> values(10);
            WEIR_TRY(table.pull(KeyRange{0, 10}, values).wait());
            CHECK(values == ones);
            CHECK(*client.checkpoint() == 7);
            return {};
        }));
        checkpoint::RealDisk disk;  // 2 and 3 are not what the job goes on with
        CHECK(*checkpoint::list_checkpoints(disk, folder.path()) ==
              std::vector<uint64_t>{2, 3, 5, 6, 7});
    }

    TEST_CASE("a table with a damaged chunk names the file and the flag for another checkpoint") {
        const NewFolder folder;
        JobOptions options = job_options(1, 1, 1);
        options.checkpoint_folder = folder.path();
        const std::vector<double> ones(10, 1);
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto table, client.create_table<double>("sums", dense_options(10)));
            for (uint64_t i = 1; i <= 2; ++i) {
                WEIR_TRY(table.push(KeyRange{0, 10}, ones).wait());
                CHECK(*client.checkpoint() == i);
            }
            return {};
        }));
        checkpoint::RealDisk disk;
        const std::string name =
            checkpoint::read_manifest(disk, folder.path(), 2)->chunks.front().name;
        {
            std::fstream file(folder.path() + "/" + name,
                              std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(70);
            file.put('\x5a');
        }
        options.resume = folder.path();
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            const auto table = client.open_table<double>("sums");
            CHECK(table.code() == Errc::kParse);
            const std::string& text = table.error().text();
            CAPTURE(text);
            CHECK(text.find(folder.path() + "/" + name) != std::string::npos);
            CHECK(text.find("`resume` " + folder.path() + " `resume_number` 1 ") !=
                  std::string::npos);
            return {};
        }));
    }

    TEST_CASE("a folder that is gone costs the checkpoints of that time, and no more") {
        const NewFolder folder;
        JobOptions options = job_options(1, 2, 1);
        options.checkpoint_folder = folder.path();
        const std::vector<double> ones(10, 1);
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            WEIR_ASSIGN(auto changing, client.create_table<double>("changing", dense_options(10)));
            WEIR_ASSIGN(auto same, client.create_table<double>("same", dense_options(10)));
            WEIR_TRY(same.push(KeyRange{0, 10}, ones).wait());
            const auto push = [&] { return changing.push(KeyRange{0, 10}, ones).wait(); };
            WEIR_TRY(push());
            CHECK(*client.checkpoint() == 1);
            std::filesystem::remove_all(folder.path());
            const testing::LogLines log;
            for (int i = 0; i < 2; ++i) {
                WEIR_TRY(push());
                const auto failed = client.checkpoint();
                REQUIRE_FALSE(failed);
                CHECK(failed.code() == Errc::kNotFound);
                CHECK(failed.error().text().find(folder.path()) != std::string::npos);
            }
            CHECK(log.count("there is no new checkpoint, and the job goes on: " + folder.path()) ==
                  2);
            REQUIRE(std::filesystem::create_directory(folder.path()));
            WEIR_TRY(push());
            const auto whole = client.checkpoint();
            REQUIRE_MESSAGE(whole, whole.error().text());
            using Kind = JobEvent::Kind;
            WEIR_ASSIGN(const std::vector<JobEvent> events, client.take_events());
            REQUIRE(events.size() == 4);
            CHECK(events[0].kind == Kind::kCheckpoint);
            for (size_t i : {1, 2}) {
                CHECK(events[i].kind == Kind::kCheckpointFailed);
                CHECK(events[i].number == 0);
                CHECK(events[i].why.find(folder.path()) != std::string::npos);
            }
            // Its number is that of the first one, which is gone: both are told.
            CHECK(events[3].kind == Kind::kCheckpoint);
            CHECK(events[3].number == *whole);
            CHECK(events[3].why.empty());
            CHECK(client.take_events()->empty());
            return {};
        }));
        options = job_options(1, 1, 1);
        options.resume = folder.path();
        CHECK(start_job(options)->run_workers([&](Client& client) -> Status {
            std::vector<double> values(10);
            for (const auto& [name, value] : {std::pair("changing", 4.0), std::pair("same", 1.0)}) {
                WEIR_ASSIGN(auto table, client.open_table<double>(name));
                WEIR_TRY(table.pull(KeyRange{0, 10}, values).wait());
                CHECK(values == std::vector<double>(10, value));
            }
            return {};
        }));
    }

    TEST_CASE("a job without its folders does not start") {
        const NewFolder folder;
        const auto code_of = [&](const JobOptions& options) {
            return Job::start(options, small_pools()).code();
        };
        JobOptions options = job_options(1, 1, 1);
        options.resume = folder.path();
        CHECK(code_of(options) == Errc::kNotFound);
        options.resume = folder.path() + "/none";
        CHECK(code_of(options) == Errc::kNotFound);
        options.resume = std::string(kResumeAuto);
        CHECK(code_of(options) == Errc::kInvalidArgument);
        options.resume.clear();
        options.resume_number = 1;
        CHECK(code_of(options) == Errc::kInvalidArgument);
        options.resume_number = 0;
        options.checkpoint_every = std::chrono::seconds(1);
        CHECK(code_of(options) == Errc::kInvalidArgument);
        options.checkpoint_folder = folder.path() + "/none";
        CHECK(code_of(options) == Errc::kNotFound);
    }
}

}  // namespace weir::test
