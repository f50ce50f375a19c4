// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/lr_run.h"

#include <array>

#include <fmt/core.h>

#include "lib/apps/agree_on_error.h"
#include "lib/apps/client_exchange.h"
#include "lib/apps/lr_solver.h"
#include "lib/data/examples.h"
#include "lib/data/shortage.h"

namespace weir::apps {
namespace {

/// Workers that do not agree on these would wait for each other in vain.
Status check_same(BlockExchange& exchange, const LrRunOptions& options) {
    struct Flag {
        const char* name;
        double value;
    };

    const std::array<Flag, 5> flags{{
        {"--passes", static_cast<double>(options.solver.pass_count_max)},
        {"--tolerance", options.solver.tolerance},
        {"--blocks", static_cast<double>(options.solver.block_count)},
        {"--seed", static_cast<double>(options.solver.seed)},
        {"--test, number of files", static_cast<double>(options.test.size())},
    }};
    std::array<double, 2 * flags.size()> greatest;  // and the least, negative
    for (size_t i = 0; i < flags.size(); ++i) {
        greatest[2 * i] = flags[i].value;
        greatest[2 * i + 1] = -flags[i].value;
    }
    WEIR_TRY(exchange.max(greatest));
    for (size_t i = 0; i < flags.size(); ++i) {
        if (greatest[2 * i] == -greatest[2 * i + 1]) continue;
        return Error(Errc::kInvalidArgument,
                     fmt::format("the ranks have different flags ({}: from {} to {}); start all "
                                 "with the same",
                                 flags[i].name, -greatest[2 * i + 1], greatest[2 * i]));
    }
    return {};
}

/// What all workers left out.
Status sum_bad_lines(ClientExchange& exchange, const data::ReadReport& mine, BadLines& all) {
    std::array<double, 1> count{static_cast<double>(mine.bad_line_count)};
    WEIR_TRY(exchange.sum(count));
    if (count[0] == 0) return {};
    all.count = static_cast<uint64_t>(count[0]);
    Status first;
    if (!mine.first_bad_line.empty()) first = Error(Errc::kInvalidArgument, mine.first_bad_line);
    WEIR_TRY(agree_on_error(exchange, first));
    if (!first) all.first = first.error().text();
    return {};
}

/// What the workers' parts of the test files come to together. What is wrong with the files goes to
/// run.tested, everywhere; the model is none the worse for it.
Status test(Client& client, ClientExchange& exchange, const LrRunOptions& options, LrRun& run) {
    const data::Part part{exchange.worker_index(), exchange.worker_count()};
    Evaluation mine;
    run.tested = data::or_shortage([&]() -> Status {
        WEIR_ASSIGN(mine, evaluate(run.model, options.test, part, options.skip_bad));
        return {};
    });
    WEIR_TRY(client.barrier(std::chrono::hours(24)));  // as long as the longest part takes to read
    WEIR_TRY(agree_on_error(exchange, run.tested));
    if (!run.tested) return {};
    WEIR_TRY(sum_bad_lines(exchange, mine.read, run.bad_test_lines));
    std::array<double, 2> counts{static_cast<double>(mine.read.example_count),
                                 static_cast<double>(mine.correct_count)};
    WEIR_TRY(exchange.sum(counts));
    if (counts[0] == 0) {
        std::string text = "the test files have no examples: " + options.test[0];
        if (const BadLines& bad = run.bad_test_lines; bad.count > 0)
            text +=
                fmt::format("; {} bad lines were left out, the first: {}", bad.count, bad.first);
        run.tested = Error(Errc::kInvalidArgument, std::move(text));
        return {};
    }
    run.test_example_count = static_cast<uint64_t>(counts[0]);
    run.test_accuracy = counts[1] / counts[0];
    return {};
}

Status count(Client& client, ClientExchange& exchange, LrRun& run) {
    WEIR_ASSIGN(const ClientStats stats, client.stats());
    std::array<double, 2> sums{static_cast<double>(stats.bytes_copied),
                               static_cast<double>(stats.registered_bytes)};
    WEIR_TRY(exchange.sum(sums));
    run.bytes_sent = stats.servers_bytes_sent + stats.servers_bytes_received;
    run.bytes_copied = static_cast<uint64_t>(sums[0]) + stats.servers_bytes_copied;
    run.registered_bytes = static_cast<uint64_t>(sums[1]) + stats.servers_registered_bytes;
    return {};
}

}  // namespace

Result<LrRun> run_lr(Client& client, const LrRunOptions& options) {
    WEIR_ASSIGN(const std::unique_ptr<ClientExchange> exchange,
                ClientExchange::make(client, "lr", options.solver.l1));
    LrRun run;
    data::ReadOptions read;
    read.part = {client.worker(), client.worker_count()};
    read.thread_count = options.threads;
    read.skip_bad = options.skip_bad;
    WEIR_ASSIGN(data::Examples examples, data::read_libsvm(options.train, read));
    run.read = examples.report;
    // Reading takes as long as it takes, and longer here than there: only then do deadlines make
    // sense.
    WEIR_TRY(client.barrier(std::chrono::hours(24)));
    WEIR_TRY(check_same(*exchange, options));
    WEIR_ASSIGN(LrSolver solver, LrSolver::create(*exchange, std::move(examples), options.solver));
    run.data_bytes = solver.data_bytes();
    WEIR_ASSIGN(run.result, solver.solve());
    WEIR_ASSIGN(run.model, solver.model());
    WEIR_TRY(sum_bad_lines(*exchange, run.read, run.bad_lines));
    if (!options.test.empty()) WEIR_TRY(test(client, *exchange, options, run));
    WEIR_TRY(count(client, *exchange, run));
    WEIR_TRY(client.barrier(std::chrono::hours(24)));
    return run;
}

}  // namespace weir::apps
