// SPDX-License-Identifier: Apache-2.0
/// \file
/// A process that embeds the library, as the tests of its edges want it: it sets nothing up for Weir,
/// starts two jobs one after the other, and says on its standard output that each of them worked.

#include <array>
#include <cstdio>

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

weir::Status run_job() {
    auto job = weir::Job::start(weir::JobOptions{.servers = 1, .workers = 1});
    if (!job) return std::move(job).error();
    auto client = (*job)->make_client(0);
    if (!client) return std::move(client).error();
    const weir::Status counted = count(*client);
    return counted ? client->leave() : counted;
}

}  // namespace

int main() {
    for (int job = 1; job <= 2; ++job) {
        const weir::Status done = run_job();
        std::printf("job %d: %s\n", job, done ? "ok" : done.error().message().c_str());
        if (!done) return 1;
    }
    return 0;
}
