// SPDX-License-Identifier: Apache-2.0
/// \file
/// Iterations while segments move and workers come and go, in random histories: shards that are
/// driven as Shard drives its parts, workers that cut, repeat and withdraw parts as the rules say.
/// Whatever happens, the rule runs once per iteration and segment, on the parts of all members.

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/moving_nodes.h"
#include "tests/seed.h"

namespace weir::test {
namespace {

struct Link {
    transport::ConnectionId connection = 0;
    uint64_t hello = 0;
    std::deque<Sent> up;
    std::deque<Reply> down;
};

struct MovingWorker {
    uint32_t number = 0;
    MovingView view;
    std::deque<MovingView> inbox;
    uint64_t last = 0;  // the last iteration that it began
    uint32_t time = 0;
    std::list<PartPiece> pieces;  // that have not ended, in order
    std::array<Link, kNodes> links;
    bool is_leaving = false;

    [[nodiscard]] CallSet open_calls() const {
        CallSet open;
        for (const PartPiece& piece : pieces)
            open.insert(piece.call);
        return open;
    }
};

class MovingHistory {
public:
    explicit MovingHistory(uint64_t seed) : random_(seed) {
        REQUIRE(rules_.register_rule<HigherBits>("higher_bits").has_value());
        for (uint64_t key = 0; key < kRingKeys; key += 4)
            view_.segments.push_back({key, key + 4, static_cast<uint32_t>(key / 4 % 2)});
        const PositionMap map = PositionMap::dense(kRingKeys);
        for (uint32_t i = 0; i < kNodes; ++i) {
            std::vector<PositionRange> held;
            for (const Run& s : view_.segments) {
                const bool is_last = s.end == kRingKeys;
                if (s.owner == i)
                    held.push_back(
                        {map.position(s.begin), is_last ? ~uint64_t{0} : map.position(s.end) - 1});
            }
            nodes_.push_back(std::make_unique<Node>(i, random_, rules_, PositionSet(held)));
        }
        for (uint32_t i = 0; i < 2; ++i) {
            view_.workers[i] = 1;
            add_worker(i, 1);
        }
        view_.next_worker = 2;
        for (auto& node : nodes_)
            node->apply_view(view_);
        for (MovingWorker& worker : workers_)
            worker.view = view_;
    }

    /// Returns whether a shard had segments of different iterations, and looked into a part for it.
    bool run() {
        for (uint32_t i = 0; i < 1500; ++i)
            step();
        is_ending_ = true;
        if (asked_) {  // iterations are held until the next view
            MovingView next = view_;
            ++next.epoch;
            publish(next, {});
        }
        const auto has_work = [&] {
            return std::ranges::any_of(workers_, [&](const MovingWorker& worker) {
                return !worker.pieces.empty() || worker.last < goal_;
            });
        };
        for (MovingWorker& worker : workers_) {
            goal_ = std::max(goal_, worker.last);
            worker.is_leaving = false;
        }
        for (uint32_t i = 0; i < 100'000 && has_work(); ++i)
            step();
        REQUIRE_FALSE(has_work());
        check_values();
        return std::ranges::any_of(nodes_, [](const auto& node) { return node->was_mixed; });
    }

private:
    void step() {
        const uint64_t choice = random_.below(100);
        if (choice < 4 && !is_ending_) return change_view();
        if (choice < 16) return deliver_view();
        if (workers_.empty()) return;
        auto at = workers_.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random_.below(workers_.size())));
        MovingWorker& worker = *at;
        Link& link = worker.links[random_.below(kNodes)];
        if (choice < 35) return issue(worker);
        if (choice < 60) return send(worker);
        if (choice < 80) return arrive(link);
        if (choice < 97) return hear(worker, link);
        if (choice == 97)
            return break_link(worker, static_cast<uint32_t>(&link - worker.links.data()));
        if (choice == 98 && random_.below(4) == 0 && !is_ending_) return withdraw(worker);
        if (choice == 99 && random_.below(8) == 0 && !is_ending_ && workers_.size() > 1)
            return die(at);
    }

    void add_worker(uint32_t number, uint64_t first) {
        MovingWorker& worker = workers_.emplace_back();
        worker.number = number;
        worker.last = first - 1;
        for (Link& link : worker.links)
            link = {++connections_, 1, {}, {}};
    }

    // the manager

    [[nodiscard]] bool all_have_the_view() const {
        return std::ranges::all_of(nodes_, [&](const auto& node) {
            return node->inbox.empty() && node->view.epoch == view_.epoch;
        });
    }

    void change_view() {
        switch (random_.below(4)) {
            case 0: return join();
            case 1: return leave();
            default: return move();
        }
    }

