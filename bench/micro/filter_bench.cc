// SPDX-License-Identifier: Apache-2.0
// What the codecs cost, beside bare loops that do the same (filter_limits.h), or beside Snappy itself:
// each by itself, and in a body (body_...), which is copied before it is decoded. The rates are bytes of
// values, or of keys, that go in or come out. All lies in the second cache.
#include <cmath>
#include <cstring>
#include <vector>

#include <benchmark/benchmark.h>
#include <snappy.h>

#include "bench/micro/beside.h"
#include "bench/micro/filter_limits.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/filter/body.h"
#include "lib/filter/compress.h"
#include "lib/filter/factors.h"
#include "lib/filter/integers.h"
#include "lib/filter/key_differences.h"
#include "lib/filter/pack/pack_rows.h"
#include "lib/filter/zeros.h"

namespace weir::bench {
namespace {

constexpr size_t kCount = size_t{1} << 18;  ///< floats of 1 MiB
constexpr size_t kBytes = kCount * sizeof(float);
constexpr size_t kRoom = 64;  ///< behind what the bare loops write

template <class Function>
auto kept_alive(Function&& function) {
    return [function] {
        function();
        benchmark::ClobberMemory();
    };
}

/// Floats of which a share is not zero, their bitmap, and room for what is made of them.
struct Sparse {
    explicit Sparse(int64_t percent) : values(kCount), bitmap(kCount / 64) {
        Random random(1);
        for (size_t i = 0; i < kCount; ++i) {
            if (random.below(100) >= static_cast<uint64_t>(percent)) continue;
            values[i] = static_cast<float>(random.uniform() + 0.5);
            bitmap[i / 64] |= uint64_t{1} << (i % 64);
        }
        body.resize(encode_zeros(bytes(), sizeof(float), body));
        WEIR_CHECK(bare_pack(values.data(), kCount, bare_bitmap.data(), bare_packed.data()) ==
                   (body.size() - bitmap_bytes(kCount)) / sizeof(float));
    }

    [[nodiscard]] std::span<const std::byte> bytes() const {
        return std::as_bytes(std::span(values));
    }

