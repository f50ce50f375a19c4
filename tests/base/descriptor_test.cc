// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptor.h"

#include <cerrno>

#include <doctest/doctest.h>
#include <fcntl.h>

using weir::Descriptor;

namespace {

Descriptor any_file() {
    return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int fd) {
    return ::fcntl(fd, F_GETFD) != -1;
}

}  // namespace

TEST_SUITE("descriptor") {
    TEST_CASE("an owned descriptor is closed once, by the destructor") {
        int fd = -1;
        {
            Descriptor first = any_file();
            REQUIRE(first);
            fd = first.get();
            const Descriptor second(std::move(first));
            CHECK_FALSE(first);  // NOLINT: moved-from on purpose
            CHECK(second.get() == fd);
            CHECK(is_open(fd));
        }
        CHECK_FALSE(is_open(fd));
    }

    TEST_CASE("assignment closes the descriptor that was held before, at once") {
        Descriptor held = any_file();
        const int old = held.get();
        Descriptor other = any_file();
        const int kept = other.get();
        held = std::move(other);
        CHECK_FALSE(is_open(old));
        CHECK(held.get() == kept);
        CHECK(is_open(kept));
    }

    TEST_CASE("close() says how it went, once") {
        Descriptor held = any_file();
        const int fd = held.get();
        CHECK(held.close() == 0);
        CHECK_FALSE(held);
        CHECK_FALSE(is_open(fd));
        CHECK(held.close() == -1);
        CHECK(errno == EBADF);
    }

    TEST_CASE("an empty one is -1 and false") {
        Descriptor none;
        CHECK_FALSE(none);
        CHECK(none.get() == -1);
        none.reset();
    }
}
