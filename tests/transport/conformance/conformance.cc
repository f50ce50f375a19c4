// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/conformance.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "tests/transport/conformance/stage.h"
#include "tests/wait_until.h"

namespace weir::transport::conformance {

namespace {

std::vector<Backend>& registry() {
    static std::vector<Backend> backends;
    return backends;
}

/// The cases that WEIR_CONFORMANCE_CASES selects, or all.
std::vector<Case> collect_cases() {
    const char* const wanted = std::getenv("WEIR_CONFORMANCE_CASES");
    if (wanted != nullptr && *wanted != '\0') {
        REQUIRE_MESSAGE(std::string_view(wanted) == "deaths",
                        "WEIR_CONFORMANCE_CASES may be \"deaths\" only");
        return death_cases();
    }
    std::vector<Case> all;
    for (const auto& list :
         {connection_cases(), message_cases(), memory_cases(), interleaving_cases(),
          refusal_cases(), death_cases(), sleep_cases(), endurance_cases()}) {
        all.insert(all.end(), list.begin(), list.end());
    }
    return all;
}

}  // namespace

Usage own_usage() {
    Usage usage;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        usage.open_files += entry.is_symlink() ? 1 : 0;
    }
    std::ifstream statm("/proc/self/statm");
    size_t pages = 0;
    statm >> pages >> pages;
    usage.resident_bytes = pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return usage;
}

Fabric::~Fabric() {
    for (const MemoryBlock& block : made_) {
        munmap(block.bytes.data(), block.bytes.size());
        close(block.fd);
    }
}

MemoryBlock Fabric::make_memory(size_t /*process*/, size_t length_bytes) {
    const int fd = memfd_create("weir-conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    WEIR_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(length_bytes)) == 0);
    WEIR_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    void* const start = mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    WEIR_CHECK(start != MAP_FAILED);
    made_.push_back({{static_cast<std::byte*>(start), length_bytes}, fd, 0});
    return made_.back();
}

void Fabric::advance() {
    if (++advances_ % testing::kPollsPerYield == 0) std::this_thread::yield();
}

uint64_t Fabric::now_ns() const {
    return SteadyClock().now_ns();
}

Registration::Registration(std::string name, FabricFactory make) {
    registry().push_back({std::move(name), std::move(make)});
}

std::vector<Backend> registered_backends() {
    std::vector<Backend> backends = registry();
    std::sort(backends.begin(), backends.end(),
              [](const Backend& a, const Backend& b) { return a.name < b.name; });
    return backends;
}

std::span<const Case> cases() {
    static const std::vector<Case> all = collect_cases();
    return all;
}

void run_cases(const Backend& backend) {
    if (auto probe = backend.make(); !probe) {
        MESSAGE("SKIPPED: conformance of " << backend.name << ": " << probe.error().message());
        return;
    }
    for (const Case& one : cases()) {
        SUBCASE(one.sentence) {
            auto fabric = backend.make();
            REQUIRE_MESSAGE(fabric.has_value(), backend.name << " could be had only once");
            one.run(**fabric);
        }
    }
}

}  // namespace weir::transport::conformance
