// SPDX-License-Identifier: Apache-2.0
#include "lib/base/result.h"

#include <cerrno>
#include <string>

#include <doctest/doctest.h>

#include "tests/last_words.h"

TEST_SUITE("result") {
    using namespace weir;
    using testing::last_words;

    static Status half(int value) {
        if (value % 2 != 0) return Error(Errc::kInvalidArgument, "odd");
        return {};
    }

    static Result<int> halved(int value) {
        WEIR_TRY(half(value));
        return value / 2;
    }

    static Result<int> quartered(int value) {
        WEIR_ASSIGN(const int once, halved(value));
        return halved(once);
    }

    TEST_CASE("an error passes through WEIR_TRY and WEIR_ASSIGN unchanged") {
        CHECK(*quartered(8) == 2);
        CHECK(quartered(6).code() == Errc::kInvalidArgument);
        CHECK(quartered(7).error().text() == "odd");
    }

    TEST_CASE("a message contains the text of the operating system's error") {
        CHECK(Error(Errc::kIo, "open /nowhere", ENOENT).message() ==
              "open /nowhere: No such file or directory");
    }

    TEST_CASE("the value of an error prints the error, and where it was not checked") {
        const Result<int> wrong(Error(Errc::kIo, "open /nowhere", ENOENT));
        const int line = __LINE__ + 1;
        const std::string said = last_words([&] { (void)wrong.value(); });
        CHECK(said.find("weir: open /nowhere: No such file or directory\n") == 0);
        CHECK(said.find("did not check") != std::string::npos);
        CHECK(said.find("result_test.cc:" + std::to_string(line)) != std::string::npos);
        CHECK(said.find("report this") == std::string::npos);
        CHECK(last_words([&] { (void)*wrong; }).find("weir: open /nowhere") == 0);
        const std::string none = last_words([] { (void)Status().error(); });
        CHECK(none.find("result_test.cc") != std::string::npos);
        CHECK(none.find("report this") == std::string::npos);
    }

    TEST_CASE("a copied status holds an error of its own") {
        Status first = Error(Errc::kIo, "text");
        const Status second = first;
        first = Status();
        CHECK(second.error().text() == "text");
        CHECK(first.has_value());
    }
}
