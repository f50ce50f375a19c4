// SPDX-License-Identifier: Apache-2.0
#include "lib/data/shortage.h"

#include <vector>

#include <doctest/doctest.h>

TEST_SUITE("shortage") {
    using namespace weir;
    using namespace weir::data;

    TEST_CASE("what a function returns comes back as it is") {
        CHECK(*or_shortage([]() -> Result<int> { return 7; }) == 7);
        CHECK(or_shortage([] { return Status(Error(Errc::kParse, "bad")); }).code() ==
              Errc::kParse);
    }

    TEST_CASE("a lack of memory is an error that says what to do") {
        const Status status = or_shortage([]() -> Status { throw std::bad_alloc(); });
        CHECK(status.code() == Errc::kNoMemory);
        CHECK(status.error().message().find("use more workers") != std::string::npos);
        std::vector<char> list;
        const auto longer = or_shortage([&]() -> Result<int> {
            list.resize(list.max_size() + size_t{1});
            return 1;
        });
        CHECK(longer.code() == Errc::kNoMemory);
    }

    TEST_CASE("threads that do not start are an error with the system's message") {
        const Status status = or_shortage([]() -> Status {
            throw std::system_error(
                std::make_error_code(std::errc::resource_unavailable_try_again));
        });
        CHECK(status.code() == Errc::kNoMemory);
        CHECK(status.error().message().find("temporarily unavailable") != std::string::npos);
    }
}
