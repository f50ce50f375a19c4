// SPDX-License-Identifier: Apache-2.0
#include "transport/net/record.h"

#include <algorithm>
#include <string>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

namespace weir::transport {
namespace {

constexpr Protocol kRecordProtocol{"a test", 0x44434241, 7};  // "ABCD"
using Bytes = std::vector<std::byte>;

Bytes record_of(uint8_t type, size_t body_bytes) {
    Bytes bytes;
    append_record(bytes, kRecordProtocol, type, Bytes(body_bytes, static_cast<std::byte>(type)));
    return bytes;
}

Bytes as_bytes(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// The first result of a reader of these bytes.
Result<std::optional<RecordView>> first_of(const Bytes& bytes) {
    static RecordReader reader(kRecordProtocol, 100);
    reader = RecordReader(kRecordProtocol, 100);
    reader.append(bytes);
    return reader.next();
}

}  // namespace

TEST_SUITE("record") {
    TEST_CASE("records come out as they went in, byte by byte and all at once") {
        const std::vector<std::pair<uint8_t, size_t>> all{{1, 0}, {2, 1}, {255, 100}, {16, 57}};
        Bytes stream;
        for (const auto& [type, size] : all) {
            const Bytes one = record_of(type, size);
            stream.insert(stream.end(), one.begin(), one.end());
        }
        for (const size_t piece : {size_t{1}, size_t{7}, stream.size()}) {
            RecordReader reader(kRecordProtocol, 100);
            size_t seen = 0;
            for (size_t at = 0; at < stream.size(); at += piece) {
                reader.append(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
                for (;;) {
                    const auto record = reader.next();
                    REQUIRE(record.has_value());
                    if (!record->has_value()) break;
                    REQUIRE(seen < all.size());
                    CHECK((*record)->type == all[seen].first);
                    CHECK((*record)->body.size() == all[seen].second);
                    CHECK(std::ranges::all_of((*record)->body, [&](std::byte byte) {
                        return byte == static_cast<std::byte>(all[seen].first);
                    }));
                    ++seen;
                }
            }
            CHECK(seen == all.size());
            CHECK(reader.bytes_left() == 0);
        }
    }

    TEST_CASE("another program, version or an absurd length is refused at once") {
        for (const std::string_view text : {"G", "A-", "ABD", "GET / HTTP/1.1\r\n\r\n"})
            CHECK(first_of(as_bytes(text)).code() == Errc::kProtocol);
        for (const std::string_view text : {"", "A", "ABCD"}) {
            const auto waits = first_of(as_bytes(text));
            REQUIRE(waits.has_value());
            CHECK_FALSE(waits->has_value());
        }
        Bytes wrong_version = record_of(1, 3);
        wrong_version[4] = std::byte{8};
        CHECK(first_of(wrong_version).error().text().find("version 8") != std::string::npos);
        Bytes too_long = record_of(1, 101);
        too_long.resize(kRecordHeaderBytes);  // refused before the body arrives
        CHECK(first_of(too_long).code() == Errc::kProtocol);
    }

    TEST_CASE("longer records are accepted once that is allowed") {
        RecordReader reader(kRecordProtocol, 100);
        reader.append(record_of(1, 1000));
        reader.set_body_bytes_max(1000);
        const auto record = reader.next();
        REQUIRE(record.has_value());
        CHECK((*record)->body.size() == 1000);
    }

    TEST_CASE("a reader survives random damage and counts every byte") {
        WEIR_TEST_SEED(seed, 20240602);
        Random random(seed);
        for (int i = 0; i < 20'000; ++i) {
            Bytes bytes = record_of(static_cast<uint8_t>(random()), random.below(100));
            for (uint64_t hits = random.below(3); hits > 0; --hits)
                bytes[random.below(bytes.size())] = static_cast<std::byte>(random());
            bytes.resize(random.below(bytes.size() + 1));
            RecordReader reader(kRecordProtocol, 100);
            reader.append(bytes);
            size_t taken = 0;
            for (auto next = reader.next(); next && next->has_value(); next = reader.next())
                taken += kRecordHeaderBytes + (*next)->body.size();
            CHECK(taken + reader.bytes_left() == bytes.size());
        }
    }
}

}  // namespace weir::transport
