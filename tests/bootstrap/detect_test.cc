// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <doctest/doctest.h>
#include <fcntl.h>

#include "lib/bootstrap/bootstrap.h"
#include "tests/bootstrap/testing.h"

namespace weir {
namespace {

using Made = Result<std::unique_ptr<Bootstrap>>;

Made detect(Environment::Map variables, const std::map<std::string, std::string>& flags = {}) {
    static const SteadyClock clock;
    Config config{Environment(std::move(variables))};
    for (const auto& [flag, value] : flags) {
        if (flag == "--rendezvous") config.set_flag("WEIR_RENDEZVOUS", flag, value);
        if (flag == "--rank") config.set_flag("WEIR_RANK", flag, value);
        if (flag == "--size") config.set_flag("WEIR_SIZE", flag, value);
    }
    return detect_bootstrap(config, clock);
}

/// Whether it is an error that mentions all these words.
bool fails_with(const Made& made, std::initializer_list<std::string_view> words) {
    if (made) return false;
    INFO(made.error().text());
    return std::all_of(words.begin(), words.end(),
                       [&](std::string_view word) { return mentions(made.error().text(), word); });
}

}  // namespace

TEST_SUITE("bootstrap detect") {
    TEST_CASE("nothing said is a job of one") {
        CHECK(detect({}).value()->name() == "in-process");
        CHECK(detect({{"WEIR_SIZE", "1"}, {"WEIR_RANK", "0"}}).value()->name() == "in-process");
        CHECK(detect({{"SLURM_NTASKS", "8"}}).value()->name() == "in-process");
        // a batch script's own shell
        CHECK(detect({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).value()->name() ==
              "in-process");
    }

    TEST_CASE("rendezvous variables or flags with a rank make a rendezvous") {
        const auto other =
            detect({{"WEIR_RENDEZVOUS", "127.0.0.1:4000"}, {"WEIR_RANK", "1"}, {"WEIR_SIZE", "3"}});
        REQUIRE(other);
        CHECK(other.value()->name() == "rendezvous");
        CHECK(other.value()->rank() == 1);
        CHECK(other.value()->size() == 3);
        const auto flags =
            detect({{"WEIR_RANK", "1"}},
                   {{"--rendezvous", "127.0.0.1:4000"}, {"--rank", "2"}, {"--size", "4"}});
        REQUIRE(flags);
        CHECK(flags.value()->rank() == 2);
    }

    TEST_CASE("flags beat a launcher's variables, which fill in the rank") {
        const auto made = detect({{"PMIX_RANK", "1"},
                                  {"PMIX_NAMESPACE", "nowhere"},
                                  {"PMI_FD", "999"},
                                  {"SLURM_PROCID", "2"},
                                  {"SLURM_STEP_NUM_TASKS", "4"}},
                                 {{"--rendezvous", "127.0.0.1:4000"}});
        REQUIRE(made);
        CHECK(made.value()->name() == "rendezvous");
        CHECK(made.value()->rank() == 2);
        CHECK(made.value()->size() == 4);
    }

    TEST_CASE("the plan says how ranks meet, and what is known of their number") {
        using Way = Meeting::Way;
        const auto plan = [](Environment::Map variables) {
            return plan_meeting(Config{Environment(std::move(variables))}).value();
        };
        CHECK(plan({}).way == Way::kAlone);
        CHECK_FALSE(plan({}).size.has_value());
        const Meeting meets = plan(
            {{"WEIR_RENDEZVOUS", "no.such.host:4000"}, {"WEIR_RANK", "1"}, {"WEIR_SIZE", "3"}});
        CHECK(meets.way == Way::kRendezvous);
        CHECK(meets.rank == 1);
        CHECK(meets.size == 3);
        const Meeting pmi1 = plan({{"PMI_FD", "999"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
        CHECK(pmi1.way == Way::kPmi1);
        CHECK(pmi1.size == 2);
        CHECK(plan({{"PMIX_NAMESPACE", "n"}, {"PMIX_RANK", "0"}}).way == Way::kPmix);
    }

    TEST_CASE("half a place is asked to be completed") {
        CHECK(fails_with(detect({}, {{"--rendezvous", "127.0.0.1:4000"}}), {"--rank", "--size"}));
        CHECK(fails_with(detect({{"WEIR_RENDEZVOUS", "h:1"}}), {"WEIR_RENDEZVOUS", "--rank"}));
        CHECK(fails_with(detect({}, {{"--size", "4"}, {"--rank", "1"}}), {"--rendezvous"}));
        CHECK(fails_with(detect({}, {{"--rank", "1"}}), {"--rank=1", "--size"}));
        CHECK(fails_with(detect({}, {{"--rank", "0"}}), {"--rank=0", "--size", "--rendezvous"}));
        CHECK(fails_with(detect({{"WEIR_RANK", "0"}}), {"WEIR_RANK=0", "--size"}));
    }

    TEST_CASE("a rank beyond the size and a bad address are refused") {
        CHECK(fails_with(
            detect({}, {{"--rendezvous", "127.0.0.1:4000"}, {"--rank", "4"}, {"--size", "4"}}),
            {"--rank=4", "0 to 3"}));
        CHECK(fails_with(detect({}, {{"--rendezvous", "here"}, {"--rank", "1"}, {"--size", "4"}}),
                         {"here", "HOST:PORT"}));
        CHECK(fails_with(detect({{"WEIR_RANK", "x"}}), {"WEIR_RANK=x"}));
    }

    TEST_CASE("ranks of a launcher without PMI are told how to start") {
        CHECK(fails_with(detect({{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
                         {"rank 2 of 4", "Slurm", "--mpi=pmix", "--rendezvous"}));
        CHECK(fails_with(detect({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
                         {"Open MPI"}));
    }

    TEST_CASE("a rank or a size by hand where the launcher gives both is asked to be left out") {
        const Environment::Map open_mpi = {{"PMIX_RANK", "0"},
                                           {"PMIX_NAMESPACE", "nowhere"},
                                           {"OMPI_COMM_WORLD_RANK", "0"},
                                           {"OMPI_COMM_WORLD_SIZE", "2"}};
        CHECK(fails_with(detect(open_mpi, {{"--rank", "0"}}),
                         {"--rank", "Open MPI", "leave", "--rendezvous"}));
        CHECK(fails_with(detect(open_mpi, {{"--size", "2"}}),
                         {"--size", "Open MPI", "leave", "--rendezvous"}));
    }

    TEST_CASE("a stale PMI_FD is refused, and no other file is written to") {
        const TemporaryFile file("untouched", 0600);
        const int fd = ::open(file.path().c_str(), O_RDWR);
        REQUIRE(fd >= 0);
        CHECK(fails_with(
            detect({{"PMI_FD", std::to_string(fd)}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}),
            {"PMI_FD", "unset"}));
        ::close(fd);
        std::string content;
        std::ifstream(file.path()) >> content;
        CHECK(content == "untouched");
        CHECK(fails_with(detect({{"PMI_FD", "7"}, {"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}),
                         {"PMI_RANK='2'", "PMI_SIZE='2'"}));
        CHECK(fails_with(detect({{"PMI_FD", "x"}}), {"PMI_FD=x"}));
    }
}

}  // namespace weir
