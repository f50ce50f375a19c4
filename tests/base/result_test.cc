// SPDX-License-Identifier: Apache-2.0
#include "lib/base/result.h"

#include <cerrno>

#include <doctest/doctest.h>

TEST_SUITE("result") {
    using namespace weir;

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

    TEST_CASE("a message carries what the operating system said") {
        CHECK(Error(Errc::kIo, "open /nowhere", ENOENT).message() ==
              "open /nowhere: No such file or directory");
    }

    TEST_CASE("a copied status holds an error of its own") {
        Status first = Error(Errc::kIo, "text");
        const Status second = first;
        first = Status();
        CHECK(second.error().text() == "text");
        CHECK(first.has_value());
    }
}