    void publish(const MovingView& next, const std::set<uint32_t>& had) {
        view_ = next;
        asked_.reset();
        for (const auto& node : nodes_) {
            if (!had.contains(node->number)) node->inbox.push_back(view_);
        }
        for (MovingWorker& worker : workers_)
            worker.inbox.push_back(view_);
    }

    /// A segment goes to another shard, maybe only a part of it.
    void move() {
        MovingView next = view_;
        ++next.epoch;
        const size_t i = random_.below(next.segments.size());
        Run& moving = next.segments[i];
        const uint32_t from = moving.owner;
        const auto to = static_cast<uint32_t>(random_.below(kNodes));
        if (to == from) return;
        if (moving.end - moving.begin > 1 && random_.below(3) == 0) {
            Run rest = moving;
            moving.end = rest.begin = moving.begin + 1;
            moving.owner = to;
            next.segments.insert(next.segments.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
        } else {
            moving.owner = to;
        }
        const Run moved = next.segments[i];
        next.since[from] = next.since[to] = next.epoch;
        Node& loser = *nodes_[from];
        while (!loser.inbox.empty())
            take_next_view(loser);
        loser.apply_view(next);
        hand_over(loser, *nodes_[to], moved);
        publish(next, {from});
    }

    static void hand_over(Node& from, Node& to, const Run& moved) {
        const PositionRange range = from.positions(moved);
        const PositionSet positions(std::span(&range, 1));
        REQUIRE(to.table->rows->hold(positions).has_value());
        to.table->rows->serve(to.table->rows->held());
        const auto values = from.table->rows->values(KeyRange{moved.begin, moved.end});
        REQUIRE(values.has_value());
        REQUIRE(to.table->rows->take(KeyRange{moved.begin, moved.end}, *values, {}).has_value());
        for (const ClosedRun& run : from.state().closed().runs(range)) {
            REQUIRE(run.state.is_sound());
            to.state().closed().set(run);
        }
        from.table->rows->give_up(positions);
        from.state().closed().drop(range);
    }

    /// First the question, then, some steps later, the view with the worker.
    void join() {
        if (view_.next_worker == kWorkerColumns || !all_have_the_view()) return;
        if (!asked_) {
            asked_ = 1;
            for (const auto& node : nodes_)
                asked_ = std::max(*asked_, node->state().hold());
            return;
        }
        if (*asked_ > kIterationsMax - 5) return;
        MovingView next = view_;
        ++next.epoch;
        const uint32_t number = next.next_worker++;
        const uint64_t first = *asked_;
        next.workers[number] = first;
        publish(next, {});
        add_worker(number, first);
        workers_.back().view = next;
    }

    void leave() {
        const auto at = std::ranges::find_if(
            workers_, [&](const MovingWorker& w) { return w.is_leaving && w.pieces.empty(); });
        if (at == workers_.end() || workers_.size() == 1) return;
        MovingView next = view_;
        ++next.epoch;
        next.workers.erase(at->number);
        workers_.erase(at);
        publish(next, {});
    }

    void die(std::list<MovingWorker>::iterator at) {
        for (uint32_t node = 0; node < kNodes; ++node)
            break_link(*at, node);
        for (PushCall* call : at->open_calls())
            make_unsure(*call);
        MovingView next = view_;
        ++next.epoch;
        next.workers.erase(at->number);
        workers_.erase(at);
        publish(next, {});
    }

    static void take_next_view(Node& node) {
        const MovingView next = node.inbox.front();
        node.inbox.pop_front();
        node.apply_view(next);
    }

    void deliver_view() {
        Node& node = *nodes_[random_.below(kNodes)];
        if (!node.inbox.empty()) take_next_view(node);
        for (MovingWorker& worker : workers_) {
            if (random_.below(2) == 0 && !worker.inbox.empty()) try_to_adopt(worker);
        }
        give_replies();
    }

    // workers

    void issue(MovingWorker& worker) {
        if (worker.last >= (is_ending_ ? goal_ : kIterationsMax) || worker.is_leaving) return;
        if (worker.open_calls().size() >= 2) return;
        if (!is_ending_ && random_.below(60) == 0) worker.is_leaving = workers_.size() > 1;
        if (worker.is_leaving) return;
        PushCall& call = calls_.emplace_back();
        call.worker = worker.number;
        call.iteration = ++worker.last;
        for (uint64_t key = 0; key < kRingKeys; ++key) {
            if (random_.below(3) != 0) call.keys[key] = HowEnded::kNo;
        }
        std::array<std::vector<uint64_t>, kNodes> of_node;
        for (const auto& [key, ended] : call.keys)
            of_node[worker.view.segment_of(key).owner].push_back(key);
        for (uint32_t node = 0; node < kNodes; ++node) {
            const std::vector<uint64_t>& keys = of_node[node];
            for (size_t i = 0; i < keys.size(); i += 5) {
                const size_t end = std::min(i + 5, keys.size());
                worker.pieces.push_back(
                    {&call, node, worker.view.epoch, ++worker.time,
                     std::vector<uint64_t>(keys.begin() + static_cast<std::ptrdiff_t>(i),
                                           keys.begin() + static_cast<std::ptrdiff_t>(end))});
            }
        }
        call.end_time = ++worker.time;
        for (uint32_t node = 0; node < kNodes; ++node)
            announce(worker, call, node);
    }

    /// Says in each part of the call to a shard how many there are: at least one.
    static void announce(MovingWorker& worker, PushCall& call, uint32_t node) {
        if (!worker.view.has_segments(node)) return;
        std::vector<PartPiece*> parts;
        for (PartPiece& piece : worker.pieces) {
            if (piece.call == &call && piece.node == node) parts.push_back(&piece);
        }
        if (parts.empty()) {
            worker.pieces.push_back({&call, node, worker.view.epoch, call.end_time, {}});
            parts.push_back(&worker.pieces.back());
        }
        for (PartPiece* piece : parts)
            piece->parts = static_cast<uint32_t>(parts.size());
        worker.pieces.sort(
            [](const PartPiece& a, const PartPiece& b) { return a.order() < b.order(); });
    }

    [[nodiscard]] static bool is_changing(const MovingWorker& worker, uint32_t node) {
        return !worker.inbox.empty() && worker.inbox.front().since[node] > worker.view.epoch;
    }

    void send(MovingWorker& worker) {
        for (uint32_t node = 0; node < kNodes; ++node) {
            if (random_.below(2) == 0 || is_changing(worker, node)) continue;
            const auto next = std::ranges::find_if(worker.pieces, [&](const PartPiece& piece) {
                return piece.node == node && piece.state == PartPiece::State::kReady;
            });
            if (next == worker.pieces.end()) continue;
            Link& link = worker.links[node];
            next->state = PartPiece::State::kAway;
            next->was_sent = true;
            next->request = ++requests_;
            link.up.push_back({link.connection, link.hello, worker.number, next->request, *next,
                               next->call->iteration, next->call->is_withdrawn});
        }
    }

    void arrive(Link& link) {
        if (link.up.empty()) return;
        const Sent part = link.up.front();
        link.up.pop_front();
        nodes_[part.piece.node]->receive(part);
        give_replies();
    }

    /// What shards have answered is on its way.
    void give_replies() {
        for (const auto& node : nodes_) {
            for (const Reply& reply : std::exchange(node->replies, {})) {
                for (MovingWorker& worker : workers_) {
                    Link& link = worker.links[node->number];
                    if (link.connection == reply.connection) link.down.push_back(reply);
                }
            }
        }
    }

    void hear(MovingWorker& worker, Link& link) {
        if (link.down.empty()) return;
        const Reply reply = link.down.front();
        link.down.pop_front();
        const auto piece = std::ranges::find(worker.pieces, reply.request, &PartPiece::request);
        REQUIRE(piece != worker.pieces.end());
        if (reply.status == Errc::kStaleEpoch) {
            piece->state = PartPiece::State::kStale;
            return;
        }
        for (const uint64_t key : piece->keys) {
            piece->call->keys[key] = reply.has_failed ? HowEnded::kFailed : HowEnded::kDone;
        }
        worker.pieces.erase(piece);
    }

    /// Some of what was sent arrives, no answer does.
    void break_link(MovingWorker& worker, uint32_t node) {
        Link& link = worker.links[node];
        for (size_t arrives = random_.below(link.up.size() + 1); arrives > 0; --arrives)
            arrive(link);
        std::erase_if(nodes_[node]->waiting,
                      [&](const Sent& part) { return part.connection == link.connection; });
        link = {++connections_, link.hello + 1, {}, {}};
        for (PartPiece& piece : worker.pieces) {
            if (piece.node == node && piece.state == PartPiece::State::kAway)
                piece.state = PartPiece::State::kReady;
        }
    }

    /// A call reaches its deadline: whoever waits for a part of it is told.
    void withdraw(MovingWorker& worker) {
        const CallSet open = worker.open_calls();
        if (open.empty()) return;
        PushCall& call = **open.begin();
        if (call.is_withdrawn) return;
        std::map<uint32_t, uint64_t> epochs;  // by shard: an excuse keeps that of the cut
        for (const PartPiece& piece : worker.pieces) {
            if (piece.call == &call) epochs[piece.node] = piece.epoch;
        }
        for (const auto& [node, epoch] : epochs)
            break_link(worker, node);
        make_unsure(call);
        call.is_withdrawn = true;
        std::erase_if(worker.pieces, [&](const PartPiece& piece) { return piece.call == &call; });
        for (const auto& [node, epoch] : epochs)
            worker.pieces.push_back({&call, node, epoch, call.end_time, {}, 1});
        worker.pieces.sort(
            [](const PartPiece& a, const PartPiece& b) { return a.order() < b.order(); });
    }

    static void make_unsure(PushCall& call) {
        for (auto& [key, ended] : call.keys) {
            if (ended == HowEnded::kNo) ended = HowEnded::kUnsure;
        }
    }

    /// Once all that is away at shards that change is answered.
    void try_to_adopt(MovingWorker& worker) {
        for (const PartPiece& piece : worker.pieces) {
            if (piece.state == PartPiece::State::kAway && is_changing(worker, piece.node)) return;
        }
        const uint64_t old_epoch = worker.view.epoch;
        worker.view = worker.inbox.front();
        worker.inbox.pop_front();
        const MovingView& view = worker.view;
        CallSet cut;
        std::list<PartPiece> fragments;
        std::erase_if(worker.pieces, [&](const PartPiece& piece) {
            if (view.since[piece.node] <= piece.epoch) return false;
            cut.insert(piece.call);
            std::map<uint64_t, std::vector<uint64_t>> by;
            for (const uint64_t key : piece.keys) {
                const Run& segment = view.segment_of(key);
                by[piece.was_sent ? segment.begin : segment.owner].push_back(key);
            }
            for (const auto& [name, keys] : by)
                fragments.push_back({piece.call, view.segment_of(keys.front()).owner, view.epoch,
                                     piece.time, keys, 0, piece.was_sent});
            return true;
        });
        worker.pieces.splice(worker.pieces.end(), fragments);
        for (PushCall* call : cut) {
            for (uint32_t node = 0; node < kNodes; ++node) {
                if (view.since[node] > old_epoch) announce(worker, *call, node);
            }
        }
    }

    // what must be

    void check_values() {
        std::map<std::pair<uint64_t, uint64_t>, HowEnded> outcomes;  // by iteration and key
        std::map<std::pair<uint64_t, uint32_t>, std::pair<uint64_t, uint64_t>> bits;
        for (const PushCall& call : calls_) {
            for (const auto& pushed : call.keys) {
                const uint64_t key = pushed.first;
                const HowEnded ended = pushed.second;
                auto& [sure, unsure] = bits[{key, call.worker}];
                if (ended == HowEnded::kDone) sure |= uint64_t{1} << call.iteration;
                if (ended == HowEnded::kUnsure) unsure |= uint64_t{1} << call.iteration;
                if (ended == HowEnded::kUnsure || ended == HowEnded::kNo) continue;
                const auto [first, is_new] = outcomes.try_emplace({call.iteration, key}, ended);
                INFO("iteration " << call.iteration << ", key " << key);
                REQUIRE(first->second == ended);  // the same for all
            }
        }
        for (const auto& pushed : bits) {
            const auto name = pushed.first;
            const auto wanted = pushed.second;
            const uint64_t key = name.first;
            const uint32_t worker = name.second;
            const Node& node = *nodes_[view_.segment_of(key).owner];
            const uint64_t value = node.value(key, worker);
            INFO("key " << key << ", worker " << worker << " has " << value << ", acknowledged "
                        << wanted.first << ", unsure " << wanted.second);
            REQUIRE((value & ~wanted.second) == wanted.first);
        }
    }

    Random random_;
    RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
    MovingView view_;
    std::optional<uint64_t> asked_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::list<MovingWorker> workers_;
    std::list<PushCall> calls_;
    transport::ConnectionId connections_ = 0;
    uint64_t requests_ = 0;
    bool is_ending_ = false;
    uint64_t goal_ = 0;
};

}  // namespace

TEST_SUITE("moving_iterations") {
    TEST_CASE("each iteration runs once on each segment, in hundreds of histories") {
        const uint64_t first = testing::seed_or(1);
        const uint64_t count = testing::histories_or(300);
        MESSAGE("histories by WEIR_SEED from " << first << " to " << first + count - 1);
        uint64_t mixed = 0;
        for (uint64_t seed = first; seed < first + count; ++seed) {
            INFO("WEIR_SEED=" << seed);
            mixed += MovingHistory(seed).run() ? 1 : 0;
        }
        MESSAGE("with parts of closed segments: " << mixed);
        if (count >= 300) CHECK(mixed > 10);
    }
}

}  // namespace weir::test
