// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// MoveCluster: shards on a simulated network, with a manager that is Membership and little else,
/// and workers that do just what a push needs while segments move.

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/manager/members/membership.h"
#include "lib/node/outbox.h"
#include "lib/server/shard.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/schema_codec.h"
#include "tests/frames.h"
#include "tests/registered_memory.h"
#include "tests/table_schemas.h"
#include "transport/fault/fault.h"
#include "transport/sim/network.h"

namespace weir::test {

struct MoveShape {
    uint32_t servers = 2;
    uint32_t shards = 1;  ///< of a server
    uint32_t workers = 2;
    uint32_t points = 4;  ///< segments of a shard
    uint32_t message_bytes_max = 1024;
    uint32_t backups = 0;                                 ///< of a segment
    std::shared_ptr<transport::Faults> faults = nullptr;  ///< of the servers' networks
};

class MoveCluster;

/// A worker that pushes int64 values, of which it has one piece at a time under way at each shard
/// and table. It keeps to the rules of ranges.md 3 and 4.
class MoveWorker {
public:
    MoveWorker(MoveCluster& cluster, uint32_t number, transport::Device& device);

    /// Adds `value` to each of the ascending keys, which must not be used together with ranges.
    void push(uint32_t table, std::vector<uint64_t> keys, int64_t value) {
        calls_.push_back({table, false, std::move(keys), value});
    }

    void push(uint32_t table, KeyRange keys, int64_t value) {
        calls_.push_back({table, true, {keys.begin, keys.end}, value});
    }

    void adopt(const View& view);
    size_t poll();

    [[nodiscard]] bool is_idle() const { return calls_.empty() && pieces_.empty(); }

    /// Calls fn(table, key, value) for every value that may have been added or not.
    template <class Fn>
    void for_open(Fn&& fn) const {
        const auto each = [&](const Call& call) {
            if (!call.is_range) {
                for (const uint64_t key : call.keys)
                    fn(call.table, key, call.value);
                return;
            }
            for (uint64_t key = call.keys[0]; key < call.keys[1]; ++key)
                fn(call.table, key, call.value);
        };
        for (const Call& call : calls_)
            each(call);
        for (const Piece& piece : pieces_)
            each(piece.is);
    }

    /// Breaks all connections.
    void break_connections() {
        for (auto& [shard, link] : links_)
            if (link.connection != 0) endpoint_->close(link.connection);
    }

    uint64_t answers = 0;
    uint64_t resent = 0;

private:
    struct Call {
        uint32_t table = 0;
        bool is_range = false;
        std::vector<uint64_t> keys;
        int64_t value = 0;
    };

    enum class State { kReady, kAway, kStale };

    struct Piece {
        Call is;
        uint64_t time = 0;
        uint64_t epoch = 0;
        uint32_t shard = 0;
        State state = State::kReady;
        bool was_sent = false;
        bool has_whole_list = false;
        uint64_t request = 0;
        uint32_t number = 0;
    };

    struct Chain {
        uint32_t sent = 0;
        uint32_t taken = 0;
    };

    struct Link {
        transport::ConnectionId connection = 0;
        bool is_open = false;
        uint64_t hello = 0;
        std::map<uint32_t, Chain> chains;
    };

    [[nodiscard]] PositionMap positions(uint32_t table) const;
    void cut(const Call& call, uint64_t time, bool by_segment, std::vector<Piece>& into);
    void cut_again();
    [[nodiscard]] bool send(Piece& piece);
    void answer(const wire::Frame& frame);
    [[nodiscard]] Link* link_of(transport::ConnectionId connection);

