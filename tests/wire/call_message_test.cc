// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/call_message.h"

#include <vector>

#include <doctest/doctest.h>

#include "lib/wire/scan_message.h"

using namespace weir;

TEST_SUITE("call_message") {
    TEST_CASE("a call is the same after it has travelled, alone and in a scan") {
        for (size_t numbers = 0; numbers <= CallMessage::kNumbersMax; ++numbers) {
            for (uint32_t tables = 0; tables <= CallMessage::kTablesMax; ++tables) {
                CallMessage call{.function = 0x123456789abcdef0, .numbers = {}, .tables = {}};
                for (size_t i = 0; i < numbers; ++i)
                    call.numbers.push_back(static_cast<double>(i) / 3);
                for (uint32_t i = 0; i < tables; ++i)
                    call.tables.push_back(100 + i);
                const std::vector<std::byte> bytes = call.encode();
                CHECK(bytes.size() % 8 == 0);
                CHECK(bytes.size() <= wire::kCallWordsMax * 8);
                CHECK(call.encode_with_count().size() == bytes.size() + 8);
                const auto back = CallMessage::decode(bytes);
                REQUIRE(back.has_value());
                CHECK(back->function == call.function);
                CHECK(back->numbers == call.numbers);
                CHECK(back->tables == call.tables);
                ScanMessage scan;
                scan.call = call;
                const auto scanned = ScanMessage::decode(scan.encode());
                REQUIRE(scanned.has_value());
                CHECK(scanned->call.numbers == call.numbers);
                CHECK(scanned->call.tables == call.tables);
                CHECK(scanned->positions == scan.positions);
                for (size_t size = 0; size < bytes.size(); ++size)
                    CHECK_FALSE(CallMessage::decode(std::span(bytes).first(size)).has_value());
            }
        }
    }

    TEST_CASE("the reply of a function says what it shows") {
        const ScanReply reply{.cursor = 5, .row_count = 24, .flags = ScanReply::kAtEnd, .shown = 9};
        const auto back = ScanReply::decode(reply.encode());
        REQUIRE(back.has_value());
        CHECK(back->cursor == 5);
        CHECK(back->row_count == 24);
        CHECK(back->flags == ScanReply::kAtEnd);
        CHECK(back->shown == 9);
    }
}
