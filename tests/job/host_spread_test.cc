// SPDX-License-Identifier: Apache-2.0
/// \file
/// Which ranks have managers, and what is said of jobs whose servers are on few hosts.

#include "lib/job/host_spread.h"

#include <algorithm>
#include <string_view>

#include <doctest/doctest.h>

#include "lib/job/managers.h"

namespace weir {
namespace {

using Ranks = std::vector<uint32_t>;

/// One letter for each rank: its host.
std::vector<std::string> hosts_of(std::string_view letters) {
    std::vector<std::string> hosts;
    for (const char letter : letters)
        hosts.push_back(std::string(1, letter) + " 11-22");
    return hosts;
}

Ranks chosen_ranks(std::string_view servers, uint32_t count) {
    return choose_manager_ranks(hosts_of(servers), count);
}

/// Of a job whose managers are where they are to be.
std::vector<std::string> warnings(std::string_view ranks, uint32_t servers, uint32_t managers,
                                  uint32_t replicas = 0) {
    return spread_warnings(hosts_of(ranks), servers,
                           chosen_ranks(ranks.substr(0, servers), managers), replicas);
}

bool says(const std::vector<std::string>& texts, std::string_view what) {
    return texts.size() == 1 && texts[0].find(what) != std::string::npos;
}

}  // namespace

TEST_SUITE("host_spread") {
    TEST_CASE("managers are on different hosts, if there are enough, whatever the order of ranks") {
        CHECK(chosen_ranks("aaaabbbbcccc", 3) == Ranks{0, 4, 8});
        CHECK(chosen_ranks("abcabcabc", 3) == Ranks{0, 1, 2});
        CHECK(chosen_ranks("aabca", 3) == Ranks{0, 2, 3});
        CHECK(chosen_ranks("abbbcdef", 5) == Ranks{0, 1, 4, 5, 6});
    }

    TEST_CASE("on fewer hosts each has as many as another one, but for one") {
        CHECK(chosen_ranks("aaaabbbb", 3) == Ranks{0, 1, 4});
        CHECK(chosen_ranks("aaaabbbbcccc", 5) == Ranks{0, 1, 4, 5, 8});
        CHECK(chosen_ranks("aaaabbbbcccc", 7) == Ranks{0, 1, 2, 4, 5, 8, 9});
        CHECK(chosen_ranks("aaab", 3) == Ranks{0, 1, 3});
        CHECK(chosen_ranks("aaaaa", 3) == Ranks{0, 1, 2});
    }

    TEST_CASE("the only one is in rank 0, and no more ranks have one than servers") {
        CHECK(chosen_ranks("ba", 1) == Ranks{0});
        CHECK(chosen_ranks("bab", 3) == Ranks{0, 1, 2});
        CHECK(chosen_ranks("ab", 3) == Ranks{0, 1});
    }

    TEST_CASE("a host with most managers is named, if the job has others") {
        CHECK(says(warnings("aaaabbbb", 4, 3),
                   "`managers` 3: 3 of them (ranks 0, 1, 2) are on one host, a, "));
        CHECK(
            says(warnings("aaaabbbb", 4, 3), "which are the first 4 ranks, over at least 3 hosts"));
        CHECK(says(warnings("aabb", 4, 3), "2 of them (ranks 0, 1) are on one host, a, "));
        CHECK(warnings("aabc", 4, 3).empty());
        CHECK(warnings("aaaabbbbcccc", 12, 5).empty());
        CHECK(warnings("aaaaaa", 4, 3).empty());
        CHECK(warnings("aabb", 2, 1).empty());
    }

    TEST_CASE("copies that cannot be on another host are, if the job has others") {
        CHECK(says(warnings("aaabbb", 3, 1, 1), "`replicas` 1: all servers are on 1 host, "));
        CHECK(says(warnings("aabbcc", 4, 1, 2), "`replicas` 2: all servers are on 2 hosts, "));
        CHECK(says(warnings("aabbcc", 4, 1, 2), "over at least 3 hosts"));
        CHECK(warnings("aabbcc", 4, 1, 1).empty());
        CHECK(warnings("aaabbb", 3, 1, 0).empty());
        CHECK(warnings("aabb", 4, 1, 2).empty());
        CHECK(warnings("aaaa", 3, 1, 1).empty());
        CHECK(warnings("aaaabbbb", 4, 3, 1).size() == 2);
    }

    TEST_CASE("what a contact says of managers is read as it was written") {
        for (const std::vector<ManagerPlace>& places :
             {std::vector<ManagerPlace>{{0, "tcp:1"}},
              std::vector<ManagerPlace>{{0, "tcp:a@b"}, {4, "shm:x+tcp:y"}, {8, "c"}}}) {
            const auto read = Managers::split(Managers::join(places));
            REQUIRE(read.has_value());
            CHECK(*read == places);
        }
        for (const char* const text : {"", " ", "tcp:1", "0@", "@tcp:1", "x@tcp:1", "-1@tcp:1",
                                       "0@a 1", "0@a 1@b 2@c 3@d 4@e 5@f 6@g 7@h"}) {
            CAPTURE(text);
            CHECK(Managers::split(text).code() == Errc::kParse);
        }
    }
}

}  // namespace weir