    MoveCluster& cluster_;
    uint32_t number_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    View view_;
    std::map<uint32_t, uint64_t> times_;  // by table
    std::deque<Call> calls_;
    std::vector<Piece> pieces_;
    std::map<uint32_t, Link> links_;  // by shard
    uint64_t requests_ = 0;
};

class MoveCluster {
public:
    MoveCluster(uint64_t seed, const MoveShape& shape, const transport::sim::Options& options = {})
        : network(seed, clock, options), random(seed), shape_(shape) {
        manager_ = endpoint(add_host());
        outbox_ = std::make_unique<Outbox>(*manager_);
        for (uint32_t i = 0; i < shape.servers; ++i)
            add_server();
        REQUIRE(run_until([&] { return joined_.size() == shards.size(); }));
        std::vector<NewServer> list;
        for (uint32_t i = 0; i < shape.servers; ++i) {
            NewServer server{.rank = i, .host = i};
            for (uint32_t s = 0; s < shape.shards; ++s)
                server.addresses.push_back(shards[i * shape.shards + s]->address());
            list.push_back(server);
        }
        ViewData data = first_view(list, shape.points)->data();
        for (uint32_t i = 0; i < shape.workers; ++i)
            data.workers.push_back({data.next_worker++, i, 1});
        membership = std::make_unique<Membership>(std::move(View::make(std::move(data))).value(),
                                                  MembershipOptions{.backup_count = shape.backups});
        for (uint32_t i = 0; i < shape.workers; ++i)
            workers.push_back(std::make_unique<MoveWorker>(*this, i, add_host()));
        act();
    }

    /// Starts a server that joins; its shards follow the others in number.
    void join_server(size_t memory_bytes = ~size_t{0}) {
        const size_t first = shards.size();
        add_server(memory_bytes);
        REQUIRE(run_until([&] { return joined_.size() + ended_shards == shards.size(); }));
        NewServer server{.rank = 9, .host = 100 + first};
        for (size_t s = first; s < shards.size(); ++s)
            server.addresses.push_back(shards[s]->address());
        REQUIRE(membership->join_server(first, server));
        act();
    }

    /// A server is gone, and its death is proved. Servers are hosts, in the order in which they came.
    void kill_server(uint32_t server) {
        kill_unnoticed(server);
        membership->server_died(server);
        act();
    }

    /// A server is gone, and nobody knows it yet.
    void kill_unnoticed(uint32_t server) {
        network.kill(hosts_[server]);
        for (const auto& [connection, shard] : std::map(joined_)) {
            if (shard / shape_.shards != server) continue;
            shards[shard] = nullptr;
            joined_.erase(connection);
            tables_asked_.erase(connection);
            ++ended_shards;
        }
    }

    void notice_death(uint32_t server) {
        membership->server_died(server);
        act();
    }

    void leave_server(uint32_t server) {
        REQUIRE(membership->leave_server(server));
        act();
    }

    /// It is told to leave, if it may. Returns whether it may.
    bool may_leave(uint32_t server) {
        const bool may = membership->leave_server(server).has_value();
        act();
        return may;
    }

    uint32_t make_table(TableSchema schema) {
        schema.id = static_cast<uint32_t>(schemas.size());
        schemas.push_back(schema);
        for (const auto& [connection, shard] : joined_) {
            // One that joins gets all tables with its first view.
            if (membership->view().shard(shard) == nullptr || new_shards_.contains(shard)) continue;
            send_table(connection, schema);
        }
        REQUIRE(run_until([&] { return tables_asked_.empty(); }));
        membership->add_table(schema.id);
        return schema.id;
    }

    bool step() {
        size_t done = poll_manager();
        for (auto& shard : shards)
            done += shard == nullptr || shard->finished() ? 0 : shard->poll();
        for (auto& worker : workers)
            done += worker == nullptr ? 0 : worker->poll();
        if (done > 0) return true;
        if (network.step()) return true;
        clock.advance(kMillisecond);
        return false;
    }

    template <class Over>
    [[nodiscard]] bool run_until(Over&& over, size_t idle_max = 20'000) {
        for (size_t idle = 0; idle < idle_max;) {
            if (over()) return true;
            if (!step()) ++idle;
        }
        return over();
    }

