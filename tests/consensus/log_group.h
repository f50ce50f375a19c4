// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// LogGroup: the replicas of a log on a simulated network, and what must be true of them at any time: no two
/// lead in one term, and all apply the same entries at the same indices.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>

#include "lib/base/byte_codec.h"
#include "lib/consensus/replicated_log.h"
#include "tests/consensus/named_endpoint.h"
#include "transport/sim/network.h"

namespace weir::testing {

using consensus::Leadership;
using consensus::ReplicatedLog;

/// What all replicas of a group have shown so far.
struct LogFacts {
    std::map<uint64_t, uint64_t> applied;  ///< by index: the entry that some replica has applied
    std::map<uint64_t, uint64_t> leaders;  ///< by term
    std::map<uint64_t, uint64_t> led_in;   ///< by index: the last of these terms by then
    std::vector<std::string> faults;

    void fault(std::string what) { faults.push_back(std::move(what)); }
};

/// A list of numbers, to which entries are added: what each replica's log drives.
class Ledger final : public consensus::Replicated {
public:
    Ledger(LogFacts& facts, uint64_t self) : facts_(facts), self_(self) {}

    void apply(uint64_t index, std::span<const std::byte> entry) override {
        ByteReader from(entry);
        const auto value = from.number<uint64_t>();
        if (!from.done()) facts_.fault("an entry has changed its length");
        if (!entries.empty() && index <= entries.rbegin()->first)
            facts_.fault(fmt::format("replica {} applies {} after {}", self_, index,
                                     entries.rbegin()->first));
        entries[index] = value;
        check(index, value);
        if (const auto mine = proposed.find(index); is_leader && mine != proposed.end()) {
            if (mine->second != value)
                facts_.fault(fmt::format("{} is not what replica {} has proposed", index, self_));
            ++acknowledged;
        }
    }

    [[nodiscard]] std::vector<std::byte> snapshot() override {
        ByteWriter to;
        for (const auto& [index, value] : entries)
            to.number(index).number(value);
        ++snapshots;
        return std::move(to).take();
    }

    [[nodiscard]] Status restore(std::span<const std::byte> bytes) override {
        if (refuses) return Error(Errc::kBusy, "the ledger takes no snapshot");
        if (bytes.size() % 16 != 0) return Error(Errc::kParse, "this is no ledger");
        ByteReader from(bytes);
        entries.clear();
        for (size_t left = bytes.size() / 16; left > 0; --left) {
            const auto index = from.number<uint64_t>();
            entries[index] = from.number<uint64_t>();
            check(index, entries[index]);
        }
        ++restores;
        return {};
    }

    void lead(uint64_t term) override {
        is_leader = true;
        const auto [found, is_first] = facts_.leaders.emplace(term, self_);
        if (!is_first && found->second != self_)
            facts_.fault(fmt::format("{} and {} lead in term {}", found->second, self_, term));
        // What was committed before it led, it has applied. One that was paused may believe that it leads
        // when another one has already committed more in a later term.
        for (const auto& [index, value] : facts_.applied) {
            const auto own = entries.find(index);
            const bool is_same = own != entries.end() && own->second == value;
            if (!is_same && facts_.led_in[index] <= term)
                facts_.fault(fmt::format("replica {} leads in term {} without entry {}", self_,
                                         term, index));
        }
    }

    void follow() override {
        is_leader = false;
        proposed.clear();
    }

    std::map<uint64_t, uint64_t> entries;   ///< by index
    std::map<uint64_t, uint64_t> proposed;  ///< by index; since it leads
    bool is_leader = false;
    bool refuses = false;  ///< snapshots
    uint64_t acknowledged = 0;
    uint64_t snapshots = 0;
    uint64_t restores = 0;

private:
    void check(uint64_t index, uint64_t value) {
        const auto [found, is_first] = facts_.applied.emplace(index, value);
        if (is_first)
            facts_.led_in[index] = facts_.leaders.empty() ? 0 : facts_.leaders.rbegin()->first;
        if (!is_first && found->second != value)
            facts_.fault(fmt::format("replica {} has {} at {}, and another has {}", self_, value,
                                     index, found->second));
    }

    LogFacts& facts_;
    uint64_t self_;
};

struct LogGroupOptions {
    uint64_t seed = 1;
    uint32_t replicas = 3;
    bool memory_comes_back = false;  ///< a planted fault: with its number, and empty
    uint32_t entries_per_snapshot = 1024;
    uint32_t entries_kept = 128;
    transport::sim::Options network = {};
};

class LogGroup {
public:
    static constexpr uint64_t kStepNs = kMillisecond;

    struct Replica {
        uint64_t id = 0;
        std::unique_ptr<transport::Device> device;
        std::unique_ptr<Ledger> ledger;
        std::unique_ptr<ReplicatedLog> log;  ///< null: it is down
        uint64_t paused_until_ns = 0;
        bool is_gone = false;  ///< its process has ended, and its memory with it
    };

    explicit LogGroup(LogGroupOptions options)
        : options_(std::move(options)), network_(options_.seed, clock_, options_.network) {
        for (uint64_t id = 1; id <= options_.replicas; ++id)
            replicas_.emplace_back().id = id;
        for (Replica& replica : replicas_)
            start(replica);
    }

    [[nodiscard]] static std::string name_of(uint64_t id) { return fmt::format("replica:{}", id); }

