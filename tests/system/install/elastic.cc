// SPDX-License-Identifier: Apache-2.0
/// \file
/// Joining a running job, against an installed Weir: while one worker trains, another one and a
/// server join. The new worker takes part from the first iteration that it can; then both leave.
/// (The jobs here share a process; usually they do not.)

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>
#include <weir/weir.h>

namespace {

constexpr uint64_t kIterations = 400;
constexpr uint64_t kKeys = 1000;
constexpr weir::KeyRange kAll{0, kKeys};
const std::vector<int64_t> kOnes(kKeys, 1);

weir::Result<weir::Table<int64_t>> make_table(weir::Client& client) {
    weir::TableOptions options;
    options.layout = weir::Layout::kDense;
    options.key_count = kKeys;
    return client.create_table<int64_t>("counts", options);
}

/// This worker's iterations, from its first one on. Returns how many there were.
weir::Result<int64_t> count(weir::Client& client) {
    WEIR_ASSIGN(auto table, make_table(client));
    const uint64_t first = table.next_iteration().value_or(kIterations + 1);
    std::printf("worker %u begins with iteration %llu\n", client.worker(),
                static_cast<unsigned long long>(first));
    int64_t done = 0;
    for (uint64_t i = first; i <= kIterations; ++i, ++done) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the trainer's own work
        WEIR_TRY(table.push(kAll, kOnes, {.iteration = i}).wait());
    }
    return done;
}

/// Joins the job that wrote the file `contact`, with a server and a worker.
weir::Status join_and_count(const std::string& contact, int64_t& counted) {
    weir::JoinOptions options;
    options.contact = contact;
    options.shards = 2;
    options.workers = 1;
    WEIR_ASSIGN(const auto job, weir::Job::join(options));
    WEIR_TRY(job->run_workers([&](weir::Client& client) -> weir::Status {
        WEIR_ASSIGN(counted, count(client));
        return {};
    }));
    return job->serve([] { return true; });  // its server hands over what it holds, and ends
}

weir::Status train(weir::Client& client, const std::string& contact) {
    WEIR_ASSIGN(auto table, make_table(client));
    weir::Status joined;
    int64_t theirs = 0;
    std::thread other([&] { joined = join_and_count(contact, theirs); });
    const auto ours = count(client);
    other.join();
    WEIR_TRY(joined);
    if (!ours) return ours.error();
    std::vector<int64_t> seen(kKeys);
    WEIR_TRY(table.pull(kAll, seen).wait());
    std::printf("counted to %lld, of which the other one counted %lld\n",
                static_cast<long long>(seen[0]), static_cast<long long>(theirs));
    return seen == std::vector<int64_t>(kKeys, *ours + theirs)
               ? weir::Status()
               : weir::Status(weir::Error(weir::Errc::kProtocol, "a wrong sum"));
}

}  // namespace

int main() {
    weir::JobOptions options;
    options.shards_per_server = 2;
    options.contact_file = "elastic-contact." + std::to_string(::getpid());
    const weir::Status done = weir::run(
        options, [&](weir::Client& client) { return train(client, options.contact_file); });
    if (!done) std::fprintf(stderr, "elastic: %s\n", done.error().message().c_str());
    return done ? 0 : 1;
}