    /// Cuts what is between two servers for a while, so that their streams break.
    void break_streams() {
        const auto count = static_cast<uint32_t>(hosts_.size());
        const uint32_t a = hosts_[random.below(count)];
        const uint32_t b = hosts_[random.below(count)];
        if (a != b) break_between(a, b);
    }

    void break_between(transport::sim::HostId a, transport::sim::HostId b) {
        network.partition(a, b);
        const uint64_t until = clock.now_ns() + random.below(20 * kMillisecond);
        (void)run_until([&] { return clock.now_ns() >= until; });
        network.heal(a, b);
    }

    [[nodiscard]] bool is_quiet() const {
        bool all_idle = true;
        for (const auto& worker : workers)
            all_idle = all_idle && (worker == nullptr || worker->is_idle());
        return all_idle && membership->progress().segments_to_move == 0 &&
               !membership->has_losers();
    }

    [[nodiscard]] std::unique_ptr<transport::Endpoint> endpoint(transport::Device& device) {
        transport::EndpointOptions options;
        options.message_bytes_max = shape_.message_bytes_max;
        return std::move(device.make_endpoint(options)).value();
    }

    transport::Device& add_host(bool has_faults = false) {
        auto device = network.make_device(static_cast<uint32_t>(devices_.size()));
        if (has_faults && shape_.faults != nullptr)
            device = transport::inject_faults(std::move(device), shape_.faults);
        devices_.push_back(std::move(device));
        return *devices_.back();
    }

    ManualClock clock;
    transport::sim::Network network;
    Random random;
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    std::vector<TableSchema> schemas;
    std::unique_ptr<Membership> membership;
    uint64_t stopped = 0;   ///< messages kStopped
    uint64_t complete = 0;  ///< and kComplete
    uint64_t refused = 0;   ///< and those that say that there is no memory
    size_t ended_shards = 0;
    uint64_t kept = 0;      ///< leavers that stay
    bool has_loss = false;  ///< segments were lost

private:
    void add_server(size_t memory_bytes = ~size_t{0}) {
        hosts_.push_back(static_cast<uint32_t>(devices_.size()));
        transport::Device& device = add_host(true);
        memories_.push_back(std::make_unique<testing::RegisteredMemory>(
            device, transport::Access::kLocal, memory_bytes));
        for (uint32_t s = 0; s < shape_.shards; ++s) {
            ShardOptions options;
            options.number = static_cast<uint32_t>(shards.size());
            options.manager_address = manager_->address();
            shards.push_back(std::make_unique<Shard>(options, endpoint(device), clock,
                                                     *memories_.back(), rules));
        }
    }

    void send_table(transport::ConnectionId connection, const TableSchema& schema) {
        TableMessage message;
        message.table = schema.id;
        message.name = schema.name;
        message.schema = encode_schema(schema);
        outbox_->send(connection, testing::frame_header(wire::Kind::kCreateTable),
                      message.encode());
        tables_asked_.insert(connection);
    }

    [[nodiscard]] transport::ConnectionId connection_of(uint32_t shard) const {
        for (const auto& [connection, number] : joined_)
            if (number == shard) return connection;
        return 0;
    }

