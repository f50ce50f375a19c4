// SPDX-License-Identifier: Apache-2.0
/// \file
/// A process that embeds the library, as the tests of its edges want it: it sets nothing up for Weir,
/// starts two jobs one after the other, and says on its standard output that each of them worked. With
/// `tables COUNT`, one job on four shards makes that many sparse tables of three keys instead. With `reduce
/// stop|continue|reassign`, it is a rank of a job whose workers count each other by allreduce() until one has
/// been lost for a while.

#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lib/weir.h"

namespace {

weir::Status count(weir::Client& client) {
    weir::TableOptions options;
    options.layout = weir::Layout::kDense;
    options.key_count = 4;
    auto table = client.create_table<double>("counts", options);
    if (!table) return std::move(table).error();
    std::array<double, 4> values{1, 2, 3, 4};
    const weir::KeyRange all{0, 4};
    if (auto done = table->push(all, values, {}).wait(); !done) return done;
    values = {};
    if (auto done = table->pull(all, values, {}).wait(); !done) return done;
    return values[3] == 4 ? weir::Status() : weir::Error(weir::Errc::kProtocol, "another sum");
}

weir::Status fill_tables(weir::Client& client, uint64_t count) {
    std::vector<weir::Table<double>> tables;
    const std::array<uint64_t, 3> keys{1, uint64_t{1} << 40, ~uint64_t{0}};
    const std::array<double, 3> values{1, 2, 3};
    for (uint64_t i = 0; i < count; ++i) {
        auto table = client.create_table<double>("table " + std::to_string(i), {});
        if (!table) return std::move(table).error();
        if (auto done = table->push(keys, values, {}).wait(); !done) return done;
        tables.push_back(*std::move(table));
    }
    for (weir::Table<double>& table : tables) {
        std::array<double, 3> got{};
        if (auto done = table.pull(keys, got, {}).wait(); !done) return done;
        if (got != values) return weir::Error(weir::Errc::kProtocol, "other values");
    }
    return {};
}

/// Ends well a hundred calls after a worker was lost.
weir::Status count_workers(weir::Client& client, bool takes_work) {
    const auto all = static_cast<int32_t>(client.worker_count_at_start());
    bool has_work = false;
    for (int calls = 0, without = 0; without < 100; ++calls) {
        if (takes_work && !has_work) {
            auto share = client.take_work(8);
            if (!share) return std::move(share).error();
            has_work = true;
        }
        std::array<int32_t, 2> ones{1, 1};
        weir::Status counted = client.allreduce(ones);
        if (counted.code() == weir::Errc::kReassigned) {
            has_work = false;
            continue;
        }
        if (!counted) return counted;
        if (ones[0] < all && ++without == 1) std::fprintf(stderr, "%d workers count\n", ones[1]);
        if (calls == 100) std::fprintf(stderr, "they count\n");
    }
    return {};
}

std::string variable_of(std::string_view flag) {
    std::string name = "WEIR_";
    for (const char letter : flag.substr(2))
        name += static_cast<char>(std::toupper(letter));
    return name;
}

int reduce(std::string_view loss) {
    weir::JobOptions options{.servers = 1, .workers = 1};
    if (loss == "continue") options.on_worker_loss = weir::OnWorkerLoss::kContinue;
    if (loss == "reassign") options.on_worker_loss = weir::OnWorkerLoss::kReassign;
    const weir::Status done = weir::run(
        options, [&](weir::Client& client) { return count_workers(client, loss == "reassign"); });
    if (!done) std::fprintf(stderr, "error: %s\n", done.error().message().c_str());
    return done ? 0 : 1;
}

template <class Use>
weir::Status run_job(uint32_t shards, Use&& use) {
    weir::JobOptions options{.servers = 1, .workers = 1};
    options.shards_per_server = shards;
    auto job = weir::Job::start(options);
    if (!job) return std::move(job).error();
    auto client = (*job)->make_client(0);
    if (!client) return std::move(client).error();
    const weir::Status used = use(*client);
    return used ? client->leave() : used;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::string_view(argv[1]) == "tables") {
        const uint64_t tables = std::strtoull(argv[2], nullptr, 10);
        const weir::Status done =
            run_job(4, [&](weir::Client& client) { return fill_tables(client, tables); });
        std::printf("%s\n", done ? "ok" : done.error().message().c_str());
        return done ? 0 : 1;
    }
    if (argc == 9 && std::string_view(argv[1]) == "reduce") {
        for (int i = 3; i < argc; i += 2)                          // such as --rank 1
            setenv(variable_of(argv[i]).c_str(), argv[i + 1], 1);  // NOLINT(concurrency-mt-unsafe)
        return reduce(argv[2]);
    }
    for (int job = 1; job <= 2; ++job) {
        const weir::Status done = run_job(1, count);
        std::printf("job %d: %s\n", job, done ? "ok" : done.error().message().c_str());
        if (!done) return 1;
    }
    return 0;
}
