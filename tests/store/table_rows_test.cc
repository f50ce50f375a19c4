// SPDX-License-Identifier: Apache-2.0
/// \file
/// Tables that give up positions, take them up again, and hand rows to each other, against a map.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/table.h"
#include "tests/seed.h"

TEST_SUITE("table_rows") {
    using namespace weir;

    constexpr uint64_t kParts = 16;

    static PositionSet part(uint64_t number) {
        const PositionRange range{number << 60, number << 60 | ~uint64_t{0} >> 4};
        return PositionSet(std::span(&range, 1));
    }

    /// The heap, as a pool does it: a part of an allocation can be given back.
    class SplittingMemory final : public Memory {
    public:
        ~SplittingMemory() override { CHECK(pieces_.empty()); }

        [[nodiscard]] std::byte* allocate(size_t bytes, size_t alignment) noexcept override {
            std::byte* const data = heap_.allocate(bytes, alignment);
            pieces_[data] = {bytes, data};
            whole_[data] = {bytes, 1};
            in_use_ += bytes;
            return data;
        }

        void deallocate(std::byte* data, size_t bytes, size_t alignment) noexcept override {
            const auto piece = pieces_.find(data);
            REQUIRE(piece != pieces_.end());
            REQUIRE(piece->second.bytes == bytes);
            Whole& whole = whole_[piece->second.whole];
            in_use_ -= bytes;
            if (--whole.pieces == 0) {
                heap_.deallocate(piece->second.whole, whole.bytes, alignment);
                whole_.erase(piece->second.whole);
            }
            pieces_.erase(piece);
        }

        [[nodiscard]] bool split(std::byte* data, size_t bytes, size_t at) noexcept override {
            Piece& piece = pieces_.at(data);
            REQUIRE((piece.bytes == bytes && at > 0 && at < bytes && at % 64 == 0));
            pieces_[data + at] = {bytes - at, piece.whole};
            piece.bytes = at;
            ++whole_[piece.whole].pieces;
            return true;
        }

        [[nodiscard]] size_t in_use() const { return in_use_; }

    private:
        struct Piece {
            size_t bytes = 0;
            std::byte* whole = nullptr;
        };

        struct Whole {
            size_t bytes = 0;
            int pieces = 0;
        };

        HeapMemory heap_;
        std::map<std::byte*, Piece> pieces_;
        std::map<std::byte*, Whole> whole_;
        size_t in_use_ = 0;
    };

    struct Row {
        std::vector<float> values;
        std::vector<float> state;
        friend bool operator==(const Row&, const Row&) = default;
    };

    static void hold_and_serve(TableShard & table, const PositionSet& positions) {
        REQUIRE(table.hold(positions));
        table.serve(table.held());
    }

    /// Two shards share a ring of 16 parts. Parts move between them while rows are pushed; some
    /// are dropped and begin anew.
    class MoveHistory {
    public:
        MoveHistory(Layout layout, uint32_t width, const char* rule, uint64_t seed)
            : random_(seed), lists_(memory_, 1 << 20) {
            schema_ = {.id = 1,
                       .name = "t",
                       .layout = layout,
                       .width = width,
                       .key_count = layout == Layout::kDense ? 3000U : 0U,
                       .rule = rule,
                       .initial_value = 2};
            if (schema_.rule == "adagrad") schema_.parameters.value = {0.5, 0.01};
            for (uint32_t i = 0; i < 2; ++i) {
                schema_.id = i;
                PositionSet held;
                for (uint64_t number = 0; number < kParts; ++number) {
                    if (number % 2 == i) held = held.with(part(number));
                    owner_[number] = number % 2;
                }
                shards_.push_back(*TableShard::make(schema_, held, rules_, memory_, lists_));
            }
            const RowLayout one = (*rules_.find(rule))->layout(schema_.value_type, 1);
            state_per_value_ = one.state_bytes / static_cast<uint32_t>(one.value_bytes());
        }

        void run(int steps) {
            for (int step = 0; step < steps && right_; ++step) {
                switch (random_.below(8)) {
                    case 0: move(random_.below(kParts)); break;
                    case 1: lose(random_.below(kParts)); break;
                    case 2: walk(); break;
                    case 3: known_push(); break;
                    default: push(); break;
                }
            }
            for (uint64_t number = 0; number < kParts; ++number)
                move(number);
            walk();
            CHECK(right_);
        }

    private:
        [[nodiscard]] uint64_t position(uint64_t key) const {
            return schema_.layout == Layout::kDense
                       ? PositionMap::dense(schema_.key_count).position(key)
                       : PositionMap::sparse().position(key);
        }

        [[nodiscard]] uint64_t owner(uint64_t key) const { return owner_[position(key) >> 60]; }

        std::vector<uint64_t> keys_of(uint64_t shard) {
            std::set<uint64_t> chosen;
            const uint64_t wanted = 1 + random_.below(random_.below(4) == 0 ? 800 : 30);
            for (uint64_t i = 0; i < 4 * wanted && chosen.size() < wanted; ++i) {
                const uint64_t key = schema_.layout == Layout::kDense
                                         ? random_.below(schema_.key_count)
                                         : random_.below(20'000);
                if (owner(key) == shard) chosen.insert(key);
            }
            return {chosen.begin(), chosen.end()};
        }

        Row initial() {
            return {std::vector<float>(schema_.width, 2.0F),
                    std::vector<float>(size_t{schema_.width} * state_per_value_, 0.0F)};
        }

        /// As the table computes it; rows are then read back, so that rounding does not matter.
        void push_list(uint64_t shard, const std::vector<uint64_t>& keys, const RowList& rows) {
            std::vector<float> deltas(keys.size() * schema_.width);
            for (float& delta : deltas)
                delta = static_cast<float>(random_.below(100));
            if (random_.below(3) == 0) {
                push_iteration(*shards_[shard], keys, rows, std::as_bytes(std::span(deltas)));
            } else {
                REQUIRE(shards_[shard]->push(rows, std::as_bytes(std::span(deltas))));
            }
            for (size_t i = 0; i < keys.size(); ++i) {
                Row& row = model_.try_emplace(keys[i], initial()).first->second;
                for (size_t v = 0; v < schema_.width; ++v) {
                    const float delta = deltas[i * schema_.width + v];
                    if (state_per_value_ == 0) {
                        row.values[v] += delta;
                    } else {
                        row.state[v] += delta * delta;
                        row.values[v] -= 0.5F * delta / (std::sqrt(row.state[v]) + 0.01F);
                    }
                }
            }
        }

        /// The only part of an iteration. What the table lists of it are these keys and their rows.
        void push_iteration(TableShard& table, const std::vector<uint64_t>& keys,
                            const RowList& list, std::span<const std::byte> deltas) {
            const std::map<uint64_t, uint32_t> row_of = [&] {
                std::map<uint64_t, uint32_t> found;
                for (size_t i = 0; i < keys.size(); ++i)
                    found[keys[i]] = list.rows[i];
                return found;
            }();
            std::vector<uint64_t> found;
            table.find_keys(list.rows, found);
            right_ &= found == keys;
            REQUIRE(table.push_aggregate(1, list, deltas));
            AggregatedRows listed;
            table.list_aggregated(1, listed);
            std::set<uint64_t> seen;
            for (size_t i = 0; i < listed.keys.size(); ++i) {
                const auto at = row_of.find(listed.keys[i]);
                right_ &= at != row_of.end() && at->second == listed.rows[i];
                right_ &= seen.insert(listed.keys[i]).second;
            }
            for (const KeyRange range : listed.ranges) {
                right_ &= table.is_in_extent(range);
                for (uint64_t key = range.begin; key < range.end; ++key)
                    right_ &= row_of.contains(key) && seen.insert(key).second;
            }
            right_ &= seen.size() == keys.size();
            table.apply_aggregate(1);
            table.list_aggregated(1, listed);
            right_ &= listed.keys.empty() && listed.ranges.empty();
        }

        void push() {
            const uint64_t shard = random_.below(2);
            const auto keys = keys_of(shard);
            if (keys.empty()) return;
            push_list(shard, keys, *shards_[shard]->rows_for_push(keys));
            if (keys.size() >= kRememberedKeysMin) known_[shard] = keys;
        }

        /// A list that was pushed before: forgotten if one of its keys was given up since.
        void known_push() {
            const uint64_t shard = random_.below(2);
            const auto& keys = known_[shard];
            if (keys.empty()) return;
            const Result<RowList> rows = shards_[shard]->known_rows(list_id(keys));
            const bool all_held =
                std::ranges::all_of(keys, [&](uint64_t key) { return owner(key) == shard; });
            if (!all_held) {
                right_ &= !rows && !shards_[shard]->rows_for_push(keys);
            } else if (rows) {
                ++known_used_;
                push_list(shard, keys, *rows);
            }
        }

        bool same(const Row& row, const float* values, const float* state) {
            const auto close = [](float a, float b) {
                return std::abs(a - b) <= 1e-3F * (1 + std::abs(a));
            };
            return std::equal(row.values.begin(), row.values.end(), values, close) &&
                   std::equal(row.state.begin(), row.state.end(), state, close);
        }

        struct Copied {
            KeyRange range;
            std::vector<uint64_t> keys;
            std::vector<float> values;
            std::vector<float> state;
        };

        Copied copy(uint64_t shard, KeyCursor& cursor, const PositionSet& positions) {
            ListedRows listed;
            const size_t most = 1 + random_.below(random_.below(2) == 0 ? 10 : 2000);
            shards_[shard]->list(cursor, positions, most, listed);
            right_ &= listed.row_count() <= most;
            Copied copied{listed.range, listed.keys, {}, {}};
            for (uint64_t key = listed.range.begin; key < listed.range.end; ++key)
                copied.keys.push_back(key);
            copied.values.resize(listed.row_count() * schema_.width);
            copied.state.resize(copied.values.size() * state_per_value_);
            shards_[shard]->copy_values(listed, std::as_writable_bytes(std::span(copied.values)));
            shards_[shard]->copy_state(listed, std::as_writable_bytes(std::span(copied.state)));
            for (size_t i = 0; i < copied.keys.size(); ++i) {
                const uint64_t key = copied.keys[i];
                right_ &= positions.contains(position(key));
                const Row fresh = initial();
                const auto at = model_.find(key);
                right_ &= at != model_.end() || schema_.layout == Layout::kDense;
                right_ &= same(at == model_.end() ? fresh : at->second,
                               copied.values.data() + i * schema_.width,
                               copied.state.data() + i * schema_.width * state_per_value_);
            }
            return copied;
        }

        /// Both shards' rows are those of the model, each once.
        void walk() {
            std::set<uint64_t> seen;
            for (uint64_t shard = 0; shard < 2; ++shard) {
                size_t count = 0;
                for (KeyCursor cursor; !cursor.at_end;) {
                    for (const uint64_t key : copy(shard, cursor, PositionSet::whole_ring()).keys) {
                        right_ &= owner(key) == shard && seen.insert(key).second;
                        ++count;
                    }
                }
                right_ &= count == shards_[shard]->row_count();
            }
            right_ &= seen.size() ==
                      (schema_.layout == Layout::kDense ? schema_.key_count : model_.size());
        }

        void finish_drop(uint64_t shard) {
            while (shards_[shard]->drop_some()) {
            }
        }

        void move(uint64_t number) {
            const uint64_t from = owner_[number];
            hold_and_serve(*shards_[1 - from], part(number));
            for (KeyCursor cursor; !cursor.at_end;) {
                const Copied some = copy(from, cursor, part(number));
                const auto values = std::as_bytes(std::span(some.values));
                const auto state = std::as_bytes(std::span(some.state));
                if (some.keys.empty()) continue;
                const bool as_list = some.range.empty() || random_.below(2) == 0;
                const Status taken = as_list ? shards_[1 - from]->take(some.keys, values, state)
                                             : shards_[1 - from]->take(some.range, values, state);
                REQUIRE(taken);
            }
            shards_[from]->give_up(part(number));
            owner_[number] = 1 - from;
            finish_drop(from);
        }

        /// A part begins anew, with initial values.
        void lose(uint64_t number) {
            const uint64_t shard = owner_[number];
            shards_[shard]->give_up(part(number));
            if (random_.below(2) == 0) finish_drop(shard);
            hold_and_serve(*shards_[shard], part(number));
            std::erase_if(model_,
                          [&](const auto& at) { return position(at.first) >> 60 == number; });
            known_[shard].clear();
        }

        Random random_;
        TableSchema schema_;
        RuleRegistry rules_ = RuleRegistry::with_builtin_rules();
        SplittingMemory memory_;
        KnownLists lists_;
        std::vector<std::unique_ptr<TableShard>> shards_;
        std::map<uint64_t, Row> model_;
        uint64_t owner_[kParts] = {};
        std::vector<uint64_t> known_[2];
        uint32_t state_per_value_ = 0;
        size_t known_used_ = 0;
        bool right_ = true;
    };

    TEST_CASE("rows that move, are dropped and come again are those of a map") {
        WEIR_TEST_SEED(seed, 51);
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            for (const uint32_t width : {1U, 3U}) {
                for (const char* rule : {"add", "adagrad"}) {
                    for (int i = 0; i < 5; ++i) {
                        CAPTURE(rule);
                        CAPTURE(width);
                        CAPTURE(seed);
                        MoveHistory(layout, width, rule, seed + static_cast<uint64_t>(i)).run(300);
                    }
                }
            }
        }
    }

    static std::vector<uint64_t> keys_in(const PositionSet& positions, size_t count,
                                         uint64_t first) {
        std::vector<uint64_t> keys;
        for (uint64_t key = first; keys.size() < count; ++key) {
            if (positions.contains(PositionMap::sparse().position(key))) keys.push_back(key);
        }
        return keys;
    }

    static void push_ones(TableShard & table, const std::vector<uint64_t>& keys) {
        const std::vector<float> ones(keys.size(), 1.0F);
        REQUIRE(table.push(*table.rows_for_push(keys), std::as_bytes(std::span(ones))));
    }

    TEST_CASE("the room of dropped rows is used again, however often") {
        HeapMemory memory;
        KnownLists lists(memory, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto table = *TableShard::make({.name = "t", .layout = Layout::kSparse},
                                             PositionSet::whole_ring(), rules, memory, lists);
        const PositionSet half = part(0).with(part(1)).with(part(5)).with(part(9));
        push_ones(*table, keys_in(PositionSet::whole_ring().without(half), 60'000, 0));
        push_ones(*table, keys_in(half, 60'000, 0));
        const size_t bytes = table->bytes();
        for (uint64_t round = 1; round <= 5; ++round) {
            table->give_up(half);
            int steps = 0;
            while (table->drop_some())
                ++steps;
            CHECK(table->row_count() == 60'000);
            hold_and_serve(*table, half);
            const auto keys = keys_in(half, 60'000, round * 1'000'000);
            std::vector<float> out(keys.size());
            REQUIRE(
                table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
            CHECK(std::ranges::count(out, 0.0F) == 60'000);
            push_ones(*table, keys);
            REQUIRE(
                table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
            CHECK(std::ranges::count(out, 1.0F) == 60'000);
            CHECK(table->bytes() == bytes);
        }
        table->give_up(PositionSet::whole_ring());
        while (table->drop_some()) {
        }
        CHECK(table->row_count() == 0);
        CHECK(memory.bytes_in_use() == 0);
        hold_and_serve(*table, PositionSet::whole_ring());
        push_ones(*table, keys_in(half, 1000, 0));
    }

    TEST_CASE("who waits with a known list writes no rows that have become other keys' meanwhile") {
        HeapMemory memory;
        KnownLists lists(memory, 1 << 20);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto table = *TableShard::make({.name = "t", .layout = Layout::kSparse},
                                             PositionSet::whole_ring(), rules, memory, lists);
        const auto first = keys_in(part(1), 500, 0);
        push_ones(*table, first);
        const auto waiting = lists.find(table->schema().id, list_id(first));
        REQUIRE(waiting != nullptr);
        table->give_up(part(1));
        while (table->drop_some()) {
        }
        const auto others = keys_in(part(2), 500, 0);
        push_ones(*table, others);
        CHECK(table->row_count() == 500);
        hold_and_serve(*table, part(1));
        const std::vector<float> ones(500, 1.0F);
        const auto rows = table->known_rows(waiting->id);
        CHECK(rows.code() == Errc::kUnknownList);  // the worker sends the keys
        if (rows) (void)table->push(*rows, std::as_bytes(std::span(ones)));
        std::vector<float> out(500);
        REQUIRE(table->pull(*table->rows_for_pull(others), std::as_writable_bytes(std::span(out))));
        CHECK(out == ones);
    }

    TEST_CASE("an extent whose rows are all dropped goes back, and comes again when needed") {
        HeapMemory memory;
        KnownLists lists(memory, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto table = *TableShard::make({.name = "t", .layout = Layout::kSparse, .width = 100},
                                             PositionSet::whole_ring(), rules, memory, lists);
        const auto push_wide = [&](const std::vector<uint64_t>& keys) {
            const std::vector<float> ones(keys.size() * 100, 1.0F);
            REQUIRE(table->push(*table->rows_for_push(keys), std::as_bytes(std::span(ones))));
        };
        push_wide(keys_in(part(1), 5000, 0));
        push_wide(keys_in(part(2), 50'000, 0));  // extents of their own, but for the first rows
        push_wide(keys_in(part(3), 100, 0));
        const size_t all = table->bytes();
        table->give_up(part(2));
        while (table->drop_some()) {
        }
        CHECK(table->bytes() < all - all / 3);
        hold_and_serve(*table, part(2));
        push_wide(keys_in(part(2), 50'000, 10'000'000));
        CHECK(table->bytes() == all);
        std::vector<float> out(50'000 * 100);
        const auto keys = keys_in(part(2), 50'000, 10'000'000);
        REQUIRE(table->pull(*table->rows_for_pull(keys), std::as_writable_bytes(std::span(out))));
        CHECK(std::ranges::count(out, 1.0F) == 5'000'000);
    }

    TEST_CASE("a dense table gives back what it drops, also parts of a range") {
        SplittingMemory memory;
        KnownLists lists(memory, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        TableSchema schema{.name = "t", .key_count = 16'000, .rule = "adagrad"};
        schema.parameters.value = {1, 1};
        const auto table =
            *TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists);
        CHECK(memory.in_use() == 2 * 64'000);
        table->give_up(part(3));
        CHECK(table->row_count() == 15'000);
        CHECK(memory.in_use() <= 2 * (60'000 + 2 * 64));
        CHECK(table->bytes() == memory.in_use());
        CHECK(table->values({0, 3000}));
        CHECK(table->values({3000, 3001}).code() == Errc::kOutOfRange);
        CHECK(table->values({4000, 16'000}));
        table->give_up(part(0).with(part(4)).with(part(15)));
        CHECK(memory.in_use() <= 2 * (48'000 + 6 * 64));
        hold_and_serve(*table, part(4));
        CHECK(table->values({4000, 5000}));
        CHECK(table->values({4000, 5001}).code() == Errc::kOutOfRange);  // two arrays
        table->give_up(PositionSet::whole_ring());
        CHECK(memory.in_use() == 0);
        CHECK(table->bytes() == 0);
    }

    TEST_CASE("keys that are held and not served can be taken, and nothing else") {
        for (const Layout layout : {Layout::kDense, Layout::kSparse}) {
            CAPTURE(layout);
            HeapMemory memory;
            KnownLists lists(memory, size_t{1} << 20);
            const RuleRegistry rules = RuleRegistry::with_builtin_rules();
            const auto table =
                *TableShard::make({.name = "t", .layout = layout, .key_count = 16'000},
                                  part(1).with(part(2)), rules, memory, lists);
            const bool is_dense = layout == Layout::kDense;
            const auto some_of = [&](uint64_t number) {
                if (!is_dense) return keys_in(part(number), kRememberedKeysMin, 0);
                std::vector<uint64_t> keys(kRememberedKeysMin);
                std::iota(keys.begin(), keys.end(), number * 1000);
                return keys;
            };
            const auto served = some_of(1);
            const auto held = some_of(2);
            const std::vector<float> ones(held.size(), 1.0F);
            const auto bytes = std::as_bytes(std::span(ones));
            REQUIRE(table->push(*table->rows_for_push(held), bytes));  // at first all is served
            CHECK(table->known_rows(list_id(held)));
            table->serve(part(1));
            CHECK(table->known_rows(list_id(held)).code() == Errc::kUnknownList);
            CHECK(table->rows_for_push(held).code() == Errc::kOutOfRange);
            CHECK(table->rows_for_pull(held).code() == Errc::kOutOfRange);
            CHECK(table->rows_for_push(served));
            const Result<RowList> taken = table->rows_to_take(held);
            REQUIRE(taken);
            CHECK(table->take(*taken, bytes, {}));
            CHECK(table->known_rows_to_take(list_id(held)));
            CHECK(table->known_rows(list_id(held)).code() == Errc::kUnknownList);
            CHECK(table->take(held, bytes, {}));
            hold_and_serve(*table, part(3));
            CHECK(table->rows_for_push(held));
            table->give_up(part(2));
            CHECK(table->known_rows(list_id(held)).code() == Errc::kUnknownList);
            CHECK(table->known_rows_to_take(list_id(held)).code() == Errc::kUnknownList);
            CHECK(table->rows_for_push(served));
        }
    }

    TEST_CASE("rows that do not fit the table are refused") {
        HeapMemory memory;
        KnownLists lists(memory, 0);
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto sparse = *TableShard::make({.name = "t", .layout = Layout::kSparse}, part(1),
                                              rules, memory, lists);
        const auto keys = keys_in(part(1), 10, 0);
        const std::vector<float> values(10);
        const auto bytes = std::as_bytes(std::span(values));
        CHECK(sparse->take(keys, bytes, {}));
        CHECK(sparse->take(keys, bytes.first(36), {}).code() == Errc::kInvalidArgument);
        CHECK(sparse->take(keys, bytes, bytes).code() == Errc::kInvalidArgument);
        CHECK(sparse->take(keys_in(part(2), 10, 0), bytes, {}).code() == Errc::kOutOfRange);
        CHECK(sparse->take(KeyRange{0, 10}, bytes, {}).code() == Errc::kInvalidArgument);
        CHECK(sparse->row_count() == 10);
        // A faulty peer's list may name a key twice: it still has one row.
        const std::vector<uint64_t> twice(10, keys_in(part(1), 1, 10'000).front());
        CHECK(sparse->take(twice, bytes, {}));
        CHECK(sparse->row_count() == 11);
    }
}
