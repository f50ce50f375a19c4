// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/memory/peer_regions.h"

#include <utility>

#include <fmt/core.h>

#include "lib/base/log.h"
#include "transport/shm/memory/regions.h"

namespace weir::transport::shm {

Status PeerRegions::add(const RegionNote& note, int fd) {
    if (note.access == 0 || note.access > static_cast<uint32_t>(Access::kRemote) ||
        note.length_bytes == 0 || note.base_address + note.length_bytes < note.base_address ||
        slot_of(note.key) >= kRegionsMax || tag_of(note.key) == 0 ||
        (note.has_fd != 0) != (fd >= 0)) {
        return Error(Errc::kProtocol, "it sent a malformed note about registered memory");
    }
    sweep();
    if (regions_.contains(note.key)) {
        return Error(Errc::kProtocol, "it sent a second note about the same registered memory");
    }
    if (regions_.size() >= limits_.regions_max) {
        return Error(
            Errc::kBusy,
            fmt::format(
                "it exposes more than {} regions, the limit of one peer: expose larger pieces",
                limits_.regions_max));
    }
    PeerRegion region;
    region.base_address = note.base_address;
    region.length_bytes = note.length_bytes;
    region.access = static_cast<Access>(note.access);
    if (fd >= 0) {
        if (note.length_bytes > limits_.mapped_bytes_max - mapped_bytes_) {
            return Error(Errc::kBusy,
                         fmt::format("it exposes more than {} bytes, the limit of one peer",
                                     limits_.mapped_bytes_max));
        }
        const bool writable = allows(region.access, Access::kRemoteWrite);
        Result<Mapping> mapped =
            map_received({fd, note.fd_offset, note.length_bytes, writable, false});
        if (mapped) {
            region.mapping = *std::move(mapped);
            mapped_bytes_ += note.length_bytes;
        } else if (mapped.code() != Errc::kNoMemory) {
            return mapped.error();
        } else {  // a limit of this process; the kernel can copy it still
            log(LogLevel::kWarning,
                "shm: memory of a peer is copied through the kernel, which is slow, because it "
                "cannot be mapped: {}",
                mapped.error().message());
        }
    }
    regions_.emplace(note.key, std::move(region));
    return {};
}

const PeerRegion* PeerRegions::find(uint64_t key) noexcept {
    if (!is_live(live_page_.bytes(), key)) return nullptr;
    if (key == last_key_ && last_ != nullptr) return last_;
    const auto found = regions_.find(key);
    if (found == regions_.end()) return nullptr;
    last_key_ = key;
    last_ = &found->second;
    return last_;
}

void PeerRegions::sweep() {
    for (auto next = regions_.begin(); next != regions_.end();) {
        next = is_live(live_page_.bytes(), next->first) ? std::next(next) : retire(next);
    }
}

PeerRegions::Regions::iterator PeerRegions::retire(Regions::iterator found) {
    if (last_ == &found->second) last_ = nullptr;
    mapped_bytes_ -= found->second.mapping.bytes().size();
    if (found->second.mapping) retired_.push_back(std::move(found->second.mapping));
    return regions_.erase(found);
}

void PeerRegions::move_mappings(std::vector<Mapping>& to) {
    for (auto next = regions_.begin(); next != regions_.end();)
        next = retire(next);
    for (Mapping& mapping : retired_)
        to.push_back(std::move(mapping));
    retired_.clear();
}

}  // namespace weir::transport::shm