    std::vector<float> values;
    std::vector<uint64_t> bitmap;
    std::vector<std::byte> body = std::vector<std::byte>(zeros_bytes_max(kCount, sizeof(float)));
    std::vector<std::byte> again = body;
    std::vector<float> expanded = std::vector<float>(kCount);
    std::vector<uint64_t> bare_bitmap = std::vector<uint64_t>(kCount / 64);
    std::vector<float> bare_packed = std::vector<float>(kCount + kRoom);
    std::vector<uint32_t> indices = std::vector<uint32_t>(kCount + kRoom);
    BodyEncoder encoder;
    BodyDecoder decoder;
};

constexpr BodyForm kForm{ValueType::kFloat32, 1, kCount};

Body decoded(BodyDecoder& decoder, const BodyForm& form, Codecs codecs,
             std::span<const std::byte> body) {
    Result<Body> made = decoder.decode(form, codecs, body);
    WEIR_CHECK(made.has_value());
    benchmark::DoNotOptimize(made->rows.data());
    return *made;
}

void zeros_encode(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    run_beside(
        state, kBytes, kept_alive([&s] { (void)encode_zeros(s.bytes(), sizeof(float), s.again); }),
        kept_alive([&s] {
            (void)bare_pack(s.values.data(), kCount, s.bare_bitmap.data(), s.bare_packed.data());
        }));
    state.counters["times_smaller"] =
        static_cast<double>(kBytes) / static_cast<double>(s.body.size());
}

void zeros_decode(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    run_beside(
        state, kBytes, kept_alive([&s] {
            WEIR_CHECK(
                decode_zeros(s.body, sizeof(float), std::as_writable_bytes(std::span(s.expanded))));
        }),
        kept_alive([&s] {
            bare_expand(s.bare_bitmap.data(), s.bare_packed.data(), kCount, s.expanded.data());
        }));
}

void body_zeros_encode(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    run_beside(
        state, kBytes, kept_alive([&s] {
            WEIR_CHECK(s.encoder.encode({.form = kForm, .rows = s.bytes()}, kZeros) == kZeros);
        }),
        kept_alive([&s] {
            (void)bare_pack(s.values.data(), kCount, s.bare_bitmap.data(), s.bare_packed.data());
        }));
}

void body_zeros_decode(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    run_beside(state, kBytes, kept_alive([&s] { (void)decoded(s.decoder, kForm, kZeros, s.body); }),
               kept_alive([&s] {
                   bare_expand(s.bare_bitmap.data(), s.bare_packed.data(), kCount,
                               s.expanded.data());
               }));
}

void rows_pack(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    const auto bitmap = std::as_bytes(std::span(s.bitmap));
    const size_t bytes = count_bits(bitmap) * sizeof(float);
    run_beside(state, kBytes, kept_alive([&s, bitmap, bytes] {
                   pack_rows(s.bytes(), sizeof(float), bitmap, std::span(s.again).first(bytes));
               }),
               kept_alive([&s] {
                   (void)bare_choose(s.values.data(), kCount, s.bitmap.data(),
                                     s.bare_packed.data());
               }));
}

/// Rows of 64 bytes. The limit has the indices of those that are kept.
void rows_pack_wide(benchmark::State& state) {
    struct Rows : Sparse {
        explicit Rows(int64_t percent) : Sparse(percent) {
            count = bare_list(bitmap.data(), kCount / 16, indices.data());
        }

        size_t count;
    };

    auto& s = prepared<Rows>(state.range(0));
    const auto bitmap = std::as_bytes(std::span(s.bitmap)).first(kCount / 16 / 8);
    run_beside(state, kBytes, kept_alive([&s, bitmap] {
                   pack_rows(s.bytes(), 64, bitmap, std::span(s.again).first(64 * s.count));
               }),
               kept_alive([&s] {
                   for (size_t i = 0; i < s.count; ++i) {
                       std::memcpy(&s.bare_packed[16 * i], &s.values[size_t{16} * s.indices[i]],
                                   64);
                   }
               }));
}

/// Rows are packed and become a body. The limit does so at once.
void body_kept_encode(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    const auto bitmap = std::as_bytes(std::span(s.bitmap));
    const size_t bytes = count_bits(bitmap) * sizeof(float);
    run_beside(
        state, kBytes, kept_alive([&s, bitmap, bytes] {
            const auto packed = std::span(s.again).first(bytes);
            pack_rows(s.bytes(), sizeof(float), bitmap, packed);
            WEIR_CHECK(s.encoder.encode({.form = kForm, .rows = packed, .kept = bitmap}, kKept) ==
                       kKept);
        }),
        kept_alive([&s] {
            std::memcpy(s.bare_bitmap.data(), s.bitmap.data(), kCount / 8);
            (void)bare_choose(s.values.data(), kCount, s.bitmap.data(), s.bare_packed.data());
        }));
}

/// Decoded, and its rows listed. The limit copies the body and lists them.
void body_kept_decode(benchmark::State& state) {
    auto& s = prepared<Sparse>(state.range(0));
    run_beside(state, kBytes, kept_alive([&s] {
                   const Body body = decoded(s.decoder, kForm, kKept, s.body);
                   list_bits(body.kept, std::span(s.indices).first(body.kept_count));
               }),
               kept_alive([&s] {
                   std::memcpy(s.again.data(), s.body.data(), s.body.size());
                   benchmark::ClobberMemory();
                   (void)bare_list(s.bitmap.data(), kCount, s.indices.data());
               }));
}

/// Counts below 1000, as floats. The limit has 16 bits for each.
struct Counts {
    Counts() : values(kCount), body(integers_bytes_max(ValueType::kFloat32, kCount)) {
        Random random(2);
        for (float& value : values)
            value = static_cast<float>(random.below(1000));
        body.resize(encode_integers(ValueType::kFloat32, std::as_bytes(std::span(values)), body));
        bare_narrow(values.data(), kCount, narrow.data());
    }

