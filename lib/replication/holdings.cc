// SPDX-License-Identifier: Apache-2.0
#include "lib/replication/holdings.h"

#include <algorithm>

#include <fmt/core.h>

#include "lib/base/check.h"

namespace weir {

PositionSet Holdings::in_role(std::initializer_list<Role> roles) const {
    std::vector<PositionRange> ranges;
    for (const Held& held : held_) {
        if (std::ranges::find(roles, held.role) != roles.end()) ranges.push_back(held.range);
    }
    return PositionSet(ranges);
}

Holdings::Held* Holdings::find(PositionRange range) noexcept {
    const auto found = std::ranges::find(held_, range, &Held::range);
    return found == held_.end() ? nullptr : &*found;
}

bool Holdings::is_dropping() const noexcept {
    return !is_settled_ && (drops_rows_ || std::ranges::any_of(held_, [](const Held& one) {
                                return one.role == Role::kDropped;
                            }));
}

bool Holdings::has(PositionRange range, Role role) const noexcept {
    const auto found = std::ranges::find(held_, range, &Held::range);
    return found != held_.end() && found->role == role;
}

/// The segments have changed: clocks and lists that refer to them follow.
void Holdings::hold(const std::vector<Held>& held) {
    held_ = held;
    std::ranges::sort(held_, {}, [](const Held& h) { return h.range.first; });
    std::vector<PositionRange> ranges;
    ranges.reserve(held_.size());
    for (const Held& one : held_) {
        WEIR_CHECK(ranges.empty() || ranges.back().last < one.range.first);
        ranges.push_back(one.range);
    }
    const SegmentList before = std::exchange(segments_, SegmentList(++generation_, ranges));
    for (const auto& table : tables_) {
        if (table != nullptr) table->clocks.adopt(before, segments_);
    }
    primary_ = in_role({Role::kPrimary});
    for (const auto& table : tables_) {
        if (table != nullptr) table->rows->serve(primary_);
    }
    is_settled_ = !drops_rows_ && std::ranges::all_of(held_, [](const Held& one) {
        return one.role == Role::kPrimary;
    });
}

void Holdings::begin(std::span<const PositionRange> segments) {
    std::vector<Held> held;
    for (const PositionRange range : segments)
        held.push_back({range, Role::kPrimary});
    hold(held);
}

Status Holdings::set_primary(std::span<const PositionRange> segments) {
    const PositionSet after(segments);
    const PositionSet may_serve =
        in_role({Role::kPrimary, Role::kLeaving, Role::kHandedOver, Role::kLearned});
    const PositionSet missing = after.without(may_serve);
    const bool has_tables =
        std::ranges::any_of(tables_, [](const auto& table) { return table != nullptr; });
    if (has_tables && !missing.ranges().empty()) {
        const PositionRange first = missing.ranges().front();
        return Error(Errc::kProtocol, fmt::format("this shard is to be primary of the positions "
                                                  "{:#x}..{:#x}, which it does not have, or not "
                                                  "whole",
                                                  first.first, first.last));
    }
    std::vector<Held> held;
    for (const PositionRange range : segments)
        held.push_back({range, Role::kPrimary});
    for (const Held& one : held_) {
        const PositionSet rest = PositionSet(std::span(&one.range, 1)).without(after);
        const Role role = one.role == Role::kPrimary ? Role::kLeaving : one.role;
        for (const PositionRange range : rest.ranges())
            held.push_back({range, role});
    }
    hold(held);
    return {};
}

void Holdings::hand_over() {
    for (Held& one : held_) {
        if (one.role == Role::kLeaving) one.role = Role::kHandedOver;
    }
}

void Holdings::let_go() {
    for (Held& one : held_) {
        if (one.role == Role::kHandedOver) one.role = Role::kDropped;
    }
}

bool Holdings::prepare(PositionRange range) {
    const PositionSet positions(std::span(&range, 1));
    size_t bytes = 0;
    return std::ranges::any_of(tables_, [&](const auto& table) {
        return table != nullptr && table->rows->prepare(positions, bytes);
    });
}

Status Holdings::learn(PositionRange range) {
    const PositionSet positions(std::span(&range, 1));
    if (drops_rows_ || positions.intersects(in_role({Role::kDropped})))
        return Error(Errc::kBusy, "rows are being dropped here");
    for (const Held& one : held_) {
        if (!positions.intersects(PositionSet(std::span(&one.range, 1)))) continue;
        return Error(Errc::kProtocol,
                     fmt::format("a segment at {:#x} is to be learned here that this shard has",
                                 range.first));
    }
    for (size_t i = 0; i < tables_.size(); ++i) {
        if (tables_[i] == nullptr) continue;
        Status held = tables_[i]->rows->hold(positions);
        if (held) continue;
        while (i-- > 0) {
            if (tables_[i] != nullptr) tables_[i]->rows->give_up(positions);
        }
        drops_rows_ = true;
        is_settled_ = false;
        return held;
    }
    std::vector<Held> held = held_;
    held.push_back({range, Role::kLearning});
    hold(held);
    return {};
}

bool Holdings::fill_some(PositionRange range) {
    const PositionSet positions(std::span(&range, 1));
    return std::ranges::any_of(tables_, [&](const auto& table) {
        return table != nullptr && table->rows->fill_some(positions);
    });
}

void Holdings::learned(PositionRange range) {
    Held* const held = find(range);
    if (held != nullptr && held->role == Role::kLearning) held->role = Role::kLearned;
}

bool Holdings::take_over(PositionRange range, uint64_t epoch) {
    Held* const held = find(range);
    if (held == nullptr || held->role != Role::kLearned || epoch < held->taken_over) return false;
    held->taken_over = epoch;
    return true;
}

void Holdings::unlearned(PositionRange range) {
    Held* const held = find(range);
    if (held != nullptr && held->role == Role::kLearned) held->role = Role::kLearning;
}

void Holdings::forget(PositionRange range) {
    Held* const held = find(range);
    const bool is_learned =
        held != nullptr && (held->role == Role::kLearning || held->role == Role::kLearned);
    if (is_learned) held->role = Role::kDropped;
}

bool Holdings::drop_some() {
    if (!is_dropping()) return false;
    bool any = give_up_dropped();
    if (!drops_rows_) return any;
    for (const auto& table : tables_) {
        if (table != nullptr && table->rows->drop_some()) return true;
    }
    drops_rows_ = false;
    hold(std::vector<Held>(held_));
    return true;
}

/// Whether the network reads rows of these positions. (Those of sparse tables are copied first.)
bool Holdings::is_read(PositionRange range) const {
    const PositionSet positions(std::span(&range, 1));
    for (const auto& table : tables_) {
        if (table == nullptr || !table->positions.is_dense()) continue;
        for (const KeyRange keys : positions.dense_keys(table->positions.key_count())) {
            if (table->is_read(keys)) return true;
        }
    }
    return false;
}

bool Holdings::give_up_dropped() {
    std::vector<PositionRange> dropped;
    std::vector<Held> kept;
    for (const Held& one : held_) {
        if (one.role == Role::kDropped && !is_read(one.range)) {
            dropped.push_back(one.range);
        } else {
            kept.push_back(one);
        }
    }
    if (dropped.empty()) return false;
    const PositionSet positions(dropped);
    WEIR_CHECK(!positions.intersects(primary_));
    for (const auto& table : tables_) {
        if (table == nullptr) continue;
        table->rows->give_up(positions);
        for (const PositionRange range : dropped)
            table->closed.drop(range);
    }
    drops_rows_ = true;
    hold(kept);
    return true;
}

}  // namespace weir
