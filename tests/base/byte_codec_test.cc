// SPDX-License-Identifier: Apache-2.0
#include "lib/base/byte_codec.h"

#include <array>
#include <cstddef>

#include <doctest/doctest.h>

TEST_SUITE("byte codec") {
    using weir::ByteReader;
    using weir::ByteWriter;

    TEST_CASE("written fields are read back, and no bytes are left") {
        ByteWriter writer;
        writer.number(uint16_t{7}).text("shm:a b").number(1.5);
        ByteReader reader(writer.bytes());
        CHECK(reader.number<uint16_t>() == 7);
        CHECK(reader.text() == "shm:a b");
        CHECK_FALSE(reader.done());
        CHECK(reader.number<double>() == 1.5);
        CHECK(reader.done());
    }

    TEST_CASE("every truncation of a message is an error, and is read within its bytes") {
        ByteWriter writer;
        writer.number(uint32_t{7}).text("twelve bytes").number(uint64_t{9});
        for (size_t size = 0; size < writer.bytes().size(); ++size) {
            const std::vector<std::byte> cut(writer.bytes().begin(), writer.bytes().begin() + size);
            ByteReader reader(cut);
            (void)reader.number<uint32_t>();
            (void)reader.text();
            (void)reader.number<uint64_t>();
            CHECK_FALSE(reader.done());
        }
    }

    TEST_CASE("a text longer than allowed, or than the remaining bytes, is refused") {
        ByteWriter writer;
        writer.number(uint32_t{0xffffffff}).text("abc");
        ByteReader lying(writer.bytes());
        CHECK(lying.text().empty());
        CHECK_FALSE(lying.ok());
        ByteWriter longer;
        longer.text("abcdef");
        ByteReader bounded(longer.bytes());
        CHECK(bounded.text(5).empty());
        CHECK_FALSE(bounded.ok());
    }

    TEST_CASE("a flag is 0 or 1, and what is neither is refused") {
        const std::array<std::byte, 3> bytes{std::byte{1}, std::byte{0}, std::byte{2}};
        ByteReader reader(bytes);
        bool value = false;
        CHECK(reader.flag(value));
        CHECK(value);
        CHECK(reader.flag(value));
        CHECK_FALSE(value);
        CHECK(reader.ok());
        CHECK_FALSE(reader.flag(value));
        CHECK_FALSE(reader.ok());
        CHECK_FALSE(reader.flag(value));  // none is left
    }

    TEST_CASE("bytes are read back as they are, and zeros where there are too few") {
        const std::array<std::byte, 3> three{std::byte{1}, std::byte{2}, std::byte{3}};
        ByteWriter writer;
        writer.raw(three).number(uint8_t{9});
        ByteReader reader(writer.bytes());
        CHECK(reader.array<3>() == three);
        CHECK(reader.rest().size() == 1);
        CHECK(reader.done());
        ByteReader brief(writer.bytes());
        CHECK(brief.array<5>() == std::array<std::byte, 5>{});
        CHECK_FALSE(brief.ok());
        CHECK(brief.number<uint8_t>() == 0);  // after an error every read gives 0
    }
}
