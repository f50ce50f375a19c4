// SPDX-License-Identifier: Apache-2.0
#include "lib/base/config.h"

#include <doctest/doctest.h>

namespace weir {
namespace {

Config with(Environment::Map values) {
    return Config(Environment(std::move(values)));
}

bool mentions(const std::string& text, std::string_view word) {
    return text.find(word) != std::string::npos;
}

}  // namespace

TEST_SUITE("config") {
    TEST_CASE("without flag and variable the default holds") {
        const Config config;
        CHECK(config.number("WEIR_JOIN_TIMEOUT_S").value() == 30);
        CHECK(config.choice("WEIR_TRANSPORT").value() == "auto");
        CHECK(config.source("WEIR_TRANSPORT") == ConfigSource::kDefault);
        CHECK_FALSE(config.optional_number("WEIR_RANK").value().has_value());
    }

    TEST_CASE("every default is allowed by its own variable") {
        CHECK(Config().check());
    }

    TEST_CASE("a choice without a default may be unset, but not wrong") {
        CHECK(Config().optional_choice("WEIR_COLOCATE").value().empty());
        CHECK(with({{"WEIR_COLOCATE", "yes"}}).optional_choice("WEIR_COLOCATE").value() == "yes");
        CHECK(with({{"WEIR_COLOCATE", "maybe"}}).check().code() == Errc::kInvalidArgument);
    }

    TEST_CASE("every variable has a meaning, and no name is listed twice") {
        for (const ConfigVariable& a : kConfigVariables) {
            CHECK(a.name.starts_with("WEIR_"));
            CHECK_FALSE(a.meaning.empty());
            for (const ConfigVariable& b : kConfigVariables)
                CHECK((&a == &b || a.name != b.name));
        }
    }

    TEST_CASE("a variable beats the default, and a flag beats the variable") {
        Config config = with({{"WEIR_RANK", "3"}});
        CHECK(config.optional_number("WEIR_RANK").value() == 3);
        CHECK(config.place("WEIR_RANK") == "WEIR_RANK");
        config.set_flag("WEIR_RANK", "--rank", "5");
        CHECK(config.optional_number("WEIR_RANK").value() == 5);
        CHECK(config.source("WEIR_RANK") == ConfigSource::kFlag);
        CHECK(config.place("WEIR_RANK") == "--rank");
    }

    TEST_CASE("the old name of a variable is read if the new one is not set, and errors name it") {
        Config config = with({{"WEIR_SERVICE_LEVEL", "3"}});
        CHECK(config.number("WEIR_RDMA_SERVICE_LEVEL").value() == 3);
        CHECK(config.source("WEIR_RDMA_SERVICE_LEVEL") == ConfigSource::kVariable);
        CHECK(config.place("WEIR_RDMA_SERVICE_LEVEL") == "WEIR_SERVICE_LEVEL");
        CHECK(config.unknown().empty());
        CHECK(with({{"WEIR_SERVICE_LEVEL", "3"}, {"WEIR_RDMA_SERVICE_LEVEL", "4"}})
                  .number("WEIR_RDMA_SERVICE_LEVEL")
                  .value() == 4);
        const Config bad = with({{"WEIR_SERVICE_LEVEL", "99"}});
        CHECK(mentions(bad.check().error().message(), "WEIR_SERVICE_LEVEL=99"));
    }

    TEST_CASE("an empty variable counts as unset, but an empty flag is an error") {
        Config config = with({{"WEIR_PORT", ""}});
        CHECK(config.number("WEIR_PORT").value() == 0);
        config.set_flag("WEIR_RANK", "--rank", "");
        CHECK_FALSE(config.optional_number("WEIR_RANK"));
    }

    TEST_CASE("a bad number is refused with variable, value and range") {
        for (const char* bad : {"65536", "-1", "12x", " 1", "0x10", "99999999999999999999"}) {
            CAPTURE(bad);
            const auto port = with({{"WEIR_PORT", bad}}).number("WEIR_PORT");
            REQUIRE_FALSE(port);
            CHECK(port.code() == Errc::kInvalidArgument);
            CHECK(mentions(port.error().text(), "WEIR_PORT"));
            CHECK(mentions(port.error().text(), bad));
            CHECK(mentions(port.error().text(), "0 to 65535"));
        }
    }

    TEST_CASE("a lease is a second, if it is not given, and 50 ms to a minute") {
        CHECK(Config().number("WEIR_LEASE_MS").value() == 1000);
        const auto lease = [](const char* value) {
            return with({{"WEIR_LEASE_MS", value}}).number("WEIR_LEASE_MS");
        };
        CHECK(lease("50").value() == 50);
        CHECK(lease("60000").value() == 60'000);
        for (const char* bad : {"49", "60001"}) {
            CAPTURE(bad);
            REQUIRE_FALSE(lease(bad));
            CHECK(lease(bad).code() == Errc::kInvalidArgument);
            CHECK(mentions(lease(bad).error().text(), std::string("WEIR_LEASE_MS=") + bad));
            CHECK(mentions(lease(bad).error().text(), "50 to 60000"));
        }
    }

    TEST_CASE("what is said of the lease names when a server is replaced") {
        const VariableRef lease = "WEIR_LEASE_MS";
        CHECK(mentions(std::string(lease->meaning), "1.25 times"));
    }

    TEST_CASE("a bad choice is refused with the words that are allowed") {
        for (const char* bad : {"udp", "sh", "shm|verbs", "SHM"}) {
            CAPTURE(bad);
            const auto transport = with({{"WEIR_TRANSPORT", bad}}).choice("WEIR_TRANSPORT");
            REQUIRE_FALSE(transport);
            CHECK(mentions(transport.error().text(), "one of auto, shm, verbs, tcp"));
        }
    }

    TEST_CASE("check() finds the bad value among many") {
        const Status status = with({{"WEIR_RANK", "1"}, {"WEIR_LOG", "loud"}}).check();
        REQUIRE_FALSE(status);
        CHECK(mentions(status.error().text(), "WEIR_LOG=loud"));
    }

    TEST_CASE("an unknown variable is listed with the nearest known name") {
        const auto unknown = with({{"WEIR_RNAK", "1"},
                                   {"WEIR_SOMETHING_ELSE", "1"},
                                   {"WEIRD", "1"},
                                   {"WEIR_LOG", "info"}})
                                 .unknown();
        REQUIRE(unknown.size() == 2);
        CHECK(unknown[0].name == "WEIR_RNAK");
        CHECK(unknown[0].nearest == "WEIR_RANK");
        CHECK(mentions(unknown[0].message(), "did you mean WEIR_RANK"));
        CHECK(unknown[1].nearest.empty());
    }

    TEST_CASE("a snapshot splits entries at the first equals sign and skips entries without one") {
        const char* const variables[] = {"A=1=2", "BROKEN", "EMPTY=", nullptr};
        const Environment environment = Environment::snapshot(variables);
        CHECK(environment.get("A") == "1=2");
        CHECK(environment.get("EMPTY").empty());
        CHECK(environment.values().size() == 2);
        CHECK(Environment::snapshot(nullptr).values().empty());
    }
}

}  // namespace weir