    void act() {
        for (const MembershipAction& action : membership->decide()) {
            if (const auto* send = std::get_if<SendView>(&action)) {
                for (const uint32_t shard : send->shards) {
                    const auto connection = connection_of(shard);
                    if (connection != 0) send_view(connection, *send->change);
                }
                if (!send->workers.empty()) {
                    for (auto& worker : workers) {
                        if (worker != nullptr) worker->adopt(membership->view());
                    }
                }
            } else if (const auto* release = std::get_if<ReleaseLosers>(&action)) {
                wire::FrameHeader header = testing::frame_header(wire::Kind::kStopped);
                header.first = release->epoch;
                for (const uint32_t shard : release->shards) {
                    const auto connection = connection_of(shard);
                    if (connection != 0) outbox_->send(connection, header);
                }
            } else if (const auto* admit = std::get_if<AdmitServer>(&action)) {
                for (uint32_t s = 0; s < shape_.shards; ++s)
                    new_shards_.insert(admit->first_shard + s);
            } else if (const auto* ended = std::get_if<EndServer>(&action)) {
                for (uint32_t s = 0; s < shape_.shards; ++s) {
                    const auto connection = connection_of(ended->server * shape_.shards + s);
                    if (connection == 0) continue;  // it was killed
                    outbox_->send(connection, testing::frame_header(wire::Kind::kShutdown));
                    joined_.erase(connection);
                    tables_asked_.erase(connection);
                    ++ended_shards;
                }
            } else if (std::holds_alternative<LostSegments>(action)) {
                has_loss = true;
            } else if (std::holds_alternative<KeepServer>(action)) {
                ++kept;
            } else {
                FAIL("membership wants what this manager cannot do");
            }
        }
    }

    void send_view(transport::ConnectionId connection, const ViewChange& change) {
        send_passes(connection);
        for (const auto& body : encode_parts(change, 900)) {
            outbox_->send(connection, testing::frame_header(wire::Kind::kView), body);
        }
        const uint32_t shard = joined_.at(connection);
        if (new_shards_.erase(shard) == 0) return;
        for (const TableSchema& schema : schemas)
            send_table(connection, schema);
    }

    /// Of all members that are here.
    void send_passes(transport::ConnectionId connection) {
        PassesMessage passes;
        const auto send = [&] {
            outbox_->send(connection, testing::frame_header(wire::Kind::kPasses), passes.encode());
            passes.passes.clear();
        };
        for (const ViewWorker& worker : membership->view().workers())
            passes.passes.push_back({false, worker.number, testing::kPass});
        for (const auto& [other, shard] : joined_) {
            if (passes.passes.size() == 50) send();
            passes.passes.push_back({true, shard, passes_.at(shard)});
        }
        send();
    }

    size_t poll_manager() {
        std::array<transport::Completion, 16> completions;
        const size_t count = manager_->poll(completions);
        for (const transport::Completion& c : std::span(completions).first(count)) {
            wire::Frame frame;
            if (c.event != transport::Event::kReceived) continue;
            REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
            if (frame.header.kind != wire::Kind::kJoin && !joined_.contains(c.connection)) continue;
            switch (frame.header.kind) {
                case wire::Kind::kJoin: {
                    const auto join = JoinMessage::decode(frame.values);
                    joined_[c.connection] = join->number;
                    passes_[join->number] = join->pass;
                    break;
                }
                case wire::Kind::kReply:
                    CHECK(frame.header.status == Errc::kOk);
                    tables_asked_.extract(c.connection);
                    break;
                case wire::Kind::kStopped:
                    ++stopped;
                    REQUIRE(membership->stopped(joined_.at(c.connection), frame.header.first));
                    act();
                    break;
                case wire::Kind::kComplete: {
                    const auto message = CompleteMessage::decode(frame.values);
                    REQUIRE(message);
                    const LearnerReport report{message->first, message->shard, message->named};
                    const uint32_t shard = joined_.at(c.connection);
                    const bool is_complete = frame.header.status == Errc::kOk;
                    ++(is_complete ? complete : refused);
                    REQUIRE((is_complete ? membership->learner_complete(shard, report)
                                         : membership->learner_refused(shard, report)));
                    act();
                    break;
                }
                default: FAIL("a frame that a manager does not get");
            }
        }
        return count + outbox_->flush();
    }

