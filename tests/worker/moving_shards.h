// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MovingShards: shards and a manager that a test plays against one real client. They follow the rules
/// of requests exactly, segments move between them, and every push is looked at.

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/key/key_list.h"
#include "lib/ring/view_change.h"
#include "lib/worker/client_core.h"
#include "tests/frames.h"
#include "tests/registered_memory.h"
#include "transport/fault/fault.h"
#include "transport/sim/network.h"

namespace weir::test {

/// What a segment takes along when it moves.
struct MovingSegment {
    std::map<uint32_t, std::map<uint64_t, uint64_t>> sums;  ///< by table, by key
    std::map<uint32_t, uint64_t> clock;                     ///< by table
    uint64_t closed = 0;                                    ///< the last iteration
};

/// Thread: one
class PlayedShard {
public:
    using Segments = std::map<uint64_t, MovingSegment>;  ///< by first position

    PlayedShard(uint32_t number, transport::Device& device, Random& random,
                const std::vector<PositionMap>& tables)
        : number_(number), random_(random), tables_(tables) {
        endpoint_ = std::move(device.make_endpoint({.message_bytes_max = 1024})).value();
    }

    [[nodiscard]] std::string address() const { return endpoint_->address(); }

    [[nodiscard]] uint32_t number() const noexcept { return number_; }

    [[nodiscard]] size_t poll() {
        std::array<transport::Completion, 16> completions;
        const size_t count = endpoint_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            if (c.event == transport::Event::kAccepted) sessions_[c.connection];
            if (c.event == transport::Event::kClosed) sessions_.erase(c.connection);
            if (c.event == transport::Event::kReceived) receive(c.connection, c.message);
        }
        return count + (random_.below(3) == 0 ? send_replies() : 0);
    }

    /// A view: what it does not own any more is moved out. `gets`: what it owns newly.
    Segments take(const View& view, Segments gets) {
        const ViewShard* const self = view.shard(number_);
        const uint64_t since = self == nullptr ? view.epoch() : self->since;
        const bool has_changed = since != since_;
        view_ = view;
        since_ = since;
        Segments lost;
        for (auto at = held_.begin(); at != held_.end();) {
            if (view.owner(at->first) == number_) {
                ++at;
            } else {
                lost.insert(held_.extract(at++));
            }
        }
        held_.merge(gets);
        if (has_changed) {
            for (auto& [connection, session] : sessions_) {
                for (auto& [table, order] : session.orders)
                    order.last = 0;
            }
            for (auto& [iteration, open] : std::exchange(open_, {})) {
                for (const auto& [name, part] : open.parts) {
                    if (!part.is_answered) reply(part.connection, part.request, Errc::kStaleEpoch);
                }
            }
        }
        std::vector<transport::ConnectionId> connections;
        for (const auto& [connection, session] : sessions_)
            connections.push_back(connection);
        for (const transport::ConnectionId connection : connections) {
            if (self == nullptr) {
                endpoint_->close(connection);
                sessions_.erase(connection);
                continue;
            }
            Session& session = sessions_[connection];
            while (!session.early.empty() && epoch_of(session.early.front()) <= view_.epoch()) {
                const Message message = std::move(session.early.front());
                session.early.pop_front();
                execute(connection, session, message);
            }
        }
        return lost;
    }

    [[nodiscard]] const Segments& held() const noexcept { return held_; }

    uint64_t repeats = 0;  ///< pushes that were acknowledged again
    uint64_t stale = 0;

private:
    struct Message {
        std::vector<std::byte> bytes;
        uint32_t number = 0;
    };

    static uint32_t epoch_of(const Message& message) {
        wire::Frame frame;
        REQUIRE(wire::decode(message.bytes, frame) == Errc::kOk);
        return frame.header.epoch;
    }

    struct Order {
        uint32_t received = 0;
        uint32_t last = 0;
    };

    struct Session {
        uint64_t hello = 0;
        std::map<uint32_t, Order> orders;
        std::deque<std::vector<std::byte>> replies;
        std::deque<Message> early;  ///< what has a later epoch, and all behind it
    };

    struct Part {
        transport::ConnectionId connection = 0;
        uint64_t request = 0;
        std::vector<uint64_t> keys;
        std::vector<uint64_t> values;
        bool is_answered = false;
    };

    struct Open {
        uint32_t announced = 0;
        std::map<std::pair<uint32_t, uint64_t>, Part> parts;  ///< by time and first
    };

