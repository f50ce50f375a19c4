// SPDX-License-Identifier: Apache-2.0
#include "lib/job/roles.h"

#include <doctest/doctest.h>

TEST_SUITE("roles") {
    using namespace weir;

    TEST_CASE("a rank alone is everything") {
        JobOptions options;
        options.servers = 2;
        options.workers = 3;
        const auto roles = plan_roles(options, 0, 1);
        REQUIRE(roles.has_value());
        CHECK(roles->local_servers == 2);
        CHECK(roles->shape.is_server);
        CHECK(roles->shape.worker_count == 3);
        CHECK(roles->shape.local_workers == 3);
    }

    TEST_CASE("the first ranks serve, the others work") {
        JobOptions options;
        options.servers = 2;
        const auto server = plan_roles(options, 1, 5);
        REQUIRE(server.has_value());
        CHECK(server->local_servers == 1);
        CHECK(server->first_server == 1);
        CHECK(server->shape.local_workers == 0);
        const auto worker = plan_roles(options, 4, 5);
        REQUIRE(worker.has_value());
        CHECK_FALSE(worker->shape.is_server);
        CHECK(worker->shape.first_worker == 2);
        CHECK(worker->shape.worker_count == 3);
        CHECK(worker->worker_ranks == std::vector<uint32_t>{2, 3, 4});
    }

    TEST_CASE("with colocate servers work too") {
        JobOptions options;
        options.servers = 2;
        options.colocate = true;
        const auto roles = plan_roles(options, 1, 2);
        REQUIRE(roles.has_value());
        CHECK(roles->shape.is_server);
        CHECK(roles->shape.first_worker == 1);
        CHECK(roles->shape.worker_count == 2);
    }

    TEST_CASE("copies lie on other servers, up to two of everything") {
        JobOptions options;
        options.servers = 3;
        options.replicas = 2;
        CHECK(plan_roles(options, 0, 4).has_value());
        options.servers = 2;
        const auto few = plan_roles(options, 0, 4);
        CHECK(few.code() == Errc::kInvalidArgument);
        CHECK(few.error().message().find("needs at least 3 servers") != std::string::npos);
        options.servers = 5;
        options.replicas = 3;
        CHECK(plan_roles(options, 0, 6).error().message().find("between 0 and 2") !=
              std::string::npos);
    }

    TEST_CASE("too few ranks and counts of zero are errors that say what to do") {
        JobOptions options;
        options.servers = 4;
        const auto few = plan_roles(options, 0, 4);
        CHECK(few.code() == Errc::kInvalidArgument);
        CHECK(few.error().message().find("at least 5 ranks") != std::string::npos);
        options.servers = 0;
        CHECK(plan_roles(options, 0, 1).error().message().find("`servers` 0") != std::string::npos);
    }
}
