// SPDX-License-Identifier: Apache-2.0
#include "lib/bootstrap/bootstrap.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "lib/bootstrap/identity.h"
#include "lib/bootstrap/secret.h"
#include "tests/bootstrap/testing.h"

namespace weir {

TEST_SUITE("bootstrap") {
    TEST_CASE("alone, what was put is seen after the exchange and not before") {
        const auto alone = make_bootstrap_alone();
        CHECK(alone->size() == 1);
        REQUIRE(alone->put("key", std::string("a\0b", 3)));
        CHECK(alone->get(0, "key").code() == Errc::kNotFound);
        REQUIRE(alone->exchange(0));
        CHECK(alone->get(0, "key").value() == std::string("a\0b", 3));
        CHECK(alone->get(1, "key").code() == Errc::kNotFound);
        CHECK(alone->finish());
    }

    TEST_CASE("keys and values beyond the limits are refused with the limit") {
        const auto alone = make_bootstrap_alone();
        CHECK(alone->put("k", std::string(Bootstrap::kValueBytesMax, 'x')));
        const Status status = alone->put("k", std::string(Bootstrap::kValueBytesMax + 1, 'x'));
        REQUIRE(status.code() == Errc::kInvalidArgument);
        CHECK(mentions(status.error().text(), "4097 bytes"));
        for (const std::string& key : {std::string(), std::string("a b"), std::string("a=b"),
                                       std::string("\n"), std::string(41, 'k')}) {
            CHECK(alone->put(key, "").code() == Errc::kInvalidArgument);
        }
    }

    TEST_CASE("a list of ranks reads like a sentence and stays short") {
        CHECK(boot::rank_list({3}) == "rank 3");
        CHECK(boot::rank_list({1, 3}) == "ranks 1 and 3");
        CHECK(boot::rank_list({1, 3, 7}) == "ranks 1, 3 and 7");
        CHECK(boot::rank_list(std::vector<uint32_t>(100, 5)) ==
              "ranks 5, 5, 5, 5, 5, 5, 5, 5 and 92 more");
    }

    TEST_CASE("a poll never lasts past the deadline, nor long without a look at the clock") {
        ManualClock clock;
        clock.set(10 * kSecond);
        CHECK(boot::poll_slice_ms(clock, 9 * kSecond) == 0);
        CHECK(boot::poll_slice_ms(clock, 10 * kSecond) == 0);
        CHECK(boot::poll_slice_ms(clock, 10 * kSecond + 1) == 1);
        CHECK(boot::poll_slice_ms(clock, 10 * kSecond + 30 * kMillisecond) == 30);
        CHECK(boot::poll_slice_ms(clock, ~uint64_t{0} - kSecond) == 100);
    }

    TEST_CASE("the identity of a job of one has the address given and a fresh secret") {
        const auto alone = make_bootstrap_alone();
        const auto one = exchange_identity(*alone, "10.0.0.1:7000", 0);
        const auto other = exchange_identity(*make_bootstrap_alone(), "", 0);
        REQUIRE(one);
        REQUIRE(other);
        CHECK(one->manager_address == "10.0.0.1:7000");
        CHECK(one->secret != other->secret);
    }
}

TEST_SUITE("bootstrap secret") {
    TEST_CASE("a file gives the same secret to everybody, whether or not it ends with a newline") {
        const TemporaryFile with("a secret of 23 letters.\n", 0600);
        const TemporaryFile without("a secret of 23 letters.", 0400);
        const TemporaryFile other("b secret of 23 letters.", 0600);
        const auto secret = read_secret_file(with.path());
        REQUIRE(secret);
        CHECK(*secret == read_secret_file(without.path()).value());
        CHECK(*secret != read_secret_file(other.path()).value());
    }

    TEST_CASE("a file that others can read is refused with the chmod to run") {
        const bool is_root = ::geteuid() == 0;
        for (const mode_t mode : {0640U, 0440U, 0604U, 0620U, 0610U, 0601U}) {
            const TemporaryFile file("a secret of 23 letters.", mode);
            if (is_root) REQUIRE(::chown(file.path().c_str(), 65534, 65534) == 0);
            const auto secret = read_secret_file(file.path());
            REQUIRE(secret.code() == Errc::kRefused);
            CHECK(mentions(secret.error().text(), "chmod 0600 " + file.path()));
        }
    }

    TEST_CASE("a file that root owns may be read by a group, as Kubernetes mounts it") {
        if (::geteuid() != 0) {
            MESSAGE("SKIPPED: only root can make a file of root's");
            return;
        }
        for (const mode_t mode : {0440U, 0640U, 0040U}) {
            const TemporaryFile file("a secret of 23 letters.", mode);
            REQUIRE(::chown(file.path().c_str(), 0, 65534) == 0);
            CHECK(read_secret_file(file.path()).has_value());
        }
        for (const mode_t mode : {0444U, 0460U, 0450U, 0441U}) {
            const TemporaryFile file("a secret of 23 letters.", mode);
            const auto secret = read_secret_file(file.path());
            REQUIRE(secret.code() == Errc::kRefused);
            CHECK(mentions(secret.error().text(), "chmod 0440 " + file.path()));
        }
    }

    TEST_CASE("a file that is missing, short, long or no file is refused by name") {
        const TemporaryFile small("short\n", 0600);
        const TemporaryFile big(std::string(kSecretFileBytesMax + 1, 'x'), 0600);
        CHECK(read_secret_file(small.path()).code() == Errc::kInvalidArgument);
        CHECK(read_secret_file(big.path()).code() == Errc::kInvalidArgument);
        CHECK(read_secret_file("/tmp").code() == Errc::kInvalidArgument);
        const auto missing = read_secret_file("/nonexistent/secret");
        REQUIRE(missing.code() == Errc::kNotFound);
        CHECK(mentions(missing.error().text(), "/nonexistent/secret"));
    }
}

}  // namespace weir
