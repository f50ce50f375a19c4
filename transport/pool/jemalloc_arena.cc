// SPDX-License-Identifier: Apache-2.0
#include "transport/pool/jemalloc_arena.h"

#include <bit>

#include <fmt/core.h>
#include <jemalloc/jemalloc.h>

#include "lib/base/check.h"

// The functions of the private copy, renamed when it was made; its other symbols are local.
extern "C" {
void* weir_jemalloc_mallocx(size_t size, int flags) noexcept;
void weir_jemalloc_dallocx(void* memory, int flags) noexcept;
size_t weir_jemalloc_sallocx(const void* memory, int flags) noexcept;
int weir_jemalloc_mallctl(const char* name, void* old_value, size_t* old_bytes, void* new_value,
                          size_t new_bytes) noexcept;

/// The private copy calls this instead of secure_getenv(), so MALLOC_CONF does not change it.
char* weir_jemalloc_getenv(const char* /*name*/) {
    return nullptr;
}

/// Settings of the private copy, which it reads last. retain: unused extents go back to the
/// FirstFit, where they can serve pieces of any size. tcache: no thread uses a cache.
[[gnu::visibility("hidden")]] const char* weir_jemalloc_malloc_conf_2_conf_harder =
    "retain:false,tcache:false";
}

namespace weir::transport {
namespace {

/// The argument of "experimental.arenas_create_ext", which no public header declares.
struct ArenaConfig {
    extent_hooks_t* extent_hooks;
    bool metadata_use_hooks;
};

Error refusal(std::string_view what, int error) {
    return {Errc::kUnavailable, fmt::format("jemalloc refuses {}", what), error};
}

class Arena final : public JemallocArena {
public:
    explicit Arena(FirstFit& pieces) : pieces_(&pieces) {
        hooks_.table = {};  // hooks that are left out (purge, decommit) count as refused
        hooks_.table.alloc = &allocate_extent;
        hooks_.table.dalloc = &deallocate_extent;
        hooks_.table.split = [](extent_hooks_t*, void*, size_t, size_t, size_t, bool, unsigned) {
            return false;
        };
        hooks_.table.merge = &merge_extents;
        hooks_.arena = this;
    }

    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    ~Arena() override {
        if (!created_) return;
        static_cast<void>(weir_jemalloc_mallctl(fmt::format("arena.{}.destroy", index_).c_str(),
                                                nullptr, nullptr, nullptr, 0));
    }

    Status create() {
        ArenaConfig config{&hooks_.table,
                           false};  // peers may write here, so metadata stay elsewhere
        size_t index_bytes = sizeof(index_);
        int error = weir_jemalloc_mallctl("experimental.arenas_create_ext", &index_, &index_bytes,
                                          &config, sizeof(config));
        if (error != 0) return refusal("an arena", error);
        created_ = true;
        // Free extents go back to the FirstFit at once. There they are merged and serve pieces of
        // any size; pages that are registered cannot be given back to the system anyway.
        for (const char* const name : {"dirty_decay_ms", "muzzy_decay_ms"}) {
            ssize_t decay_ms = 0;
            error = weir_jemalloc_mallctl(fmt::format("arena.{}.{}", index_, name).c_str(), nullptr,
                                          nullptr, &decay_ms, sizeof(decay_ms));
            if (error != 0) return refusal(name, error);
        }
        return {};
    }

    std::byte* allocate(size_t size_bytes, size_t alignment) override {
        const int flags = MALLOCX_LG_ALIGN(std::countr_zero(alignment)) | this->flags();
        return static_cast<std::byte*>(weir_jemalloc_mallocx(size_bytes, flags));
    }

    void deallocate(std::byte* memory) override { weir_jemalloc_dallocx(memory, flags()); }

    size_t size_of(const std::byte* memory) const override {
        return weir_jemalloc_sallocx(memory, 0);
    }

private:
    struct Hooks {
        extent_hooks_t table;  // first: jemalloc hands back its address
        Arena* arena;
    };

    /// Without thread caches, so that destroying the arena frees all pieces.
    int flags() const noexcept {
        return MALLOCX_ARENA(static_cast<int>(index_)) | MALLOCX_TCACHE_NONE;
    }

    static FirstFit& pieces_of(extent_hooks_t* hooks) {
        return *reinterpret_cast<Hooks*>(hooks)->arena->pieces_;
    }

    // The names and argument lists are jemalloc's. NOLINTBEGIN(readability-function-size)
    static void* allocate_extent(extent_hooks_t* hooks, void* new_address, size_t size_bytes,
                                 size_t alignment, bool* zero, bool* commit, unsigned /*arena*/) {
        if (new_address != nullptr) return nullptr;  // growing in place is done by merging
        WEIR_CHECK(!*zero);  // no caller asks for zeroed memory; see allocate()
        const FirstFit::Piece piece = pieces_of(hooks).allocate(size_bytes, alignment);
        *commit = true;
        return piece.start;
    }

    static bool deallocate_extent(extent_hooks_t* hooks, void* address, size_t size_bytes,
                                  bool /*committed*/, unsigned /*arena*/) {
        pieces_of(hooks).deallocate(static_cast<std::byte*>(address), size_bytes);
        return false;  // done
    }

    static bool merge_extents(extent_hooks_t* hooks, void* a, size_t /*a_bytes*/, void* b,
                              size_t /*b_bytes*/, bool /*committed*/, unsigned /*arena*/) {
        return !pieces_of(hooks).same_stretch(static_cast<std::byte*>(a),
                                              static_cast<std::byte*>(b));
    }

    // NOLINTEND(readability-function-size)

    FirstFit* pieces_;
    Hooks hooks_{};
    unsigned index_ = 0;
    bool created_ = false;
};

}  // namespace

Result<std::unique_ptr<JemallocArena>> JemallocArena::make(FirstFit& pieces) {
    auto arena = std::make_unique<Arena>(pieces);
    WEIR_TRY(arena->create());
    return std::unique_ptr<JemallocArena>(std::move(arena));
}

}  // namespace weir::transport
