// SPDX-License-Identifier: Apache-2.0
/// \file
/// Keys of pushes that their sender changes while the shard works on them: where they lie in a message or in
/// memory that the shard maps.

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/store/rules/rule_registry.h"
#include "tests/cluster/equal_copies.h"
#include "tests/cluster/sim_cluster.h"
#include "tests/passing_endpoint.h"

namespace weir::test {
namespace {

/// What the sender can still write to while a push is executed; and when it does.
struct Sender {
    std::vector<std::span<std::byte>> memory;  ///< of the last message, and what was mapped since
    std::vector<std::pair<uint64_t, uint64_t>> changes;  ///< of keys: from which, to which
    size_t change_count = 0;

    void change() {
        for (const std::span<std::byte> bytes : memory) {
            for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); at += sizeof(uint64_t)) {
                uint64_t word = 0;
                std::memcpy(&word, &bytes[at], sizeof word);
                for (const auto& [from, to] : changes) {
                    if (word != from) continue;
                    std::memcpy(&bytes[at], &to, sizeof to);
                    ++change_count;
                    break;
                }
            }
        }
    }
};

Sender* changing_sender = nullptr;

/// Adds; and its worker changes the keys of the push when their rows are known.
struct AddWhileChanged {
    static constexpr uint32_t kStateValues = 0;
    static constexpr uint32_t kPushedValues = 1;
    static constexpr Combine kCombine = Combine::kSum;
    template <class T>
    static constexpr bool kSupports = std::is_same_v<T, uint64_t>;

    static const char* check(const RuleParameters&) { return nullptr; }

    static double initial_state(const RuleParameters&) { return 0; }

    template <class T>
    static void update(T& value, T*, const T* pushed, const RuleContext&) {
        value += pushed[0];
        if (changing_sender != nullptr) changing_sender->change();
    }
};

class WatchedEndpoint final : public testing::PassingEndpoint {
public:
    using PassingEndpoint::PassingEndpoint;

    explicit WatchedEndpoint(std::unique_ptr<Endpoint> inner) : PassingEndpoint(std::move(inner)) {}

    [[nodiscard]] size_t poll(std::span<Completion> completions) override {
        const size_t count = inner().poll(completions.first(1));
        if (changing_sender == nullptr || count == 0) return count;
        changing_sender->memory.clear();
        const std::span<const std::byte> message = completions[0].message;
        if (completions[0].event == transport::Event::kReceived)
            changing_sender->memory.emplace_back(const_cast<std::byte*>(message.data()),
                                                 message.size());
        return count;
    }

    [[nodiscard]] std::byte* map(ConnectionId c, const RemoteSpan& span,
                                 transport::Access wanted) override {
        std::byte* const memory = inner().map(c, span, wanted);
        if (changing_sender != nullptr && memory != nullptr)
            changing_sender->memory.emplace_back(memory, span.length_bytes);
        return memory;
    }
};

/// Two servers with a copy of each other, and a worker.
class ChangingCluster : public SimCluster {
public:
    ChangingCluster(bool maps, bool is_dense) : SimCluster(1, shape(), {.maps_memory = maps}) {
        REQUIRE(rules.register_rule<AddWhileChanged>("add_while_changed").has_value());
        REQUIRE(start());
        TableSchema schema = is_dense ? dense_table("t", 100'000, ValueType::kUInt64)
                                      : sparse_table("t", ValueType::kUInt64);
        schema.rule = "add_while_changed";
        auto made = make_table(0, schema);
        REQUIRE(made.has_value());
        table_ = *std::move(made);
        REQUIRE(run_until([&] { return has_copies(); }));
    }

    ~ChangingCluster() { changing_sender = nullptr; }

    /// Pushes to keys that come to be others meanwhile; then to the same keys in peace, more than once.
    /// Returns how many it has changed: none of a list that the shard has read as a whole before.
    size_t push(const std::vector<uint64_t>& keys, bool is_iteration) {
        Sender changing;
        for (const uint64_t key : keys)
            changing.changes.emplace_back(key, key + 1);
        changing_sender = &changing;
        push_once(keys, is_iteration);
        changing_sender = nullptr;
        for (int i = 0; i < 3; ++i)
            push_once(keys, is_iteration);
        run_idle(50);
        check_copies();
        return changing.change_count;
    }

private:
    static SimShape shape() {
        SimShape shape;
        shape.servers = 2;
        shape.shards = 1;
        shape.workers = 1;
        shape.replicas = 1;
        shape.around_shard = [](SimShape::Endpoint own) {
            return std::make_unique<WatchedEndpoint>(std::move(own));
        };
        return shape;
    }

    [[nodiscard]] bool has_copies() const {
        return std::ranges::all_of(manager->view().segments(), [](const ViewSegment& segment) {
            return segment.backup_count() == 1;
        });
    }

    void push_once(const std::vector<uint64_t>& keys, bool is_iteration) {
        const std::vector<uint64_t> ones(keys.size(), 1);
        CallOptions options;
        if (is_iteration) options.iteration = ++iteration_;
        const auto call = workers[0]->push(*table_, keys, std::as_bytes(std::span(ones)), options);
        (void)finish(0,
                     call);  // a part of a list that was changed while it was read may be refused
    }

    void check_copies() {
        const View view = manager->view();
        for (size_t i = 0; i < view.segments().size(); ++i) {
            const ViewSegment& segment = view.segments()[i];
            check_equal_copies(*find_shard(*view.shard(segment.primary)),
                               *find_shard(*view.shard(segment.backups[0])), view.range(i));
        }
    }

    std::optional<TableInfo> table_;
    uint64_t iteration_ = 0;
};

std::vector<uint64_t> every_tenth(uint64_t first, size_t count) {
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < count; ++i)
        keys.push_back(first + 10 * i);
    return keys;
}

}  // namespace

TEST_SUITE("changing keys") {
    TEST_CASE("copies are equal though a worker changes the keys of its pushes meanwhile") {
        for (const bool maps : {false, true}) {
            for (const bool is_dense : {false, true}) {
                for (const bool is_iteration : {false, true}) {
                    INFO("maps memory " << maps << ", dense " << is_dense << ", iterations "
                                        << is_iteration);
                    ChangingCluster cluster(maps, is_dense);
                    CHECK(cluster.push(every_tenth(1001, 1), is_iteration) > 0);
                    CHECK(cluster.push(every_tenth(2002, 8), is_iteration) > 0);
                    CHECK(cluster.push(every_tenth(3003, 100), is_iteration) > 0);  // remembered
                    const size_t changed = cluster.push(every_tenth(7004, 2000), is_iteration);
                    CHECK((!maps || changed > 0));
                }
            }
        }
    }
}

}  // namespace weir::test
