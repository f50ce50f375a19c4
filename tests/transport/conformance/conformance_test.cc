// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/conformance.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <doctest/doctest.h>

namespace {

using namespace weir::transport::conformance;

/// The backends that WEIR_CONFORMANCE names, or all.
std::vector<Backend> chosen_backends() {
    std::vector<Backend> backends = registered_backends();
    const char* const wanted = std::getenv("WEIR_CONFORMANCE");
    if (wanted == nullptr || *wanted == '\0') return backends;
    std::vector<Backend> chosen;
    std::stringstream names(wanted);
    for (std::string name; std::getline(names, name, ',');) {
        const auto found = std::find_if(backends.begin(), backends.end(),
                                        [&](const Backend& b) { return b.name == name; });
        if (found == backends.end()) {
            FAIL("WEIR_CONFORMANCE names \"" << name << "\", which this build does not have");
        } else {
            chosen.push_back(*found);
        }
    }
    return chosen;
}

}  // namespace

TEST_SUITE("conformance") {
    TEST_CASE("every backend keeps the contract of transport.h") {
        const std::vector<Backend> backends = chosen_backends();
        REQUIRE_FALSE(backends.empty());
        for (const Backend& backend : backends) {
            SUBCASE(backend.name.c_str()) {
                run_cases(backend);
            }
        }
    }
}
