// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "tests/sanitizers.h"
#include "tests/transport/pool/limited_device.h"
#include "transport/pool/memory_pool.h"

TEST_SUITE("private_jemalloc") {
    using namespace weir::transport;

    /// The file with the definition that a call of `name` uses, or "".
    std::string definer(const char* name) {
        void* const symbol = dlsym(RTLD_DEFAULT, name);
        Dl_info info{};
        if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "";
        return info.dli_fname;
    }

    TEST_CASE("using a pool does not replace malloc, free and operator new of the process") {
        test::LimitedDevice device;
        Device* const devices[] = {&device};
        PoolOptions options;
        options.slab_bytes = options.slab_bytes_min = 4 << 20;
        options.huge_pages = HugePagePolicy::kNever;
        const auto pool = MemoryPool::make(options, devices);
        REQUIRE(pool);
        std::byte* const registered = (*pool)->allocate(1000);
        CHECK((*pool)->contains({registered, 1}));

        CHECK(definer("mallocx").empty());  // only a public jemalloc defines it
        CHECK(definer("mallctl").empty());
        CHECK(definer("malloc_stats_print").empty());
        for (const char* const name : {"malloc", "free", "realloc", "malloc_usable_size"}) {
            const std::string file = definer(name);
            CAPTURE(name);
            CAPTURE(file);
            // that of the C library, or of a sanitizer, which may be linked statically
            const bool theirs = file.find("libc.so") != std::string::npos;
            CHECK((theirs || weir::testing::kHasSanitizer));
        }
        void* const ordinary = std::malloc(1000);
        CHECK_FALSE((*pool)->contains({static_cast<std::byte*>(ordinary), 1}));
        std::free(ordinary);
    }

    TEST_CASE("statistics() names the allocator of the pool") {
        test::LimitedDevice device;
        Device* const devices[] = {&device};
        PoolOptions options;
        options.slab_bytes = options.slab_bytes_min = 4 << 20;
        for (const bool wanted : {true, false}) {
            options.use_jemalloc = wanted;
            const auto pool = MemoryPool::make(options, devices);
            REQUIRE(pool);
            const std::string books = (*pool)->statistics().bookkeeping;
            MESSAGE("books: " << books);
            if (!wanted) CHECK(books == "first fit (asked for)");
            if (wanted) CHECK((books == "jemalloc" || books.starts_with("first fit (this build")));
        }
    }
}
