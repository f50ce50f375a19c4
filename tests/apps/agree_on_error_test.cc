// SPDX-License-Identifier: Apache-2.0
#include "lib/apps/agree_on_error.h"

#include <cerrno>

#include <doctest/doctest.h>

#include "tests/apps/memory_exchange.h"

namespace weir::apps {
namespace {

std::vector<Status> after_agreeing(std::vector<Status> outcomes) {
    const auto count = static_cast<uint32_t>(outcomes.size());
    test::MemoryServer server(count, 0);
    std::vector<std::thread> threads;
    for (uint32_t worker = 0; worker < count; ++worker) {
        threads.emplace_back([&, worker] {
            test::MemoryExchange exchange(server, worker);
            const Status status = agree_on_error(exchange, outcomes[worker]);
            WEIR_CHECK(status);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    return outcomes;
}

}  // namespace

TEST_SUITE("agree_on_error") {
    TEST_CASE("the first worker's error is everybody's, with code, text and errno") {
        const Error second(Errc::kParse, "t.svm:2:4: 17 letters, and more");
        const Error third(Errc::kIo, "another", ENOSPC);
        for (const Status& outcome : after_agreeing({Status(), second, third, Status()})) {
            REQUIRE_FALSE(outcome);
            CHECK(outcome.code() == Errc::kParse);
            CHECK(outcome.error().message() == second.message());
        }
        for (const Status& outcome : after_agreeing({Status(), Status(), third})) {
            REQUIRE_FALSE(outcome);
            CHECK(outcome.error().os_error() == ENOSPC);
            CHECK(outcome.error().message() == third.message());
        }
        const Error silent(Errc::kCancelled, "");
        CHECK(after_agreeing({silent})[0].code() == Errc::kCancelled);
    }

    TEST_CASE("where nobody has an error, all stay ok") {
        for (const Status& outcome : after_agreeing({Status(), Status()}))
            CHECK(outcome);
    }
}

}  // namespace weir::apps
