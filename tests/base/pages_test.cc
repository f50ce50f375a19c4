// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine/pages.h"

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace weir;

namespace {

/// How many pages of `memory`, which begins at one, the kernel has.
size_t resident_pages(std::span<std::byte> memory) {
    const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((memory.size() + page_bytes - 1) / page_bytes);
    REQUIRE(::mincore(memory.data(), memory.size(), pages.data()) == 0);
    size_t count = 0;
    for (const unsigned char page : pages)
        count += page & 1;
    return count;
}

}  // namespace

TEST_SUITE("pages") {
    TEST_CASE("whole pages of populated memory are there, and no others") {
        const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
        constexpr size_t kPages = 20;
        void* const mapped = ::mmap(nullptr, kPages * page_bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(mapped != MAP_FAILED);
        const std::span<std::byte> memory(static_cast<std::byte*>(mapped), kPages * page_bytes);
        (void)::madvise(mapped, memory.size(), MADV_NOHUGEPAGE);
        populate(memory.subspan(1, page_bytes - 1));
        populate({});
        CHECK(resident_pages(memory) == 0);
        memory[3 * page_bytes] = std::byte{7};
        populate(memory.subspan(page_bytes - 1, 5 * page_bytes + 1));  // pages 1 to 5
        const size_t there = resident_pages(memory);
        const bool is_old_kernel = there == 1;  // before 5.14
        CHECK((there == 5 || is_old_kernel));
        CHECK(memory[3 * page_bytes] == std::byte{7});
        ::munmap(mapped, memory.size());
    }

    TEST_CASE("memory that is used from its beginning on is populated a few pages ahead") {
        if (::sysconf(_SC_PAGESIZE) != static_cast<long>(kPageBytes)) return;
        constexpr size_t kPages = 10;
        const size_t bytes = kPages * kPageBytes;
        void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        REQUIRE(mapped != MAP_FAILED);
        const std::span<std::byte> memory(static_cast<std::byte*>(mapped), bytes);
        (void)::madvise(mapped, bytes, MADV_NOHUGEPAGE);
        size_t populated = 0;
        const auto check = [&](size_t end, size_t pages) {
            populated = populate_up_to(memory, end, populated);
            CHECK(populated == pages * kPageBytes);
            const size_t there = resident_pages(memory);
            const bool is_old_kernel = there == 0;  // before 5.14
            CHECK((there == pages || is_old_kernel));
        };
        check(0, 0);
        check(1, 4);
        check(4 * kPageBytes, 4);
        check(4 * kPageBytes + 1, 8);
        check(3, 8);
        check(bytes, kPages);  // not beyond it
        CHECK(populate_up_to(memory, bytes + 1, populated) == populated);
        ::munmap(mapped, bytes);
    }

    TEST_CASE("page bytes begin at a page, and keep what is in them when they grow") {
        PageBytes bytes;
        for (size_t size = 1; size < 100'000; size = size * 3 + 1) {
            const size_t before = bytes.size();
            bytes.resize(size);
            CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kPageBytes == 0);
            CHECK((before == 0 || bytes[before - 1] == std::byte{5}));
            bytes.back() = std::byte{5};
        }
    }
}