    [[nodiscard]] Replica& at(uint64_t id) { return replicas_[id - 1]; }

    [[nodiscard]] std::deque<Replica>& replicas() { return replicas_; }

    void start(Replica& replica) {
        if (replica.log != nullptr || replica.is_gone) return;
        replica.device = network_.make_device(static_cast<uint32_t>(replica.id));
        auto inner = replica.device->make_endpoint({});
        REQUIRE(inner);
        ways.addresses[name_of(replica.id)] = (*inner)->address();
        consensus::ReplicatedLogOptions log;
        log.group = 77;
        log.self = replica.id;
        log.seed = options_.seed * 1000 + replica.id * 100 + ++starts_;
        log.entries_per_snapshot = options_.entries_per_snapshot;
        log.entries_kept = options_.entries_kept;
        for (const Replica& one : replicas_)
            log.members.push_back({one.id, name_of(one.id)});
        replica.ledger = std::make_unique<Ledger>(facts, replica.id);
        auto endpoint =
            std::make_unique<NamedEndpoint>(*std::move(inner), name_of(replica.id), ways);
        auto started =
            consensus::start_replicated_log(log, std::move(endpoint), clock_, *replica.ledger);
        REQUIRE(started);
        replica.log = *std::move(started);
    }

    /// Its process ends.
    void kill(Replica& replica) {
        network_.kill(static_cast<uint32_t>(replica.id));
        replica.log.reset();
        replica.device.reset();
        replica.paused_until_ns = 0;
        replica.is_gone = !options_.memory_comes_back;
    }

    void pause(Replica& replica, uint64_t for_ns) {
        replica.paused_until_ns = clock_.now_ns() + for_ns;
    }

    void partition(uint64_t a, uint64_t b) {
        network_.partition(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
    }

    void heal(uint64_t a, uint64_t b) {
        network_.heal(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
    }

    /// Breaks the connections between two replicas. They make new ones if they can.
    void reset(uint64_t a, uint64_t b) {
        network_.reset(static_cast<uint32_t>(a), static_cast<uint32_t>(b));
    }

    /// Nobody has a connection to it, or can make one.
    void cut_off(const Replica& replica) {
        for (const Replica& other : replicas_) {
            if (other.id == replica.id) continue;
            partition(replica.id, other.id);
            reset(replica.id, other.id);
        }
    }

    void set_way(uint64_t from, uint64_t to, Way way) {
        ways.ways[{name_of(from), name_of(to)}] = way;
    }

    void heal_all() {
        ways.ways.clear();
        for (const Replica& one : replicas_)
            for (const Replica& other : replicas_)
                if (one.id < other.id) heal(one.id, other.id);
    }

    void run(uint64_t for_ns) {
        const uint64_t end_ns = clock_.now_ns() + for_ns;
        while (clock_.now_ns() < end_ns)
            step();
    }

    /// False: it did not come to that in time.
    [[nodiscard]] bool run_until(uint64_t for_ns, const std::function<bool()>& is_so) {
        const uint64_t end_ns = clock_.now_ns() + for_ns;
        while (!is_so()) {
            if (clock_.now_ns() >= end_ns) return false;
            step();
        }
        return true;
    }

    void step() {
        network_.advance_to(clock_.now_ns() + kStepNs);
        for (Replica& replica : replicas_) {
            if (replica.log == nullptr || clock_.now_ns() < replica.paused_until_ns) continue;
            replica.log->poll();
        }
    }

    /// The replica that may propose, of the latest term; null: none.
    [[nodiscard]] Replica* leader() {
        Replica* found = nullptr;
        for (Replica& replica : replicas_) {
            if (replica.log == nullptr || !replica.log->leadership().is_ready) continue;
            if (found == nullptr || replica.log->leadership().term > found->log->leadership().term)
                found = &replica;
        }
        return found;
    }

    /// Proposes the next number. False: the replica takes none.
    bool propose(Replica& replica, uint64_t count = 1) {
        for (; count > 0; --count) {
            ByteWriter entry;
            entry.number(++last_value_);
            const std::optional<uint64_t> index = replica.log->propose(std::move(entry).take());
            if (!index) return false;
            replica.ledger->proposed[*index] = last_value_;
        }
        return true;
    }

    /// Whether all replicas that run have applied the same, and all that was ever applied.
    [[nodiscard]] bool agree() {
        for (const Replica& replica : replicas_)
            if (replica.log != nullptr && replica.ledger->entries != facts.applied) return false;
        return true;
    }

    /// Of each replica that runs, for people.
    [[nodiscard]] std::string states() {
        std::string text;
        for (const Replica& replica : replicas_) {
            if (replica.log == nullptr) continue;
            const Leadership now = replica.log->leadership();
            text += fmt::format("{}: term {}, leader {}{}, {} of {} applied{}; ", replica.id,
                                now.term, now.leader, now.is_ready ? " (ready)" : "",
                                replica.ledger->entries.size(), facts.applied.size(),
                                replica.log->outcome() ? "" : ", ended");
        }
        return text;
    }

    [[nodiscard]] uint64_t now_ns() const { return clock_.now_ns(); }

    Ways ways;
    LogFacts facts;

private:
    LogGroupOptions options_;
    ManualClock clock_;
    transport::sim::Network network_;
    std::deque<Replica> replicas_;
    uint64_t starts_ = 0;
    uint64_t last_value_ = 0;
};

}  // namespace weir::testing
