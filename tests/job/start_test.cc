// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a job takes from the machine before it has done anything.
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "lib/base/bytes.h"
#include "lib/base/config.h"
#include "lib/weir.h"

namespace weir {
namespace {

/// Memory that this process has taken for itself, tables among it: RssAnon of /proc/self/status.
uint64_t private_bytes_taken() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8)) * 1024;
    }
    return 0;
}

/// Memory behind the files of the workers' pools.
uint64_t shared_bytes_taken() {
    uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(file.path(), gone).string();

        struct stat state {};

        if (target.find("memfd:weir-worker") == std::string::npos) continue;
        if (stat(file.path().c_str(), &state) == 0)
            bytes += static_cast<uint64_t>(state.st_blocks) * 512;
    }
    return bytes;
}

}  // namespace

TEST_SUITE("start") {
    TEST_CASE("a job over shared memory takes little memory until it uses more") {
        JobOptions options;
        options.shards_per_server = 2;
        const uint64_t private_before = private_bytes_taken();
        REQUIRE(private_before > 0);
        const auto job =
            Job::start(options, Config(Environment(Environment::Map{{"WEIR_TRANSPORT", "shm"}})));
        REQUIRE(job.has_value());
        auto client = (*job)->make_client(0);
        REQUIRE(client.has_value());
        CHECK(shared_bytes_taken() > 0);
        // Each descriptor counts: shm keeps a copy of the one of the worker pool.
        CHECK(shared_bytes_taken() < 64 * kMiB);
        CHECK(private_bytes_taken() < private_before + 64 * kMiB);
        TableOptions dense;
        dense.layout = Layout::kDense;
        dense.key_count = 32 << 20;
        const auto table = client->create_table<float>("large", dense);
        REQUIRE(table.has_value());
        // 128 MiB, less what the tests before may give back to the system meanwhile.
        CHECK(private_bytes_taken() >= private_before + 112 * kMiB);
        CHECK(client->leave().has_value());
    }
}

}  // namespace weir
