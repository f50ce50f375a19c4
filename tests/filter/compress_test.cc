// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/compress.h"

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("compress") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    Bytes compressed(const Bytes& raw) {
        Bytes body(compress_bytes_max(raw.size()));
        body.resize(compress(raw, body).value_or(0));
        body.shrink_to_fit();
        return body;
    }

    }  // namespace

    TEST_CASE("what gets smaller comes back") {
        WEIR_TEST_SEED(seed, 51);
        Random random(seed);
        for (const size_t size : {64, 100, 4096, 100'000, 1'000'003}) {
            Bytes raw(size);
            for (std::byte& byte : raw)
                byte = static_cast<std::byte>(random.below(100) < 90 ? 0 : random());
            const Bytes body = compressed(raw);
            REQUIRE(!body.empty());
            CHECK(body.size() < raw.size());
            CHECK(decompressed_bytes(body, size).value() == size);
            Bytes back(size);
            CHECK(decompress(body, back));
            CHECK(back == raw);
        }
    }

    TEST_CASE("what gets no smaller is given up") {
        WEIR_TEST_SEED(seed, 52);
        Random random(seed);
        for (const size_t size : {0, 1, 2, 10, 1000, 70'000}) {
            Bytes raw(size);
            for (std::byte& byte : raw)
                byte = static_cast<std::byte>(random());
            CHECK(compressed(raw).empty());
        }
    }

    TEST_CASE("a size above the bound is refused before anything is expanded") {
        const Bytes body = compressed(Bytes(1000));
        REQUIRE(!body.empty());
        CHECK(decompressed_bytes(body, 1000).value() == 1000);
        CHECK(decompressed_bytes(body, 999).code() == Errc::kProtocol);
        // Five bytes that say 2^32 - 1.
        Bytes bomb(5, std::byte{0xff});
        bomb[4] = std::byte{0x0f};
        CHECK(decompressed_bytes(bomb, size_t{1} << 30).code() == Errc::kProtocol);
        CHECK_FALSE(decompressed_bytes({}, 1000));
        CHECK_FALSE(decompressed_bytes(Bytes(4, std::byte{0xff}), 1000));
        CHECK_FALSE(decompressed_bytes(Bytes(6, std::byte{0xff}), 1000));
    }

    TEST_CASE("bytes that are not those of the size are refused") {
        Bytes raw(1000);
        for (size_t i = 0; i < raw.size(); ++i)
            raw[i] = static_cast<std::byte>(i / 10);
        const Bytes body = compressed(raw);
        REQUIRE(!body.empty());
        Bytes back(raw.size());
        REQUIRE(decompress(body, back));
        Bytes wrong = body;
        SUBCASE("a byte is missing") {
            wrong.pop_back();
        }
        SUBCASE("a byte is left") {
            wrong.push_back(std::byte{0});
        }
        SUBCASE("a literal is left") {
            wrong.insert(wrong.end(), 2, std::byte{0});
        }
        SUBCASE("only the size") {
            wrong.resize(2);
        }
        SUBCASE("another size") {
            wrong[0] ^= std::byte{1};
        }
        SUBCASE("nothing") {
            wrong.clear();
        }
        wrong.shrink_to_fit();
        CHECK(decompress(wrong, back).code() == Errc::kProtocol);
    }

    TEST_CASE("no bytes are a body of size 0, which nobody makes") {
        const Bytes body(1);
        CHECK(decompressed_bytes(body, 0).value() == 0);
        CHECK(decompress(body, {}));
        CHECK_FALSE(decompress(Bytes(2), {}));
    }
}
