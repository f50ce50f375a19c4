// SPDX-License-Identifier: Apache-2.0
/// \file
/// What errors say of peers that are gone: why, and what is lost with them.

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lib/node/lost_ranges.h"
#include "lib/worker/peers/peers.h"
#include "transport/net/own_address.h"

namespace weir {

Error Peers::no_answer_from(std::string_view whom) const {
    return {Errc::kDeadline,
            fmt::format("no answer from {} within {} s; check that it runs and can be reached; {}",
                        whom, (clock_.now_ns() - standing_.started_ns()) / kSecond,
                        transport::kBindAdvice)};
}

Error Peers::with_cause(const Error& why, const Peer& peer) const {
    std::string text = why.text();
    if (!peer.loss.empty()) text += "; " + peer.loss;
    if (manager_end_) text = fmt::format("{}; {}", manager_end_->text(), text);
    return {why.code(), std::move(text)};
}

Error Peers::gone(const Peer& peer) const {
    if (&peer == &manager_ && manager_end_) return *manager_end_;
    return {Errc::kPeerLost,
            fmt::format("{} is gone: it died or the network to it is cut", peer.name)};
}

bool Peers::has_backups() const noexcept {
    return std::ranges::any_of(view_.segments(), [](const ViewSegment& segment) {
        return segment.backup_count() > 0 || segment.has_learner();
    });
}

std::string Peers::loss_of_server(uint32_t shard, std::span<const TableSchema> tables) const {
    const ViewShard* const lost = view_.shard(shard);
    if (lost == nullptr) return {};
    std::vector<PositionRange> ranges;
    double share = 0;
    for (size_t i = 0; i < view_.segments().size(); ++i) {
        const ViewSegment& segment = view_.segments()[i];
        std::vector<uint32_t> holders(segment.backups.begin(),
                                      segment.backups.begin() + segment.backup_count());
        holders.push_back(segment.primary);
        const auto is_its = [&](uint32_t holder) {
            const ViewShard* const one = view_.shard(holder);
            return one != nullptr && one->server == lost->server;
        };
        const auto is_gone = [&](uint32_t holder) {
            return is_its(holder) || view_.shard(holder) == nullptr || !shards_[holder].is_open();
        };
        if (std::ranges::none_of(holders, is_its) || !std::ranges::all_of(holders, is_gone))
            continue;
        ranges.push_back(view_.range(i));
        share += static_cast<double>(position_count(view_.data().segments, i)) * 0x1p-64;
    }
    if (ranges.empty()) return {};
    return fmt::format(
        "{:.3g} % of the parameters at least are lost with its server, because nobody else has "
        "them: {}",
        share * 100, lost_ranges(PositionSet(ranges), tables));
}

}  // namespace weir
