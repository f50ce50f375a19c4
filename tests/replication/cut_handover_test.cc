// SPDX-License-Identifier: Apache-2.0
/// \file
/// Servers that hand a segment over, and are cut off in that moment: from who is to get it, or from
/// a backup of it. The manager hears all of them. And one that is to get a segment, and has no memory
/// for the last of it.

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/silent_cluster.h"

namespace weir::test {
namespace {

constexpr uint64_t kLeaseNs = SilentCluster::kLeaseNs;

enum class Cut : uint8_t { kWhole, kFromLoser, kToLoser };

/// A segment that a view takes from one server and gives to another one, by their hosts.
struct Handover {
    uint64_t first = 0;
    uint32_t loser = 0;
    uint32_t gainer = 0;
    std::optional<uint32_t> backup{};
};

/// A cluster that a fourth server joins, and to which a worker pushes without a pause.
class HandoverCluster : public SilentCluster {
public:
    explicit HandoverCluster(uint32_t replicas) : SilentCluster(replicas) {
        joiner_host_ = add_server();
        // So what it is sent is always on its way when a view comes.
        constexpr double kSlowness = 50;
        network.set_slowness(joiner_host_, kSlowness);
    }

    /// Each push is followed by one of so many keys that are new.
    void push_new_keys(size_t count) {
        new_keys_ = count;
        auto made = make_table(0, sparse_table("rows", ValueType::kUInt64));
        REQUIRE(made.has_value());
        rows_ = *std::move(made);
    }

    void take_memory_of_gainer() { memory_of_server(joiner_host_).set_limit(0); }

    /// As soon as a view says so, which nobody has yet.
    [[nodiscard]] Handover wait_for_handover() {
        View before = manager->view();
        std::optional<Handover> found;
        const bool has_begun = run_until([&] {
            push_on();
            if (manager->view().epoch() != before.epoch()) {
                found = handover(before);
                before = manager->view();
            }
            return found.has_value();
        });
        REQUIRE(has_begun);
        return *found;
    }

    void cut(uint32_t loser, uint32_t other, Cut how) {
        switch (how) {
            case Cut::kWhole: network.partition(loser, other); break;
            case Cut::kFromLoser: network.block(loser, other); break;
            case Cut::kToLoser: network.block(other, loser); break;
        }
    }

    /// All pushes that were begun, and one more, end long before their deadlines: when each of the two
    /// servers has found out that it does not reach the other one.
    void check_that_pushes_go_on() {
        const uint64_t begin_ns = clock.now_ns();
        const auto push = this->push();
        ++pushed_;
        REQUIRE(finish(0, push).has_value());
        finish_pushes();
        CHECK(clock.now_ns() - begin_ns < 6 * kLeaseNs);
    }

    /// Whether all pushes that were begun take effect.
    [[nodiscard]] bool have_pushes_memory() {
        bool have_all = true;
        for (; !open_.empty(); open_.pop_front()) {
            const Status finished = finish(0, open_.front());
            CHECK((finished || finished.code() == Errc::kNoMemory));
            have_all &= finished.has_value();
        }
        return have_all;
    }

    [[nodiscard]] uint32_t host_of(uint64_t position) const {
        const View view = manager->view();
        return host(view, view.owner(position));
    }

    void check_at_rest() {
        REQUIRE(run_until([&] {
            const View view = manager->view();
            return has_all_copies() && std::ranges::any_of(view.segments(), [&](const auto& one) {
                       return host(view, one.primary) == joiner_host_;
                   });
        }));
        check_that_pushes_go_on();
        CHECK(sum() == pushed_ * kCounters);
    }

private:
    /// The servers of the start have the numbers of their hosts.
    [[nodiscard]] uint32_t host(const View& view, uint32_t shard) const {
        const uint32_t server = view.shard(shard)->server;
        return server < shape().servers ? server : joiner_host_;
    }

    [[nodiscard]] std::optional<Handover> handover(const View& before) const {
        const View view = manager->view();
        for (const ViewSegment& segment : view.segments()) {
            const uint32_t was = before.owner(segment.first);
            if (was == segment.primary) continue;
            Handover found{segment.first, host(view, was), host(view, segment.primary)};
            if (segment.backup_count() > 0) found.backup = host(view, segment.backups[0]);
            return found;
        }
        return std::nullopt;
    }