    MoveShape shape_;
    std::vector<transport::sim::HostId> hosts_;  // of servers
    std::vector<std::unique_ptr<transport::Device>> devices_;
    std::vector<std::unique_ptr<testing::RegisteredMemory>> memories_;
    std::unique_ptr<transport::Endpoint> manager_;
    std::unique_ptr<Outbox> outbox_;                      // of the manager
    std::map<transport::ConnectionId, uint32_t> joined_;  // shards
    std::map<uint32_t, uint64_t> passes_;                 // of shards
    std::set<uint32_t> new_shards_;                       // that have no tables yet
    std::multiset<transport::ConnectionId> tables_asked_;

public:
    std::vector<std::unique_ptr<Shard>> shards;
    std::vector<std::unique_ptr<MoveWorker>> workers;
};

inline MoveWorker::MoveWorker(MoveCluster& cluster, uint32_t number, transport::Device& device)
    : cluster_(cluster), number_(number), endpoint_(cluster.endpoint(device)) {}

inline PositionMap MoveWorker::positions(uint32_t table) const {
    const TableSchema& schema = cluster_.schemas[table];
    return schema.layout == Layout::kDense ? PositionMap::dense(schema.key_count)
                                           : PositionMap::sparse();
}

inline void MoveWorker::cut(const Call& call, uint64_t time, bool by_segment,
                            std::vector<Piece>& into) {
    const auto next_time = [&] { return time != 0 ? time : ++times_[call.table]; };
    Piece piece;
    piece.epoch = view_.epoch();
    if (call.is_range) {
        const auto split =
            view_.split_dense({call.keys[0], call.keys[1]}, positions(call.table).key_count(),
                              by_segment ? SplitBy::kSegment : SplitBy::kOwner);
        for (const OwnedKeys& part : split) {
            piece.is = {call.table, true, {part.keys.begin, part.keys.end}, call.value};
            piece.shard = part.owner;
            piece.time = next_time();
            into.push_back(piece);
        }
        return;
    }
    std::map<std::pair<uint32_t, size_t>, std::vector<uint64_t>> parts;
    for (const uint64_t key : call.keys) {
        const uint64_t position = positions(call.table).position(key);
        const size_t segment = by_segment ? view_.segment_index(position) : 0;
        parts[{view_.owner(position), segment}].push_back(key);
    }
    for (auto& [where, keys] : parts) {
        piece.is = {call.table, false, std::move(keys), call.value};
        piece.shard = where.first;
        piece.time = next_time();
        into.push_back(piece);
    }
}

inline void MoveWorker::adopt(const View& view) {
    for (const ViewShard& shard : view.shards()) {
        const ViewShard* const old = view_.shard(shard.number);
        if (old == nullptr || old->since == shard.since) continue;
        for (auto& [table, chain] : links_[shard.number].chains)
            chain.taken = 0;
    }
    view_ = view;
    for (auto& [number, link] : links_) {
        if (view_.shard(number) == nullptr && link.connection != 0)
            endpoint_->close(link.connection);
    }
    cut_again();
}

/// Pieces that are not under way, and whose shard has changed since they were cut.
inline void MoveWorker::cut_again() {
    std::vector<Piece> pieces;
    for (Piece& piece : pieces_) {
        const ViewShard* const shard = view_.shard(piece.shard);
        const bool is_old = shard == nullptr || shard->since > piece.epoch;
        if (is_old && piece.state != State::kAway) {
            cut(piece.is, piece.time, true, pieces);
        } else {
            pieces.push_back(piece);
        }
    }
    pieces_ = std::move(pieces);
}

inline size_t MoveWorker::poll() {
    std::array<transport::Completion, 16> completions;
    const size_t count = endpoint_->poll(completions);
    for (const transport::Completion& c : std::span(completions).first(count)) {
        if (c.event == transport::Event::kReceived) {
            wire::Frame frame;
            REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
            answer(frame);
        }
        Link* const link = link_of(c.connection);
        if (link == nullptr) continue;
        if (c.event == transport::Event::kConnected) {
            link->is_open = true;
            wire::FrameHeader header = testing::frame_header(wire::Kind::kHello, ++link->hello);
            header.first = number_;
            (void)testing::send_frame(*endpoint_, c.connection, header,
                                      HelloMessage{testing::kPass}.encode());
        }
        if (c.event == transport::Event::kClosed) {
            const auto found = std::find_if(links_.begin(), links_.end(), [&](const auto& entry) {
                return entry.second.connection == c.connection;
            });
            for (Piece& piece : pieces_) {
                if (piece.shard != found->first || piece.state != State::kAway) continue;
                piece.state = State::kReady;
                ++resent;
            }
            const uint64_t hellos = link->hello;
            *link = Link();
            link->hello = hellos;
            cut_again();
        }
    }
    size_t done = count;
    if (view_.epoch() == 0) return done;
    while (!calls_.empty() && pieces_.size() < 12) {
        cut(calls_.front(), 0, false, pieces_);
        calls_.pop_front();
    }
    std::stable_sort(pieces_.begin(), pieces_.end(), [&](const Piece& a, const Piece& b) {
        if (a.time != b.time) return a.time < b.time;
        return positions(a.is.table).position(a.is.keys[0]) <
               positions(b.is.table).position(b.is.keys[0]);
    });
    // Before pieces go where others of older views may have to go, too, those have to be back.
    const auto may_come_back = [&](const Piece& piece) {
        const ViewShard* const shard = view_.shard(piece.shard);
        return piece.state == State::kAway && (shard == nullptr || shard->since > piece.epoch);
    };
    if (std::ranges::any_of(pieces_, may_come_back)) return done;
    std::set<std::pair<uint32_t, uint32_t>> busy;  // shard, table
    for (Piece& piece : pieces_) {
        if (!busy.insert({piece.shard, piece.is.table}).second) continue;
        if (piece.state == State::kReady && send(piece)) ++done;
    }
    endpoint_->flush();
    return done;
}

inline bool MoveWorker::send(Piece& piece) {
    const ViewShard* const shard = view_.shard(piece.shard);
    if (shard == nullptr) return false;
    Link& link = links_[piece.shard];
    if (link.connection == 0) {
        link.connection = *endpoint_->connect(shard->address);
        return true;
    }
    if (!link.is_open) return false;
    Chain& chain = link.chains[piece.is.table];
    const Call& call = piece.is;
    wire::FrameHeader header = testing::frame_header(wire::Kind::kPush, ++requests_);
    header.table = call.table;
    header.epoch = static_cast<uint32_t>(piece.epoch);
    header.time = static_cast<uint32_t>(piece.time);
    header.value_type = static_cast<uint8_t>(ValueType::kInt64);
    header.set_predecessor(chain.taken);
    ByteWriter body;
    if (call.is_range) {
        header.flags = wire::kKeysRange | wire::kValuesInline;
        header.first = call.keys[0];
        header.count = static_cast<uint32_t>(call.keys[1] - call.keys[0]);
    } else {
        header.count = static_cast<uint32_t>(call.keys.size());
        const bool is_known = call.keys.size() >= kRememberedKeysMin && !piece.has_whole_list;
        if (is_known) {
            header.flags = wire::kKeysKnown | wire::kValuesInline;
            header.first = list_id(call.keys).hash;
            body.number(call.keys.front()).number(call.keys.back());
        } else {
            header.flags = wire::kKeysInline | wire::kValuesInline;
            body.raw(std::as_bytes(std::span(call.keys)));
        }
    }
    const uint32_t width = cluster_.schemas[call.table].width;
    for (uint32_t i = 0; i < header.count * width; ++i)
        body.number(call.value);
    header.body_bytes = static_cast<uint32_t>(body.bytes().size());
    const std::array parts{wire::bytes_of(header), body.bytes()};
    const transport::Post posted = endpoint_->send(link.connection, parts);
    REQUIRE(posted != transport::Post::kInvalid);
    if (posted != transport::Post::kPosted) return false;
    piece.state = State::kAway;
    piece.was_sent = true;
    piece.request = header.request;
    piece.number = ++chain.sent;
    return true;
}

inline void MoveWorker::answer(const wire::Frame& frame) {
    const auto piece = std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& p) {
        return p.state == State::kAway && p.request == frame.header.request;
    });
    if (piece == pieces_.end()) return;
    ++answers;
    switch (frame.header.status) {
        case Errc::kOk: {
            const ViewShard* const shard = view_.shard(piece->shard);
            if (shard != nullptr && piece->epoch >= shard->since)
                links_[piece->shard].chains[piece->is.table].taken = piece->number;
            pieces_.erase(piece);
            return;
        }
        case Errc::kUnknownList: piece->has_whole_list = true; [[fallthrough]];
        case Errc::kAgain:
        case Errc::kBusy:
            piece->state = State::kReady;
            ++resent;
            return cut_again();
        case Errc::kStaleEpoch:
            piece->state = State::kStale;
            ++resent;
            return cut_again();
        default: FAIL("a push was refused: " << to_string(frame.header.status));
    }
}

