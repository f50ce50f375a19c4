// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/key_differences.h"

#include <limits>

#include <doctest/doctest.h>

#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("key_differences") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    using Keys = std::vector<uint64_t>;
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

    Bytes encoded(const Keys& keys) {
        Bytes body(key_differences_bytes_max(keys.size()));
        body.resize(encode_key_differences(keys, body));
        body.shrink_to_fit();
        return body;
    }

    bool comes_back(const Keys& keys) {
        Keys back(keys.size());
        return decode_key_differences(encoded(keys), back) && back == keys;
    }

    bool refused(const std::vector<uint8_t>& body, size_t count) {
        Keys keys(count);
        return decode_key_differences(bytes_of(body), keys).code() == Errc::kProtocol;
    }

    /// A number of so many groups in a body.
    uint64_t number_of(Random& random, uint64_t groups) {
        return random() >> (64 - std::min<uint64_t>(7 * groups, 64));
    }

    }  // namespace

    TEST_CASE("lists come back") {
        CHECK(comes_back({}));
        CHECK(comes_back({0}));
        CHECK(comes_back({kMost}));
        CHECK(comes_back({0, kMost}));
        CHECK(comes_back({0, 1, 2}));
        CHECK(comes_back({kMost - 2, kMost - 1, kMost}));
        CHECK(comes_back({0, (uint64_t{1} << 56) - 1, kMost}));
        CHECK(comes_back({(uint64_t{1} << 63) - 1, uint64_t{1} << 63}));
    }

    TEST_CASE("lists of differences of all lengths come back") {
        WEIR_TEST_SEED(seed, 61);
        Random random(seed);
        for (int round = 0; round < 2000; ++round) {
            const uint64_t groups = 1 + random.below(10);
            const bool mixed = random.below(2) == 0;
            Keys keys;
            uint64_t key = number_of(random, groups);
            for (uint64_t left = random.below(100); left != 0; --left) {
                keys.push_back(key);
                const uint64_t between =
                    number_of(random, mixed ? 1 + random.below(groups) : groups);
                if (kMost - key <= between) break;
                key += between + 1;
            }
            CHECK(comes_back(keys));
        }
    }

    TEST_CASE("keys side by side take a byte each") {
        Keys keys(1000);
        for (size_t i = 0; i < keys.size(); ++i)
            keys[i] = 5 + i;
        const Bytes body = encoded(keys);
        CHECK(body.size() == keys.size());
        CHECK(body[0] == std::byte{5});
        CHECK(body[1] == std::byte{0});
    }

    TEST_CASE("a body of other keys is refused") {
        CHECK_FALSE(refused({5, 1, 1}, 3));
        CHECK(refused({5, 1, 1}, 2));     // a key is left
        CHECK(refused({5, 1, 1}, 4));     // one is missing
        CHECK(refused({5, 1, 0x81}, 3));  // it ends within one
        CHECK(refused({5, 0x81, 0x01, 0x81}, 3));
        CHECK(refused({}, 1));
        CHECK(refused({0}, 0));
        CHECK_FALSE(refused({}, 0));
    }

    TEST_CASE("numbers of more than 64 bits, and with groups of zeros, are refused") {
        std::vector<uint8_t> most(10, 0xff);
        most[9] = 1;
        CHECK_FALSE(refused(most, 1));
        most[9] = 2;
        CHECK(refused(most, 1));
        most[9] = 0x81;
        most.push_back(0);
        CHECK(refused(most, 2));
        CHECK(refused({0x80, 0x00}, 1));
        CHECK(refused({1, 0x85, 0x00}, 2));
        CHECK(refused({1, 0x85, 0x00, 1, 1, 1, 1, 1, 1, 1}, 9));     // one of a word
        CHECK(refused({1, 0x85, 1, 0x85, 1, 0x85, 0, 0x85, 1}, 5));  // of four
        CHECK_FALSE(refused({1, 0x85, 1, 0x85, 1, 0x85, 1, 0x85, 1}, 5));
        CHECK(refused({1, 0x85, 0x80, 0x80, 0, 1, 1, 1, 1, 1, 1}, 8));
    }

    TEST_CASE("keys that would be above 2^64 are refused, one by one or many at once") {
        const auto behind = [](uint64_t first, std::vector<uint8_t> numbers) {
            Bytes body = encoded({first});
            for (const uint8_t number : numbers)
                body.push_back(static_cast<std::byte>(number));
            return body;
        };
        Keys two(2);
        CHECK(decode_key_differences(behind(kMost - 1, {0}), two));
        CHECK_FALSE(decode_key_differences(behind(kMost, {0}), two));
        CHECK_FALSE(decode_key_differences(behind(kMost - 1, {1}), two));
        CHECK_FALSE(decode_key_differences(
            behind(3, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}), two));
        Keys nine(9);
        CHECK(decode_key_differences(behind(kMost - 8, std::vector<uint8_t>(8, 0)), nine));
        CHECK_FALSE(decode_key_differences(behind(kMost - 7, std::vector<uint8_t>(8, 0)), nine));
        Keys five(5);
        const std::vector<uint8_t> four{0x80, 1, 0x80, 1, 0x80, 1, 0x80, 1};
        CHECK(decode_key_differences(behind(kMost - 4 * 129, four), five));
        CHECK_FALSE(decode_key_differences(behind(kMost - 4 * 129 + 1, four), five));
    }

    TEST_CASE("a count that the body cannot have is refused before there is room for it") {
        CHECK(may_be_key_differences(0, 0));
        CHECK(may_be_key_differences(10, 1));
        CHECK(may_be_key_differences(10, 10));
        CHECK_FALSE(may_be_key_differences(10, 11));
        CHECK_FALSE(may_be_key_differences(11, 1));
        CHECK_FALSE(may_be_key_differences(1, 0));
        CHECK_FALSE(may_be_key_differences(1000, kMost));
        CHECK_FALSE(may_be_key_differences(1000, kMost / 10 + 2));
    }
}