    void push_on() {
        while (!open_.empty() && workers[0]->done(open_.front())) {
            REQUIRE(workers[0]->take(open_.front()).has_value());
            open_.pop_front();
        }
        constexpr size_t kOpenMax = 4;
        for (; open_.size() < kOpenMax; ++pushed_) {
            open_.push_back(push());
            if (rows_) open_.push_back(push_rows());
        }
    }

    [[nodiscard]] ClientCore::CallId push_rows() {
        constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // over the whole ring, and never the same
        static const std::vector<uint64_t> kOnes(1000, 1);
        std::vector<uint64_t>& keys = lists_.emplace_back();
        while (keys.size() < new_keys_)
            keys.push_back(++next_key_ * kSpread);
        std::ranges::sort(keys);
        return workers[0]->push(*rows_, keys, std::as_bytes(std::span(kOnes).first(new_keys_)), {});
    }

    void finish_pushes() {
        for (; !open_.empty(); open_.pop_front()) {
            const Status finished = finish(0, open_.front());
            REQUIRE_MESSAGE(finished, finished.error().text());
        }
    }

    uint32_t joiner_host_ = 0;
    std::deque<ClientCore::CallId> open_;
    uint64_t pushed_ = 0;
    std::optional<TableInfo> rows_;
    uint64_t next_key_ = 0;
    size_t new_keys_ = 0;
    std::deque<std::vector<uint64_t>> lists_;  ///< of keys that were pushed into it
};

}  // namespace

TEST_SUITE("cut_handover") {
    TEST_CASE("who cannot reach who is to get a segment keeps it, and pushes go on") {
        struct Kind {
            uint32_t replicas;
            Cut how;
        };

        for (const Kind kind : {Kind{0, Cut::kWhole}, Kind{1, Cut::kWhole},
                                Kind{1, Cut::kFromLoser}, Kind{1, Cut::kToLoser}}) {
            CAPTURE(kind.replicas);
            CAPTURE(static_cast<int>(kind.how));
            HandoverCluster cluster(kind.replicas);
            const Handover handover = cluster.wait_for_handover();
            cluster.cut(handover.loser, handover.gainer, kind.how);
            cluster.check_that_pushes_go_on();
            CHECK(cluster.host_of(handover.first) == handover.loser);
            cluster.pass(kLeaseNs);
            cluster.check_that_pushes_go_on();
            CHECK(cluster.manager->view().servers().size() == 4);
            cluster.network.heal(handover.loser, handover.gainer);
            cluster.check_at_rest();
        }
    }

    TEST_CASE("who cannot reach a backup of a segment that it gives away keeps it meanwhile") {
        for (const Cut how : {Cut::kWhole, Cut::kFromLoser, Cut::kToLoser}) {
            CAPTURE(static_cast<int>(how));
            HandoverCluster cluster(1);
            const Handover handover = cluster.wait_for_handover();
            REQUIRE(handover.backup.has_value());
            cluster.cut(handover.loser, *handover.backup, how);
            cluster.check_that_pushes_go_on();
            CHECK(cluster.manager->view().servers().size() == 4);
            cluster.check_at_rest();  // of others, who reach each other
            cluster.network.heal(handover.loser, *handover.backup);
            cluster.check_at_rest();
        }
    }

    TEST_CASE("who has no memory for the last of a segment that it is to get does not get it") {
        // For some numbers of keys it has room for the last, serves, and lacks memory only later.
        for (const size_t keys : {20, 40, 60, 80, 100}) {
            HandoverCluster cluster(0);
            cluster.push_new_keys(keys);
            const Handover handover = cluster.wait_for_handover();
            cluster.take_memory_of_gainer();
            if (!cluster.have_pushes_memory()) continue;
            cluster.check_that_pushes_go_on();
            if (cluster.host_of(handover.first) != handover.loser) continue;
            cluster.pass(kLeaseNs);
            cluster.check_that_pushes_go_on();
            CHECK(cluster.manager->view().servers().size() == 4);
            return;
        }
        FAIL("it had room for the last each time");
    }
}

}  // namespace weir::test
