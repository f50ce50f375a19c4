// SPDX-License-Identifier: Apache-2.0
/// \file
/// Real jobs in this process whose parameters have copies.

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/weir.h"
#include "tests/job/small_job.h"

namespace weir::test {
namespace {

/// Slabs of the memory from which copies take rows that this process has mapped.
size_t lent_slabs() {
    std::ifstream maps("/proc/self/maps");
    size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        if (line.find("memfd:weir-lent") != std::string::npos) ++count;
    }
    return count;
}

TEST_SUITE("job copies") {
    TEST_CASE("copies take long rows from the memory of the primary, and short ones in messages") {
        JobOptions options;
        options.servers = 2;
        options.replicas = 1;
        const auto job = start_job(options);
        auto client = std::move(job->make_client(0)).value();
        constexpr uint64_t kKeys = 256 * 1024;
        auto table = std::move(client.create_table<float>("t", dense_options(kKeys))).value();
        const std::vector<float> ones(kKeys, 1.0F);
        CHECK(table.push(KeyRange{0, 16}, std::span(ones).first(16)).wait().has_value());
        CHECK(lent_slabs() == 0);
        CHECK(table.push(KeyRange{0, kKeys}, ones).wait().has_value());
        CHECK(lent_slabs() > 0);
        std::vector<float> found(kKeys);
        CHECK(table.pull(KeyRange{0, kKeys}, found).wait().has_value());
        CHECK(found[0] == 2.0F);
        CHECK(found[kKeys - 1] == 1.0F);
        CHECK(client.leave().has_value());
        CHECK(job->serve().has_value());
    }
}

}  // namespace
}  // namespace weir::test