inline MoveWorker::Link* MoveWorker::link_of(transport::ConnectionId connection) {
    for (auto& [shard, link] : links_)
        if (link.connection == connection) return &link;
    return nullptr;
}

/// Reads the values of a table from whoever serves them in the newest view.
class MoveReader {
public:
    explicit MoveReader(MoveCluster& cluster)
        : cluster_(cluster), endpoint_(cluster.endpoint(cluster.add_host())) {}

    /// The first value of the key's row, by whichever worker number.
    [[nodiscard]] int64_t value(uint32_t table, uint64_t key) {
        const View& view = cluster_.membership->view();
        const TableSchema& schema = cluster_.schemas[table];
        const PositionMap map = schema.layout == Layout::kDense
                                    ? PositionMap::dense(schema.key_count)
                                    : PositionMap::sparse();
        const uint32_t shard = view.owner(map.position(key));
        transport::ConnectionId& connection = connections_[shard];
        if (connection == 0) {
            connection = *endpoint_->connect(view.shard(shard)->address);
            REQUIRE(run_until([&] { return is_open_; }));
            wire::FrameHeader hello = testing::frame_header(wire::Kind::kHello, 1000);
            (void)testing::send_frame(*endpoint_, connection, hello,
                                      HelloMessage{testing::kPass}.encode());
        }
        wire::FrameHeader header = testing::frame_header(wire::Kind::kPull, ++request_);
        header.flags = wire::kKeysInline | wire::kValuesInline;
        header.table = table;
        header.epoch = static_cast<uint32_t>(view.epoch());
        header.value_type = static_cast<uint8_t>(ValueType::kInt64);
        header.count = 1;
        answered_ = false;
        REQUIRE(testing::send_frame(*endpoint_, connection, header,
                                    std::as_bytes(std::span(&key, 1))) == transport::Post::kPosted);
        REQUIRE(run_until([&] { return answered_; }));
        return value_;
    }

private:
    template <class Over>
    bool run_until(Over&& over) {
        is_open_ = false;
        return cluster_.run_until([&] {
            std::array<transport::Completion, 4> completions;
            const size_t count = endpoint_->poll(completions);
            for (const transport::Completion& c : std::span(completions).first(count)) {
                is_open_ |= c.event == transport::Event::kConnected;
                if (c.event != transport::Event::kReceived) continue;
                wire::Frame frame;
                REQUIRE(wire::decode(c.message, frame) == Errc::kOk);
                REQUIRE(frame.header.status == Errc::kOk);
                std::memcpy(&value_, frame.values.data(), sizeof value_);
                answered_ = true;
            }
            return over();
        });
    }

    MoveCluster& cluster_;
    std::unique_ptr<transport::Endpoint> endpoint_;
    std::map<uint32_t, transport::ConnectionId> connections_;
    bool is_open_ = false;
    bool answered_ = false;
    int64_t value_ = 0;
    uint64_t request_ = 0;
};

}  // namespace weir::test
