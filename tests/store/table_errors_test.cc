// SPDX-License-Identifier: Apache-2.0
/// \file
/// Mistakes of a peer or a user: they are refused with the right code, and no value changes.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/random.h"
#include "lib/store/rules/rule_registry.h"
#include "lib/store/rules/rules.h"
#include "lib/store/table.h"
#include "tests/store/made_table.h"

TEST_SUITE("table_errors") {
    using namespace weir;

    static Errc refusal(TableSchema schema) {
        HeapMemory memory;
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        if (schema.key_count == 0 && schema.width != 5) schema.key_count = 10;
        KnownLists lists(memory, 0);
        return TableShard::make(schema, PositionSet::whole_ring(), rules, memory, lists).code();
    }

    TEST_CASE("a schema that makes no sense is refused") {
        CHECK(refusal({}) == Errc::kOk);
        CHECK(refusal({.layout = static_cast<Layout>(2)}) == Errc::kInvalidArgument);
        CHECK(refusal({.value_type = static_cast<ValueType>(8)}) == Errc::kInvalidArgument);
        CHECK(refusal({.width = 0}) == Errc::kInvalidArgument);
        CHECK(refusal({.width = TableSchema::kWidthMax + 1}) == Errc::kInvalidArgument);
        CHECK(refusal({.width = 5, .key_count = 0}) == Errc::kInvalidArgument);
        CHECK(refusal({.name = "t", .max_delay = 63}) == Errc::kOk);
        CHECK(refusal({.name = "t", .max_delay = 64}) == Errc::kInvalidArgument);
        CHECK(refusal({.name = "t", .max_delay = ~uint32_t{0}}) == Errc::kInvalidArgument);
        CHECK(refusal({.key_count = ~uint64_t{0}}) == Errc::kInvalidArgument);
        CHECK(refusal({.key_count = uint64_t{1} << 50}) == Errc::kInvalidArgument);
        CHECK(refusal({.rule = "nonsense"}) == Errc::kNotFound);
        CHECK(refusal({.initial_value = std::nan("")}) == Errc::kInvalidArgument);
        CHECK(refusal({.value_type = ValueType::kUInt32, .initial_value = -1}) ==
              Errc::kInvalidArgument);
        CHECK(refusal({.value_type = ValueType::kInt64, .initial_value = 0x1p63}) ==
              Errc::kInvalidArgument);
        CHECK(refusal({.value_type = ValueType::kUInt64, .initial_value = 0x1p63}) == Errc::kOk);
        for (const char* rule : {"sgd", "adagrad", "prox_l1"}) {
            CHECK(refusal({.value_type = ValueType::kInt32, .rule = rule}) == Errc::kTypeMismatch);
            CHECK(refusal({.rule = rule, .parameters = {{std::nan(""), 1}}}) ==
                  Errc::kInvalidArgument);
        }
        CHECK(refusal({.rule = "prox_l1", .parameters = {{1, 0}}}) == Errc::kInvalidArgument);
    }

    TEST_CASE(
        "a rule without its parameters is refused, with the name and value of what is wrong") {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto why = [&](const Rule& rule) {
            const auto found = check_schema(
                {.name = "t", .key_count = 1, .rule = rule.name, .parameters = rule.parameters},
                rules);
            return found ? std::string() : found.error().text();
        };
        const double infinity = std::numeric_limits<double>::infinity();
        CHECK(why("sgd") == "table 't': rule 'sgd': rate must be greater than 0, is 0");
        CHECK(why(sgd(-0.5)) == "table 't': rule 'sgd': rate must be greater than 0, is -0.5");
        CHECK(why(sgd(infinity)) == "table 't': rule 'sgd': rate must be finite, is inf");
        CHECK(why(adagrad(0)) == "table 't': rule 'adagrad': rate must be greater than 0, is 0");
        CHECK(why(adagrad(1, 0)) ==
              "table 't': rule 'adagrad': epsilon must be greater than 0, is 0");
        CHECK(why(prox_l1(-1)) == "table 't': rule 'prox_l1': lambda must be 0 or greater, is -1");
        CHECK(why(prox_l1(0, 0)) ==
              "table 't': rule 'prox_l1': first_trust must be greater than 0, is 0");
        // What is sound as a double may not be as the table's type.
        CHECK(why(adagrad(1, 1e-50)) ==
              "table 't': rule 'adagrad': epsilon must be greater than 0, is 1e-50, which is 0 for "
              "float32");
        CHECK(why(sgd(1e39)) ==
              "table 't': rule 'sgd': rate must be finite, is 1e+39, which is inf for float32");
        CHECK(why({"add", {{0.1}}}) ==
              "table 't': rule 'add': it has 0 parameters, but parameter 1 is 0.1");
        for (const Rule& rule : {Rule(), assign(), add(), max(), min(), sgd(0.1),
                                 adagrad(0.1, 1e-8), prox_l1(1), prox_l1(0, 0.5)}) {
            CHECK_MESSAGE(why(rule).empty(), rule.name);
        }
    }

    TEST_CASE("an initial value that the type cannot have, and a missing key_count, are named") {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const auto why = [&](ValueType type, double initial) {
            return check_schema(
                       {.name = "t", .value_type = type, .key_count = 1, .initial_value = initial},
                       rules)
                .error()
                .text();
        };
        CHECK(why(ValueType::kFloat32, std::nan("")) ==
              "table 't': the initial value must be finite, is nan");
        CHECK(why(ValueType::kFloat32, 1e300) ==
              "table 't': the initial value 1e+300 is not a value of type float32");
        CHECK(why(ValueType::kUInt64, -0.5) ==
              "table 't': the initial value -0.5 is not a value of type uint64");
        CHECK(check_schema({.name = "t"}, rules).error().text() ==
              "table 't': a dense table needs a key_count, the number of its keys");
    }

    TEST_CASE("a table that exists with another property is refused, and the property is named") {
        const RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const TableSchema is{.name = "t",
                             .layout = Layout::kSparse,
                             .rule = "sgd",
                             .parameters = sgd(0.1).parameters};
        CHECK(check_same(is, is, rules).has_value());
        const auto why = [&](auto change) {
            TableSchema wanted = is;
            change(wanted);
            const Status status = check_same(is, wanted, rules);
            REQUIRE_FALSE(status.has_value());
            std::string text =
                fmt::format("{}: {}", to_string(status.code()), status.error().text());
            const std::string_view cure = "; ask for the same, or choose another name";
            if (text.ends_with(cure)) return text.substr(0, text.size() - cure.size());
            return text + (status.code() == Errc::kTypeMismatch ? "" : " (no cure)");
        };
        CHECK(why([](TableSchema& t) { t.width = 3; }) ==
              "type mismatch: table 't' exists with 1 value of type float32 per key; 3 of type "
              "float32 were asked for");
        CHECK(why([](TableSchema& t) { t.value_type = ValueType::kInt64; }) ==
              "type mismatch: table 't' exists with 1 value of type float32 per key; 1 of type "
              "int64 was asked for");
        CHECK(why([](TableSchema& t) { t.layout = Layout::kDense; }) ==
              "already exists: table 't' exists with layout sparse; dense was asked for");
        CHECK(why([](TableSchema& t) { t.key_count = 9; }) ==
              "already exists: table 't' exists with key_count 0; 9 was asked for");
        CHECK(why([](TableSchema& t) { t.rule = "add"; }) ==
              "already exists: table 't' exists with rule sgd; add was asked for");
        CHECK(why([](TableSchema& t) { t.parameters = sgd(0.2).parameters; }) ==
              "already exists: table 't' exists with the rule sgd with rate 0.1; 0.2 was asked "
              "for");
        CHECK(why([](TableSchema& t) { t.initial_value = 1; }) ==
              "already exists: table 't' exists with initial_value 0; 1 was asked for");
        CHECK(why([](TableSchema& t) { t.allow_not_finite = true; }) ==
              "already exists: table 't' exists with allow_not_finite false; true was asked for");
    }

    TEST_CASE("ranges outside of the table, empty, reversed or of the wrong size change nothing") {
        HeapMemory memory;
        const auto table = made({.name = "t", .key_count = 100}, memory);
        const std::vector<float> ones(101, 1.0F);
        const auto bytes = std::as_bytes(std::span(ones));
        CHECK(table->push({0, 101}, bytes).code() == Errc::kOutOfRange);
        CHECK(table->push({~uint64_t{0} - 1, ~uint64_t{0}}, bytes.first(4)).code() ==
              Errc::kOutOfRange);
        CHECK(table->push({5, 5}, {}).code() == Errc::kInvalidArgument);
        CHECK(table->push({6, 5}, {}).code() == Errc::kInvalidArgument);
        CHECK(table->push({0, 10}, bytes.first(39)).code() == Errc::kInvalidArgument);
        CHECK(table->push({0, 10}, bytes.first(44)).code() == Errc::kInvalidArgument);
        CHECK(table->push({0, 10}, bytes.subspan(1, 40)).code() == Errc::kInvalidArgument);
        CHECK(table->push_aggregate(1, {0, 10}, bytes.first(44)).code() == Errc::kInvalidArgument);
        CHECK(table->values({0, 101}).code() == Errc::kOutOfRange);
        for (const KeyRange any : {KeyRange{0, 101}, KeyRange{~uint64_t{0} - 1, ~uint64_t{0}},
                                   KeyRange{5, 5}, KeyRange{6, 5}, KeyRange{99, 100}}) {
            table->prefetch(any);
        }
        table->apply_aggregate(1);
        const auto values = *table->values({0, 100});
        for (const std::byte byte : values)
            CHECK(byte == std::byte{0});
    }

    TEST_CASE("unsorted and duplicate keys are refused wherever they are, and change nothing") {
        HeapMemory memory;
        const auto table = made({.name = "t", .layout = Layout::kSparse}, memory);
        for (const size_t count :
             {size_t{2}, size_t{100}, size_t{16384}, size_t{16385}, size_t{50'000}}) {
            for (const size_t at :
                 {size_t{1}, count / 2, std::min(count - 1, size_t{16384}), count - 1}) {
                auto keys = numbers(count, 5);
                keys[at] = keys[at - 1];
                CHECK(table->rows_for_push(keys).code() == Errc::kInvalidArgument);
                CHECK(table->rows_for_pull(keys).code() == Errc::kInvalidArgument);
            }
        }
        CHECK(table->row_count() == 0);
    }

    TEST_CASE("only owned keys are served, dense and sparse, by range and by list") {
        HeapMemory memory;
        const PositionRange low{0, ~uint64_t{0} / 2};
        const PositionSet owned(std::span(&low, 1));
        const auto dense = made({.name = "t", .key_count = 100}, memory, owned);
        CHECK(dense->row_count() == 50);
        CHECK(dense->values({0, 50}));
        CHECK(dense->values({0, 51}).code() == Errc::kOutOfRange);
        CHECK(dense->rows_for_push(numbers(50)));
        CHECK(dense->rows_for_push(numbers(51)).code() == Errc::kOutOfRange);
        const uint64_t huge[] = {~uint64_t{0}};
        CHECK(dense->rows_for_pull(huge).code() == Errc::kOutOfRange);

        const auto sparse = made({.name = "t", .layout = Layout::kSparse}, memory, owned);
        std::vector<uint64_t> mine;
        uint64_t other = 0;
        for (const uint64_t key : numbers(1000)) {
            if (low.contains(mix64(key))) {
                mine.push_back(key);
            } else {
                other = key;
            }
        }
        REQUIRE(sparse->rows_for_push(mine));
        CHECK(sparse->row_count() == mine.size());
        CHECK(sparse->rows_for_pull(std::span(&other, 1)).code() == Errc::kOutOfRange);
        mine.insert(std::lower_bound(mine.begin(), mine.end(), other), other);
        CHECK(sparse->rows_for_push(mine).code() == Errc::kOutOfRange);
    }

    TEST_CASE("a list push or pull of the wrong size or alignment changes nothing") {
        HeapMemory memory;
        const auto table = made({.name = "t", .layout = Layout::kSparse, .width = 2}, memory);
        std::vector<float> values(41, 1.0F);
        const auto bytes = std::as_bytes(std::span(values));
        const RowList list = *table->rows_for_push(numbers(20));
        CHECK(table->push(list, bytes.first(156)).code() == Errc::kInvalidArgument);
        CHECK(table->push(list, bytes.first(164)).code() == Errc::kInvalidArgument);
        CHECK(table->push(list, bytes.subspan(2, 160)).code() == Errc::kInvalidArgument);
        CHECK(table->push_aggregate(1, list, bytes).code() == Errc::kInvalidArgument);
        CHECK(table->pull(list, std::as_writable_bytes(std::span(values))).code() ==
              Errc::kInvalidArgument);
        values.resize(40);
        REQUIRE(table->pull(list, std::as_writable_bytes(std::span(values))));
        for (const float value : values)
            CHECK(value == 0.0F);
    }

    TEST_CASE("a sparse table has no ranges, and an empty list is a list") {
        HeapMemory memory;
        const auto table = made({.name = "t", .layout = Layout::kSparse}, memory);
        CHECK(table->push({0, 1}, {}).code() == Errc::kInvalidArgument);
        CHECK(table->values({0, 1}).code() == Errc::kInvalidArgument);
        table->prefetch({0, 1});
        const RowList none = *table->rows_for_push({});
        CHECK(table->push(none, {}));
        CHECK(table->push_aggregate(1, none, {}));
        CHECK(table->pull(none, {}));
    }

    /// The same memory at two places, as a peer and we see it.
    class SharedKeys {
    public:
        explicit SharedKeys(size_t count) : bytes_(count * sizeof(uint64_t)) {
            const int file = memfd_create("keys", MFD_CLOEXEC);
            REQUIRE(ftruncate(file, static_cast<off_t>(bytes_)) == 0);
            for (uint64_t*& side : sides_) {
                void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
                REQUIRE(at != MAP_FAILED);
                side = static_cast<uint64_t*>(at);
            }
            close(file);
        }

        SharedKeys(SharedKeys&&) = delete;
        SharedKeys& operator=(SharedKeys&&) = delete;

        ~SharedKeys() {
            for (uint64_t* side : sides_)
                munmap(side, bytes_);
        }

        [[nodiscard]] uint64_t* ours() const { return sides_[0]; }

        [[nodiscard]] uint64_t* theirs() const { return sides_[1]; }

    private:
        size_t bytes_;
        uint64_t* sides_[2] = {};
    };

    TEST_CASE("a list that changes while it is read is refused, or is one of the lists it was") {
        HeapMemory memory;
        const auto table =
            made({.name = "t", .layout = Layout::kSparse}, memory, PositionSet::whole_ring(), 0);
        constexpr size_t kCount = 60'000;
        std::vector<uint64_t> states[2] = {numbers(kCount, 10), numbers(kCount, 10)};
        for (const size_t at : {size_t{7}, size_t{20'000}, kCount - 5})
            states[1][at] += 1;
        std::vector<uint32_t> rows[2];
        for (int i = 0; i < 2; ++i) {
            const RowList list = *table->rows_for_push(states[i]);
            rows[i].assign(list.rows.begin(), list.rows.end());
        }
        const SharedKeys keys(kCount);
        std::ranges::copy(states[0], keys.ours());
        std::atomic<bool> stop = false;
        std::thread peer([&] {
            for (size_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
                for (const size_t at : {size_t{7}, size_t{20'000}, kCount - 5})
                    std::atomic_ref(keys.theirs()[at])
                        .store(states[turn % 2][at], std::memory_order_relaxed);
                for (int pause = 0; pause < 20'000; ++pause)
                    stop.load(std::memory_order_relaxed);
            }
        });
        int wrong = 0;
        for (int round = 0; round < 300; ++round) {
            const auto list = table->rows_for_push({keys.ours(), kCount});
            if (!list) {
                wrong += list.code() == Errc::kInvalidArgument ? 0 : 1;
                continue;
            }
            for (int i = 0; i < 2; ++i) {
                if (list->id == list_id(states[i]))
                    wrong += std::ranges::equal(list->rows, rows[i]) ? 0 : 1;
            }
        }
        stop = true;
        peer.join();
        CHECK(wrong == 0);
        for (int i = 0; i < 2; ++i)
            CHECK(std::ranges::equal(table->rows_for_pull(states[i])->rows, rows[i]));
    }
}