    void receive(transport::ConnectionId connection, std::span<const std::byte> message) {
        wire::Frame frame;
        REQUIRE(wire::decode(message, frame) == Errc::kOk);
        const auto found = sessions_.find(connection);
        if (found == sessions_.end()) return;
        Session& session = found->second;
        const wire::FrameHeader& h = frame.header;
        if (h.kind == wire::Kind::kHello) {
            session.hello = h.request;
            for (auto at = sessions_.begin(); at != sessions_.end();) {
                if (at->second.hello == 0 || at->second.hello >= h.request) {
                    ++at;
                    continue;
                }
                endpoint_->close(at->first);
                at = sessions_.erase(at);
            }
            return;
        }
        if (h.kind == wire::Kind::kStats)
            return reply(connection, h.request, Errc::kOk, StatsMessage().encode());
        REQUIRE(wire::is_request(h.kind));
        const bool is_part = (h.flags & wire::kAggregate) != 0;
        const bool is_counted = h.kind == wire::Kind::kPush && !is_part;
        const uint32_t number = is_counted ? ++session.orders[h.table].received : 0;
        Message copy{{message.begin(), message.end()}, number};
        if (h.epoch > view_.epoch() || !session.early.empty()) {
            session.early.push_back(std::move(copy));
        } else {
            execute(connection, session, copy);
        }
    }

    void execute(transport::ConnectionId connection, Session& session, const Message& message) {
        wire::Frame frame;
        REQUIRE(wire::decode(message.bytes, frame) == Errc::kOk);
        const wire::FrameHeader& h = frame.header;
        is_cut_ = false;
        Errc status = Errc::kOk;
        std::vector<std::byte> body;
        if (h.epoch < since_) {
            status = Errc::kStaleEpoch;
            ++stale;
        } else if (h.kind == wire::Kind::kPull) {
            status = pull(connection, frame, body);
        } else if ((h.flags & wire::kAggregate) != 0) {
            if (!part(connection, frame, status)) return;
        } else {
            status = push(connection, frame, session.orders[h.table], message.number);
        }
        if (!is_cut_) reply(connection, h.request, status, body);
    }

    void reply(transport::ConnectionId connection, uint64_t request, Errc status,
               std::span<const std::byte> body = {}) {
        wire::FrameHeader header = testing::frame_header(wire::Kind::kReply, request);
        header.status = status;
        header.body_bytes = static_cast<uint32_t>(body.size());
        const auto session = sessions_.find(connection);
        if (session == sessions_.end()) return;
        const auto head = wire::bytes_of(header);
        std::vector<std::byte>& message = session->second.replies.emplace_back();
        message.assign(head.begin(), head.end());
        message.insert(message.end(), body.begin(), body.end());
    }

    size_t send_replies() {
        size_t sent = 0;
        for (auto& [connection, session] : sessions_) {
            while (!session.replies.empty()) {
                const std::array<std::span<const std::byte>, 1> parts{session.replies.front()};
                if (endpoint_->send(connection, parts) == transport::Post::kNotNow) break;
                session.replies.pop_front();
                ++sent;
            }
        }
        endpoint_->flush();
        return sent;
    }

    /// Nothing if it does not know them.
    std::optional<std::vector<uint64_t>> keys_of(transport::ConnectionId connection,
                                                 const wire::Frame& frame) {
        const wire::FrameHeader& h = frame.header;
        std::vector<uint64_t> keys(h.count);
        if ((h.flags & wire::kKeysRange) != 0) {
            for (uint32_t i = 0; i < h.count; ++i)
                keys[i] = h.first + i;
            return keys;
        }
        if ((h.flags & wire::kKeysKnown) != 0) {
            if (random_.below(8) == 0) known_.clear();
            const auto found = known_.find(h.first);
            if (found == known_.end()) return std::nullopt;
            return found->second;
        }
        if (h.count > 0) {
            const std::byte* from = frame.keys.data();
            if ((h.flags & wire::kKeysRemote) != 0)
                from = map(connection, frame.keys_at, transport::Access::kRemoteRead);
            if (from == nullptr) return std::nullopt;
            std::memcpy(keys.data(), from, h.count * sizeof(uint64_t));
        }
        known_[hash_key_list(keys)] = keys;
        return keys;
    }

    const std::byte* map(transport::ConnectionId connection, const wire::MemoryHandle& at,
                         transport::Access access) {
        const std::byte* const memory =
            endpoint_->map(connection, {at.address, at.length_bytes, at.key}, access);
        is_cut_ = is_cut_ || memory == nullptr;
        return memory;
    }

    std::vector<uint64_t> values_of(transport::ConnectionId connection, const wire::Frame& frame) {
        std::vector<uint64_t> values(frame.header.count);
        const std::byte* from = frame.values.data();
        if ((frame.header.flags & wire::kValuesRemote) != 0)
            from = map(connection, frame.values_at, transport::Access::kRemoteRead);
        if (!values.empty() && from != nullptr)
            std::memcpy(values.data(), from, values.size() * sizeof(uint64_t));
        return values;
    }