    std::vector<float> values;
    std::vector<std::byte> body;
    std::vector<std::byte> again =
        std::vector<std::byte>(integers_bytes_max(ValueType::kFloat32, kCount));
    std::vector<float> back = std::vector<float>(kCount);
    std::vector<uint16_t> narrow = std::vector<uint16_t>(kCount);
};

void integers_encode(benchmark::State& state) {
    auto& s = prepared<Counts>();
    run_beside(state, kBytes, kept_alive([&s] {
                   (void)encode_integers(ValueType::kFloat32, std::as_bytes(std::span(s.values)),
                                         s.again);
               }),
               kept_alive([&s] { bare_narrow(s.values.data(), kCount, s.narrow.data()); }));
    state.counters["times_smaller"] =
        static_cast<double>(kBytes) / static_cast<double>(s.body.size());
}

void integers_decode(benchmark::State& state) {
    auto& s = prepared<Counts>();
    run_beside(state, kBytes, kept_alive([&s] {
                   WEIR_CHECK(decode_integers(ValueType::kFloat32, s.body,
                                              std::as_writable_bytes(std::span(s.back))));
               }),
               kept_alive([&s] { bare_widen(s.narrow.data(), kCount, s.back.data()); }));
}

/// Rows of the product of two matrices. The limit knows the rank, and may fuse what it adds.
struct Factored {
    Factored() : left(kRows * kRank), right(kRank * kWidth) {
        Random random(4);
        for (float& value : left)
            value = static_cast<float>(random.uniform() - 0.5);
        for (float& value : right)
            value = static_cast<float>(random.uniform() - 0.5);
        std::vector<float> both = left;
        both.insert(both.end(), right.begin(), right.end());
        BodyEncoder encoder;
        WEIR_CHECK(
            encoder.encode(
                {.form = kFactorsForm, .rows = std::as_bytes(std::span(both)), .rank = kRank},
                kFactors) == kFactors);
        body.assign(encoder.body().begin(), encoder.body().end());
    }

    static constexpr uint32_t kRank = kBareRank;
    static constexpr uint32_t kWidth = 1024;
    static constexpr uint32_t kRows = kCount / kWidth;
    static constexpr BodyForm kFactorsForm{ValueType::kFloat32, kWidth, kRows};
    std::vector<float> left;
    std::vector<float> right;
    std::vector<std::byte> body;
    std::vector<float> product = std::vector<float>(kCount);
    BodyDecoder decoder;
};

void body_factors_decode(benchmark::State& state) {
    auto& s = prepared<Factored>();
    run_beside(state, kBytes, kept_alive([&s] {
                   (void)decoded(s.decoder, Factored::kFactorsForm, kFactors, s.body);
               }),
               kept_alive([&s] {
                   bare_multiply(s.left.data(), s.right.data(), Factored::kRows, Factored::kWidth,
                                 s.product.data());
               }));
    state.counters["times_smaller"] =
        static_cast<double>(kBytes) / static_cast<double>(s.body.size());
}

/// Floats of which 90 % are zero, as they are.
struct Compressed : Sparse {
    Compressed() : Sparse(10), compressed(compress_bytes_max(kBytes)), room(compressed.size()) {
        compressed.resize(compress(bytes(), compressed).value());
    }

