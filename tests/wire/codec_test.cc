// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/codec.h"

#include <doctest/doctest.h>

TEST_SUITE("codec") {
    using namespace weir::wire;

    TEST_CASE("what was written is read back, and nothing is left") {
        Writer writer;
        writer.number(uint16_t{7}).text("shm:a b").number(1.5);
        Reader reader(writer.bytes());
        CHECK(reader.number<uint16_t>() == 7);
        CHECK(reader.text() == "shm:a b");
        CHECK_FALSE(reader.done());
        CHECK(reader.number<double>() == 1.5);
        CHECK(reader.done());
    }

    TEST_CASE("every truncation of a message is noticed and read within its bytes") {
        Writer writer;
        writer.number(uint32_t{7}).text("twelve bytes").number(uint64_t{9});
        for (size_t size = 0; size < writer.bytes().size(); ++size) {
            const std::vector<std::byte> cut(writer.bytes().begin(), writer.bytes().begin() + size);
            Reader reader(cut);
            (void)reader.number<uint32_t>();
            (void)reader.text();
            (void)reader.number<uint64_t>();
            CHECK_FALSE(reader.done());
        }
    }

    TEST_CASE("a text longer than allowed, or than what is there, is refused") {
        Writer writer;
        writer.number(uint32_t{0xffffffff}).text("abc");
        Reader lying(writer.bytes());
        CHECK(lying.text().empty());
        CHECK_FALSE(lying.ok());
        Writer longer;
        longer.text("abcdef");
        Reader bounded(longer.bytes());
        CHECK(bounded.text(5).empty());
        CHECK_FALSE(bounded.ok());
    }
}
