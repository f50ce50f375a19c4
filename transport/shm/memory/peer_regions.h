// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// PeerRegions: the memory that the peer of one connection has exposed to us. It is mapped if its
/// descriptor came with it, and this process has room for it. Notes about it come over the
/// connection's socket; see RegionNote.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "lib/base/result.h"
#include "transport/shm/memory/shared_memory.h"
#include "transport/transport.h"

namespace weir::transport::shm {

/// First word of every packet on the socket of an open connection.
inline constexpr uint64_t kWakeMagic = 0x656b'6177'6d68'7377ULL;    // "wshmwake"
inline constexpr uint64_t kRegionMagic = 0x6e6f'6967'6572'7377ULL;  // "wsregion"

/// Tells a peer of a region once, before any message can carry its key. A descriptor comes with
/// it if the peer may map the region. Addresses in a RemoteSpan count from the start of its
/// region.
struct RegionNote {
    uint64_t magic = kRegionMagic;
    uint64_t key = 0;
    uint64_t base_address = 0;  ///< in the owner's process, for process_vm_readv
    uint64_t length_bytes = 0;
    uint64_t fd_offset = 0;
    uint32_t access = 0;
    uint32_t has_fd = 0;
};

static_assert(sizeof(RegionNote) == 48);

/// Limits on what one peer may make us map.
struct PeerLimits {
    uint32_t regions_max = 4096;
    uint64_t mapped_bytes_max = uint64_t{1} << 42;
};

struct PeerRegion {
    uint64_t base_address = 0;
    uint64_t length_bytes = 0;
    Access access = Access::kLocal;
    Mapping mapping;  ///< empty: only the kernel can copy it
};

/// Thread: the endpoint's.
class PeerRegions {
public:
    PeerRegions() = default;

    PeerRegions(Mapping live_page, const PeerLimits& limits)
        : live_page_(std::move(live_page)), limits_(limits) {}

    /// Takes a note. `fd` is -1 if no descriptor came with it.
    /// Errors: kProtocol, kBusy (over a limit), or those of map_received() but kNoMemory
    [[nodiscard]] Status add(const RegionNote& note, int fd);

    /// The region; nullptr if it is unknown, or if the peer has deregistered it.
    [[nodiscard]] const PeerRegion* find(uint64_t key) noexcept;

    /// Drops all regions that the peer has deregistered. Their mappings stay until
    /// unmap_retired().
    void sweep();

    /// Unmaps the regions that were dropped; until then their addresses stay valid.
    void unmap_retired() noexcept { retired_.clear(); }

    [[nodiscard]] bool has_retired() const noexcept { return !retired_.empty(); }

    /// Moves all mappings into `to`, to be unmapped later.
    void move_mappings(std::vector<Mapping>& to);

private:
    using Regions = std::unordered_map<uint64_t, PeerRegion>;

    Regions::iterator retire(Regions::iterator found);

    Mapping live_page_;
    PeerLimits limits_;
    Regions regions_;
    uint64_t mapped_bytes_ = 0;
    uint64_t last_key_ = 0;  ///< of the region found last, probably the next one
    const PeerRegion* last_ = nullptr;
    std::vector<Mapping> retired_;
};

}  // namespace weir::transport::shm