    std::vector<std::byte> compressed;
    std::vector<std::byte> room;
};

void compress_encode(benchmark::State& state) {
    auto& s = prepared<Compressed>();
    run_beside(state, kBytes, kept_alive([&s] { (void)compress(s.bytes(), s.room); }),
               kept_alive([&s] {
                   size_t size = 0;
                   snappy::RawCompress(reinterpret_cast<const char*>(s.values.data()), kBytes,
                                       reinterpret_cast<char*>(s.room.data()), &size);
               }));
    state.counters["times_smaller"] =
        static_cast<double>(kBytes) / static_cast<double>(s.compressed.size());
}

void compress_decode(benchmark::State& state) {
    auto& s = prepared<Compressed>();
    run_beside(
        state, kBytes, kept_alive([&s] {
            WEIR_CHECK(decompressed_bytes(s.compressed, kBytes).value() == kBytes);
            WEIR_CHECK(decompress(s.compressed, std::as_writable_bytes(std::span(s.expanded))));
        }),
        kept_alive([&s] {
            WEIR_CHECK(snappy::RawUncompress(reinterpret_cast<const char*>(s.compressed.data()),
                                             s.compressed.size(),
                                             reinterpret_cast<char*>(s.expanded.data())));
        }));
}

void body_compress_encode(benchmark::State& state) {
    auto& s = prepared<Compressed>();
    run_beside(state, kBytes, kept_alive([&s] {
                   WEIR_CHECK(s.encoder.encode({.form = kForm, .rows = s.bytes()}, kCompress) ==
                              kCompress);
               }),
               kept_alive([&s] {
                   size_t size = 0;
                   snappy::RawCompress(reinterpret_cast<const char*>(s.values.data()), kBytes,
                                       reinterpret_cast<char*>(s.room.data()), &size);
               }));
}

void body_compress_decode(benchmark::State& state) {
    auto& s = prepared<Compressed>();
    run_beside(state, kBytes,
               kept_alive([&s] { (void)decoded(s.decoder, kForm, kCompress, s.compressed); }),
               kept_alive([&s] {
                   WEIR_CHECK(snappy::RawUncompress(
                       reinterpret_cast<const char*>(s.compressed.data()), s.compressed.size(),
                       reinterpret_cast<char*>(s.expanded.data())));
               }));
}

/// Keys of 1 MiB that lie so far apart on average. The limit has 16 bits for each difference.
struct List {
    explicit List(int64_t mean) : body(key_differences_bytes_max(kKeys)) {
        Random random(3);
        uint64_t key = 0;
        while (keys.size() < kKeys) {
            const double drawn = -std::log(1 - random.uniform()) * static_cast<double>(mean);
            key += 1 + std::min<uint64_t>(static_cast<uint64_t>(drawn), 65000);
            keys.push_back(key);
        }
        body.resize(encode_key_differences(keys, body));
        bare_differences(keys.data(), kKeys, differences.data());
    }

    static constexpr size_t kKeys = kBytes / sizeof(uint64_t);
    std::vector<uint64_t> keys;
    std::vector<std::byte> body;
    std::vector<std::byte> again = std::vector<std::byte>(key_differences_bytes_max(kKeys));
    std::vector<uint64_t> back = std::vector<uint64_t>(kKeys);
    std::vector<uint16_t> differences = std::vector<uint16_t>(kKeys);
};

void keys_encode(benchmark::State& state) {
    auto& s = prepared<List>(state.range(0));
    run_beside(
        state, kBytes, kept_alive([&s] { (void)encode_key_differences(s.keys, s.again); }),
        kept_alive([&s] { bare_differences(s.keys.data(), List::kKeys, s.differences.data()); }));
    state.counters["times_smaller"] =
        static_cast<double>(kBytes) / static_cast<double>(s.body.size());
}

void keys_decode(benchmark::State& state) {
    auto& s = prepared<List>(state.range(0));
    run_beside(state, kBytes,
               kept_alive([&s] { WEIR_CHECK(decode_key_differences(s.body, s.back)); }),
               kept_alive([&s] { bare_sums(s.differences.data(), List::kKeys, s.back.data()); }));
}

BENCHMARK(zeros_encode)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(zeros_decode)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(body_zeros_encode)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(body_zeros_decode)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(rows_pack)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(rows_pack_wide)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(body_kept_encode)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(body_kept_decode)->Arg(1)->Arg(10)->Arg(50)->UseManualTime();
BENCHMARK(integers_encode)->UseManualTime();
BENCHMARK(integers_decode)->UseManualTime();
BENCHMARK(compress_encode)->UseManualTime();
BENCHMARK(compress_decode)->UseManualTime();
BENCHMARK(body_compress_encode)->UseManualTime();
BENCHMARK(body_compress_decode)->UseManualTime();
BENCHMARK(body_factors_decode)->UseManualTime();
BENCHMARK(keys_encode)->Arg(10)->Arg(100)->Arg(1000)->UseManualTime();
BENCHMARK(keys_decode)->Arg(10)->Arg(100)->Arg(1000)->UseManualTime();

}  // namespace
}  // namespace weir::bench