    MovingSegment& segment_of(uint32_t table, uint64_t key) {
        const auto after = held_.upper_bound(tables_[table].position(key));
        REQUIRE(after != held_.begin());
        REQUIRE(view_.owner(tables_[table].position(key)) == number_);
        return std::prev(after)->second;
    }

    Errc push(transport::ConnectionId connection, const wire::Frame& frame, Order& order,
              uint32_t number) {
        const wire::FrameHeader& h = frame.header;
        if (random_.below(20) == 0) return Errc::kBusy;
        if (h.predecessor() != order.last) return Errc::kAgain;
        const auto keys = keys_of(connection, frame);
        if (!keys) return Errc::kUnknownList;
        if (!keys->empty() && segment_of(h.table, keys->front()).clock[h.table] >= h.time) {
            ++repeats;
        } else {
            const std::vector<uint64_t> values = values_of(connection, frame);
            if (is_cut_) return Errc::kPeerLost;
            for (size_t i = 0; i < keys->size(); ++i)
                segment_of(h.table, (*keys)[i]).sums[h.table][(*keys)[i]] += values[i];
            for (const uint64_t key : *keys) {
                uint64_t& time = segment_of(h.table, key).clock[h.table];
                time = std::max<uint64_t>(time, h.time);
            }
        }
        order.last = number;
        return Errc::kOk;
    }

    Errc pull(transport::ConnectionId connection, const wire::Frame& frame,
              std::vector<std::byte>& body) {
        const wire::FrameHeader& h = frame.header;
        const auto keys = keys_of(connection, frame);
        if (!keys) return Errc::kUnknownList;
        std::vector<uint64_t> values;
        for (const uint64_t key : *keys)
            values.push_back(segment_of(h.table, key).sums[h.table][key]);
        const auto bytes = std::as_bytes(std::span(values));
        if ((h.flags & wire::kValuesInline) != 0) {
            body.assign(bytes.begin(), bytes.end());
        } else if (!bytes.empty()) {
            const wire::MemoryHandle& at = frame.values_at;
            std::byte* const to = endpoint_->map(connection, {at.address, at.length_bytes, at.key},
                                                 transport::Access::kRemoteWrite);
            is_cut_ = to == nullptr;
            if (to != nullptr) std::memcpy(to, bytes.data(), bytes.size());
        }
        return Errc::kOk;
    }

    [[nodiscard]] uint64_t base() const {
        uint64_t lowest = ~uint64_t{0};
        for (const auto& [first, segment] : held_)
            lowest = std::min(lowest, segment.closed);
        return lowest;
    }

    /// False: it is answered when its iteration is closed.
    bool part(transport::ConnectionId connection, const wire::Frame& frame, Errc& status) {
        const wire::FrameHeader& h = frame.header;
        REQUIRE(h.part_status == Errc::kOk);
        const auto keys = keys_of(connection, frame);
        if (!keys) {
            status = Errc::kUnknownList;
            return true;
        }
        const uint64_t closed = keys->empty() ? base() : segment_of(h.table, keys->front()).closed;
        if (base() >= h.iteration) return true;
        const std::vector<uint64_t> values = values_of(connection, frame);
        if (is_cut_) return true;
        Open& open = open_[h.iteration];
        if (!open.parts.empty()) REQUIRE(open.announced == h.parts);
        open.announced = h.parts;
        Part& part = open.parts[{h.time, h.first}];
        part = {connection, h.request, *keys, values};
        REQUIRE(open.parts.size() <= open.announced);
        part.is_answered = closed >= h.iteration;  // it counts all the same
        const bool is_answered = part.is_answered;
        close_iterations(h.table);
        return is_answered;
    }

    void close_iterations(uint32_t table) {
        while (!open_.empty()) {
            const auto& [iteration, open] = *open_.begin();
            if (iteration != base() + 1 || open.parts.size() != open.announced) return;
            for (const auto& [name, part] : open.parts) {
                for (size_t i = 0; i < part.keys.size(); ++i) {
                    MovingSegment& segment = segment_of(table, part.keys[i]);
                    if (segment.closed < iteration)
                        segment.sums[table][part.keys[i]] += part.values[i];
                }
            }
            for (auto& [first, segment] : held_)
                segment.closed = std::max(segment.closed, iteration);
            for (const auto& [name, part] : open.parts) {
                if (!part.is_answered) reply(part.connection, part.request, Errc::kOk);
            }
            open_.erase(open_.begin());
        }
    }

    uint32_t number_;
    Random& random_;
    Segments held_;
    const std::vector<PositionMap>& tables_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    View view_;
    uint64_t since_ = 0;
    std::map<transport::ConnectionId, Session> sessions_;
    std::map<uint64_t, std::vector<uint64_t>> known_;
    std::map<uint64_t, Open> open_;
    bool is_cut_ =
        false;  ///< the memory of the request cannot be reached: its connection is about to close
};

}  // namespace weir::test
