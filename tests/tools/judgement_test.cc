// SPDX-License-Identifier: Apache-2.0
#include "tools/weir/doctor/judgement.h"

#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

namespace weir::tools {
namespace {

using Level = Finding::Level;

/// A folder as the drivers of RDMA devices make it.
class Drivers {
public:
    Drivers() {
        std::string name = (std::filesystem::temp_directory_path() / "weir-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }

    ~Drivers() { std::filesystem::remove_all(path); }

    Drivers(const Drivers&) = delete;
    Drivers& operator=(const Drivers&) = delete;

    void add(const std::string& device, int port, const std::string& state,
             const std::string& rate) const {
        const std::filesystem::path at = path / device / "ports" / std::to_string(port);
        std::filesystem::create_directories(at);
        std::ofstream(at / "state") << state << '\n';
        std::ofstream(at / "rate") << rate << '\n';
    }

    std::filesystem::path path;
};

}  // namespace

TEST_SUITE("judgement") {
    TEST_CASE("the same version is not worth a word, and another patch a note") {
        CHECK(judge_versions("0.1.0", "0.1.0").empty());
        const auto patch = judge_versions("0.1.0", "0.1.12");
        REQUIRE(patch.size() == 1);
        CHECK(patch[0].level == Level::kNote);
        CHECK(patch[0].says ==
              "weir 0.1.12, and 0.1.0 here; they work together, but not in a job of several "
              "managers");
        CHECK_FALSE(patch[0].advice.empty());
    }

    TEST_CASE("another minor version is a problem") {
        for (const std::string_view there : {"0.2.0", "0.10.0", "1.1.0", "0.1", "0", ""}) {
            const auto minor = judge_versions("0.1.0", there);
            REQUIRE(minor.size() == 1);
            CHECK(minor[0].level == Level::kProblem);
            CHECK(minor[0].advice == "install weir 0.1 at both hosts");
        }
    }

    TEST_CASE("the rate of a link is that of the first active port of the device") {
        const Drivers drivers;
        drivers.add("mlx5_0", 1, "1: DOWN", "10 Gb/sec (4X)");
        drivers.add("mlx5_1", 1, "1: DOWN", "40 Gb/sec (4X QDR)");
        drivers.add("mlx5_1", 2, "4: ACTIVE", "100 Gb/sec (4X EDR)");
        drivers.add("mlx5_2", 1, "4: ACTIVE", "2.5 Gb/sec (1X SDR)");
        CHECK(link_rate(drivers.path, "").text == "100 Gb/sec (4X EDR)");
        CHECK(link_rate(drivers.path, "").bytes_per_s == doctest::Approx(12.5e9));
        CHECK(link_rate(drivers.path, "mlx5_2").bytes_per_s == doctest::Approx(0.3125e9));
        CHECK(link_rate(drivers.path, "mlx5_0").bytes_per_s == 0);
        CHECK(link_rate(drivers.path, "mlx5").bytes_per_s == 0);
        CHECK(link_rate(drivers.path / "nowhere", "").bytes_per_s == 0);
    }

    TEST_CASE("a rate that is no number of Gb/sec is none") {
        for (const char* const rate : {"", "fast", "100", "100 MB/s", "Gb/sec"}) {
            const Drivers drivers;
            drivers.add("mlx5_0", 1, "4: ACTIVE", rate);
            CHECK(link_rate(drivers.path, "").bytes_per_s == 0);
        }
    }

    TEST_CASE("verbs stands beside its link, and without one beside a TCP stream") {
        const LinkRate link{12.5e9, "100 Gb/sec (4X EDR)"};
        const Finding fast = judge_verbs(11e9, 3e9, link);
        CHECK(fast.level == Level::kGood);
        CHECK(fast.says == "11.00 GB/s, 0.88 of the 12.50 GB/s of the link, 100 Gb/sec (4X EDR)");
        const Finding slow = judge_verbs(3e9, 3e9, link);
        CHECK(slow.level == Level::kNote);
        CHECK_FALSE(slow.advice.empty());
        CHECK(judge_verbs(300e6, 600e6, {}).says ==
              "300.0 MB/s, 0.50 of the 600.0 MB/s of a plain TCP stream");
    }
}

}  // namespace weir::tools
