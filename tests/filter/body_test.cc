// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/body.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "lib/filter/factors.h"
#include "lib/filter/select/block_round.h"
#include "lib/key/narrow_float.h"
#include "tests/filter/bytes.h"
#include "tests/seed.h"

TEST_SUITE("body") {
    using namespace weir;
    using namespace weir::testing;

    namespace {

    using View = std::span<const std::byte>;

    constexpr ValueType kFloat = ValueType::kFloat32;
    constexpr Codecs kEachValueCodec[] = {0,       kIntegers,  kHalvesB,
                                          kHalves, kTablesOwn, kValueCodecs};

    /// Says values that are all the same by one of them.
    class SameValue final : public ValueCodec {
    public:
        [[nodiscard]] bool takes(ValueType type) const noexcept override {
            return type != ValueType::kInt32;
        }

        [[nodiscard]] std::optional<size_t> encode(
            ValueType type, View values, std::span<std::byte> body) const noexcept override {
            const size_t bytes = size_of(type);
            for (size_t i = bytes; i < values.size(); ++i) {
                if (values[i] != values[i - bytes]) return std::nullopt;
            }
            std::ranges::copy(values.first(bytes), body.begin());
            return bytes;
        }

        [[nodiscard]] Status decode(ValueType type, View body,
                                    std::span<std::byte> values) const override {
            if (body.size() != std::min(size_of(type), values.size()))
                return Error(Errc::kProtocol, "same value: not one value");
            for (size_t i = 0; i < values.size(); ++i)
                values[i] = body[i % body.size()];
            return {};
        }
    };

    const SameValue kSame;

    /// What is encoded, in memory of its own, from an address that is not aligned.
    struct Made {
        BodyForm form;
        Bytes rows;
        Bytes kept;
        std::vector<uint64_t> keys;
        uint32_t rank = 0;

        [[nodiscard]] BodyEncoder::Source source() const {
            return {form, View(rows).subspan(1), kept, keys, rank};
        }
    };

    enum class Values { kAnyBits, kSmallIntegers, kHalf, kSpecial, kAlike };
    constexpr Values kAllValues[] = {Values::kAnyBits, Values::kSmallIntegers, Values::kHalf,
                                     Values::kSpecial, Values::kAlike};

    template <class T>
    T any_value(Random& random, Values kind) {
        if constexpr (std::is_floating_point_v<T>) {
            using Limits = std::numeric_limits<T>;
            const T specials[] = {T{-0.0},
                                  Limits::quiet_NaN(),
                                  -Limits::quiet_NaN(),
                                  Limits::infinity(),
                                  Limits::denorm_min(),
                                  Limits::max(),
                                  T{0}};
            if (kind == Values::kSpecial) return specials[random.below(std::size(specials))];
            if (kind == Values::kHalf)
                return static_cast<T>(narrow_bits::widen_bfloat16(
                    static_cast<uint16_t>(random.below(0x7f80) ^ random.below(2) << 15)));
        }
        return static_cast<T>(static_cast<T>(random.below(200)) - static_cast<T>(100));
    }

    void fill(Random& random, ValueType type, Values kind, std::span<std::byte> rows) {
        for (size_t at = 0; at < rows.size(); at += size_of(type)) {
            uint64_t bits = random() | 1;
            if (kind == Values::kAlike) {
                bits = 0x0123'4567'89ab'cdefU;
            } else if (kind != Values::kAnyBits && !is_narrow(type)) {
                with_value_type(type, [&]<class T>() {
                    const T value = any_value<T>(random, kind);
                    std::memcpy(&bits, &value, sizeof value);
                });
            }
            std::memcpy(&rows[at], &bits, size_of(type));
        }
    }

    std::vector<uint64_t> ascending_keys(Random& random, size_t count) {
        const uint64_t step = uint64_t{1} << random.below(50);
        std::vector<uint64_t> keys;
        uint64_t key = random.below(step);
        for (size_t i = 0; i < count; ++i, key += 1 + random.below(step))
            keys.push_back(key);
        return keys;
    }

    /// With kKept some rows, with kFactors two matrices, else all rows.
    Made make(Random& random, BodyForm form, Codecs codecs, Values kind, uint64_t zeros_of_ten) {
        Made made{form, {}, {}, {}, 0};
        size_t bytes = form.rows_bytes();
        if ((codecs & kKept) != 0) {
            made.kept = random_bitmap(random, form.row_count, kPercents[random.below(6)]);
            bytes = count_bits(made.kept) * form.row_bytes();
        }
        if ((codecs & kFactors) != 0) {
            made.rank = 1 + static_cast<uint32_t>(random.below(3));
            bytes = (form.row_count + form.width) * made.rank * size_of(form.type);
        }
        if ((codecs & kKeyDifferences) != 0) made.keys = ascending_keys(random, form.row_count);
        made.rows.resize(1 + bytes);
        const auto rows = std::span(made.rows).subspan(1);
        fill(random, form.type, kind, rows);
        for (size_t at = 0; at < bytes; at += size_of(form.type)) {
            if (random.below(10) < zeros_of_ten)
                std::ranges::fill(rows.subspan(at, size_of(form.type)), std::byte{0});
        }
        return made;
    }

    /// The rows that a body is to become.
    Bytes expected_rows(const Made& made, Codecs codecs) {
        Bytes rows(made.rows.begin() + 1, made.rows.end());
        if ((codecs & kFactors) == 0) return rows;
        Bytes product(made.form.rows_bytes());
        REQUIRE(
            decode_factors({made.form.type, made.form.row_count, made.form.width}, rows, product));
        return product;
    }

    void check_body(const Made& made, Codecs wanted, BodyEncoder& encoder, BodyDecoder& decoder) {
        const Codecs used = encoder.encode(made.source(), wanted);
        REQUIRE((used & ~wanted) == 0);
        REQUIRE(are_codecs(used));
        REQUIRE((used & (kKept | kFactors)) == (wanted & (kKept | kFactors)));
        if (used == 0) {
            CHECK(encoder.body().empty());
            return;
        }
        // At the end of its memory, and not aligned.
        Bytes sent(1);
        sent.insert(sent.end(), encoder.body().begin(), encoder.body().end());
        const View body = View(sent).subspan(1);
        const bool has_keys = (used & kKeyDifferences) != 0;
        const size_t raw = made.rows.size() - 1 + made.kept.size() +
                           made.keys.size() * 8 * has_keys +
                           sizeof made.rank * ((used & kFactors) != 0);
        CHECK(body.size() <= raw);
        if ((used & ~(kKept | kFactors)) != 0) CHECK(body.size() < raw);
        CHECK(body.size() <= body_bytes_max(made.form));
        const Result<Body> decoded = decoder.decode(made.form, used, body);
        REQUIRE(decoded);
        const Bytes expected = expected_rows(made, used);
        CHECK(std::ranges::equal(decoded->rows, expected));
        CHECK(reinterpret_cast<uintptr_t>(decoded->rows.data()) % size_of(made.form.type) == 0);
        CHECK(decoded->kept_count * made.form.row_bytes() == expected.size());
        CHECK(std::ranges::equal(decoded->kept, made.kept));
        if (has_keys) CHECK(std::ranges::equal(decoded->keys, made.keys));
        // No byte may be missing, and none be left.
        CHECK(decoder.decode(made.form, used, body.first(body.size() - 1)).code() ==
              Errc::kProtocol);
        sent.push_back(std::byte{0});
        CHECK(decoder.decode(made.form, used, View(sent).subspan(1)).code() == Errc::kProtocol);
    }

    /// Rows of floats, all of which are there.
    Made floats(const std::vector<float>& values, uint32_t width = 1) {
        Made made{
            {kFloat, width, static_cast<uint32_t>(values.size() / width)}, Bytes(1), {}, {}, 0};
        const Bytes bytes = bytes_of(values);
        made.rows.insert(made.rows.end(), bytes.begin(), bytes.end());
        return made;
    }

    Codecs codecs_of(const Made& made, Codecs wanted) {
        BodyEncoder encoder;
        return encoder.encode(made.source(), wanted);
    }

    Errc decoded_code(const BodyForm& form, Codecs codecs, View body) {
        return BodyDecoder().decode(form, codecs, body).code();
    }

    Bytes encoded(const Made& made, Codecs codecs) {
        BodyEncoder encoder;
        REQUIRE(encoder.encode(made.source(), codecs) == codecs);
        return {encoder.body().begin(), encoder.body().end()};
    }

    std::vector<float> normal_floats(Random& random, size_t count) {
        std::vector<float> values(count);
        for (float& value : values) {
            const double size = std::sqrt(-2 * std::log(1 - random.uniform()));
            value = static_cast<float>(size * std::cos(6.283185307179586 * random.uniform()));
        }
        return values;
    }

    }  // namespace

    TEST_CASE("what comes out is what went in, whatever the codecs, types, widths and values") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        BodyEncoder encoder;
        BodyDecoder decoder;
        for (size_t t = 0; t < kValueTypeCount; ++t) {
            const auto type = static_cast<ValueType>(t);
            for (const Codecs of_values : kEachValueCodec) {
                for (unsigned others = 0; others < 32; ++others) {
                    const auto wanted = static_cast<Codecs>(
                        of_values | (others & 1U ? kKept : 0) | (others & 2U ? kFactors : 0) |
                        (others & 4U ? kZeros : 0) | (others & 8U ? kCompress : 0) |
                        (others & 16U ? kKeyDifferences : 0));
                    const bool is_float = type == kFloat || type == ValueType::kFloat64;
                    if ((others & 3U) == 3 || ((others & 2U) != 0 && !is_float)) continue;
                    for (const Values kind : kAllValues) {
                        for (const uint64_t zeros_of_ten : {0, 1, 6, 10}) {
                            const auto width = static_cast<uint32_t>(1 + random.below(9));
                            auto count = static_cast<uint32_t>(random.below(300));
                            if ((others & 2U) != 0) count += 8;
                            const BodyForm form{type, (others & 2U) != 0 ? width + 8 : width, count,
                                                random.below(2) == 0 ? &kSame : nullptr};
                            CAPTURE(to_string(type));
                            CAPTURE(wanted);
                            CAPTURE(static_cast<int>(kind));
                            check_body(make(random, form, wanted, kind, zeros_of_ten), wanted,
                                       encoder, decoder);
                        }
                    }
                }
            }
        }
    }

    TEST_CASE("an encoder and a decoder are used again, for more and for less") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        BodyEncoder encoder;
        BodyDecoder decoder;
        for (const uint32_t count : {10U, 100'000U, 0U, 70'000U, 1U}) {
            const BodyForm form{kFloat, 3, count};
            const Codecs wanted = kKept | kZeros | kIntegers | kCompress | kKeyDifferences;
            check_body(make(random, form, wanted, Values::kSmallIntegers, 5), wanted, encoder,
                       decoder);
        }
    }

    TEST_CASE("values for which no codec is shorter travel as they are, and there is no body") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        const Codecs wanted = kAllCodecs & ~(kKept | kFactors | kKeyDifferences | kTablesOwn);
        for (const uint32_t count : {0, 1, 10, 1000, 10'000}) {
            const Made made = make(random, {kFloat, 1, count}, 0, Values::kAnyBits, 0);
            BodyEncoder encoder;
            CHECK(encoder.encode(made.source(), wanted) == 0);
            CHECK(encoder.body().empty());
        }
        // Keys so far apart that differences are no shorter.
        const BodyForm form{kFloat, 1, 3};
        Made made = make(random, form, kKept, Values::kAnyBits, 0);
        made.keys = {uint64_t{1} << 60, uint64_t{2} << 60, ~uint64_t{0}};
        CHECK(codecs_of(made, kKept | kKeyDifferences) == kKept);
    }

    TEST_CASE("halves are for floats that they are to the bit") {
        std::vector<float> values;
        for (int i = 0; i < 5000; ++i)  // of too many sizes for integers
            values.push_back(std::ldexp(1.0F + static_cast<float>(i % 128) / 128, i % 60 - 30));
        CHECK(codecs_of(floats(values), kHalvesB | kHalves) == kHalvesB);
        CHECK(codecs_of(floats(values), kHalves) == 0);
        CHECK(codecs_of(floats(values), kHalves | kHalvesB | kIntegers) == kHalvesB);
        values[4321] = -0.0F;
        CHECK(codecs_of(floats(values), kHalvesB) == kHalvesB);
        values[4321] = std::bit_cast<float>(0x3f80'0001U);
        CHECK(codecs_of(floats(values), kHalvesB | kHalves) == 0);
        values.assign(1000, 1.0F + 0x1p-10F);
        CHECK(codecs_of(floats(values), kHalvesB | kHalves) == kHalves);
    }

    TEST_CASE("integers are taken where they are shorter than halves, also where that shows late") {
        std::vector<float> values(64 * 100);
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(i % 100);
        CHECK(codecs_of(floats(values), kValueCodecs & ~kTablesOwn) == kIntegers);
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = std::ldexp(1.0F, static_cast<int>(i * 7 % 80) - 40);
        CHECK(codecs_of(floats(values), kValueCodecs & ~kTablesOwn) == kHalvesB);
        // The blocks that are looked at are all integers; the others are none.
        for (size_t block = 0; block < 100; ++block) {
            if (block * 16 % 100 < 16)
                std::fill_n(values.begin() + static_cast<ptrdiff_t>(64 * block), 64, 3.0F);
        }
        for (const int wanted : {kValueCodecs & ~kTablesOwn, kIntegers + 0}) {
            const Codecs used = codecs_of(floats(values), static_cast<Codecs>(wanted));
            CHECK(used == (wanted == kIntegers ? kIntegers : kHalvesB));
        }
        values[77] = 1.0F / 3;
        CHECK(codecs_of(floats(values), kValueCodecs & ~kTablesOwn) == kIntegers);
    }

    TEST_CASE("few zeros are left in where values take few bits") {
        std::vector<float> values(10'000);
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(1 + i % 100);
        for (size_t i = 0; i < values.size(); i += 20)
            values[i] = 0;
        CHECK(codecs_of(floats(values), kZeros | kIntegers) == kIntegers);
        CHECK(codecs_of(floats(values), kZeros) == kZeros);
        for (size_t i = 0; i < values.size(); i += 2)
            values[i] = 0;
        CHECK(codecs_of(floats(values), kZeros | kIntegers) == (kZeros | kIntegers));
    }

    TEST_CASE("what is rounded to 1 or 2 bytes takes little more, also behind a cut") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        std::vector<float> values = normal_floats(random, 20'000);
        double size = 1;
        for (size_t i = 0; i < values.size(); ++i) {
            if (i % 16 == 0) size = std::exp(2 * random.uniform() - 1);  // rows are not alike
            values[i] *= static_cast<float>(size);
        }
        for (const RoundForm form : {RoundForm::kFixed8, RoundForm::kFixed16}) {
            const double bytes = form == RoundForm::kFixed8 ? 1 : 2;
            std::vector<float> rounded(values.size());
            REQUIRE(round_values(form, values, seed, rounded));
            for (const size_t cut : {0, 1, 16, 31, 32, 63, 64, 1001}) {
                const std::vector<float> rest(rounded.begin() + static_cast<ptrdiff_t>(cut),
                                              rounded.end());
                for (const int wanted : {kIntegers + 0, kIntegers | kZeros | kHalves | kHalvesB}) {
                    BodyEncoder encoder;
                    const Made made = floats(rest);
                    REQUIRE((encoder.encode(made.source(), static_cast<Codecs>(wanted)) &
                             kIntegers) != 0);
                    const double each = static_cast<double>(encoder.body().size()) /
                                        static_cast<double>(rest.size());
                    CAPTURE(to_string(form));
                    CAPTURE(cut);
                    CHECK(each < bytes + 0.2);
                }
            }
        }
    }

    TEST_CASE("what is rounded to 16-bit floats takes 2 bytes") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        const std::vector<float> values = normal_floats(random, 5'000);
        for (const auto& [form, codec] :
             {std::pair(RoundForm::kBFloat16, kHalvesB), std::pair(RoundForm::kFloat16, kHalves)}) {
            std::vector<float> rounded(values.size());
            REQUIRE(round_values(form, values, seed, rounded));
            BodyEncoder encoder;
            const Made made = floats(rounded);
            CHECK(encoder.encode(made.source(), kIntegers | kHalvesB | kHalves) == codec);
            CHECK(encoder.body().size() == 2 * values.size());
        }
    }

    TEST_CASE("the table's own codec comes before the others, where it takes the values") {
        Made made = floats(std::vector<float>(1000, 3.0F));
        CHECK(codecs_of(made, kValueCodecs) == kIntegers);
        made.form.own = &kSame;
        CHECK(codecs_of(made, kValueCodecs) == kTablesOwn);
        CHECK(codecs_of(made, kIntegers) == kIntegers);
        made.rows[1] = std::byte{1};
        CHECK(codecs_of(made, kValueCodecs) != kTablesOwn);
        made.form.type = ValueType::kInt32;
        CHECK(codecs_of(made, kTablesOwn) == 0);
    }

    /// What was sent changes while it is decoded: as soon as the table's codec is asked.
    class ChangesBody final : public ValueCodec {
    public:
        explicit ChangesBody(Bytes& sent) : sent_(sent) {}

        [[nodiscard]] bool takes(ValueType type) const noexcept override {
            return kSame.takes(type);
        }

        [[nodiscard]] std::optional<size_t> encode(ValueType type, View values,
                                                   std::span<std::byte> body) const override {
            return kSame.encode(type, values, body);
        }

        [[nodiscard]] Status decode(ValueType type, View body,
                                    std::span<std::byte> values) const override {
            for (std::byte& byte : sent_)
                byte = ~byte;
            return kSame.decode(type, body, values);
        }

    private:
        Bytes& sent_;
    };

    TEST_CASE("what changes while it is read is what it was at first") {
        WEIR_TEST_SEED(seed, 12);
        Random random(seed);
        BodyDecoder decoder;
        constexpr Codecs kSome[] = {kTablesOwn, kTablesOwn | kKept, kTablesOwn | kZeros,
                                    kTablesOwn | kZeros | kKept | kKeyDifferences};
        for (const Codecs codecs : kSome) {
            BodyForm form{kFloat, 2, 500, &kSame};
            Made made = make(random, form, codecs, Values::kAnyBits, 0);
            for (size_t at = 1; at < made.rows.size(); at += sizeof(float)) {
                const bool is_zero = (codecs & kZeros) != 0 && random.below(2) == 0;
                std::ranges::fill(std::span(made.rows).subspan(at, sizeof(float)),
                                  is_zero ? std::byte{0} : std::byte{7});  // else alike
            }
            Bytes sent = encoded(made, codecs);
            const ChangesBody changes(sent);
            form.own = &changes;
            const Result<Body> decoded = decoder.decode(form, codecs, sent);
            REQUIRE(decoded);
            CHECK(std::ranges::equal(decoded->rows, View(made.rows).subspan(1)));
            CHECK(std::ranges::equal(decoded->kept, made.kept));
            CHECK(std::ranges::equal(decoded->keys, made.keys));
        }
    }

    TEST_CASE("bits behind the last row or value are refused") {
        const Made some = [] {
            Made made = floats(std::vector<float>{1, 0, 0});
            made.form.row_count = 5;
            made.kept = {std::byte{0b10101}};
            return made;
        }();
        Bytes body = encoded(some, kKept);
        REQUIRE(decoded_code(some.form, kKept, body) == Errc::kOk);
        body[0] |= std::byte{1 << 5};
        CHECK(decoded_code(some.form, kKept, body) == Errc::kProtocol);
        body.resize(body.size() + 4);
        CHECK(decoded_code(some.form, kKept, body) == Errc::kProtocol);

        body = encoded(some, kKept | kZeros);
        REQUIRE(decoded_code(some.form, kKept | kZeros, body) == Errc::kOk);
        body[1] |= std::byte{1 << 3};
        body.resize(body.size() + 4);
        CHECK(decoded_code(some.form, kKept | kZeros, body) == Errc::kProtocol);
    }

    TEST_CASE(
        "another number of rows, values or keys than the bitmaps and numbers say is refused") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        const BodyForm form{kFloat, 2, 64};
        const Codecs codecs = kKept | kZeros | kKeyDifferences;
        Made made = make(random, form, codecs, Values::kAnyBits, 5);
        made.kept.assign(8, std::byte{0x7f});
        made.rows.resize(1 + 56 * 8, std::byte{0});
        made.rows.back() = std::byte{1};  // so the last value has a bit
        made.keys.clear();
        for (uint64_t key = 0; key < 64; ++key)
            made.keys.push_back(1000 * key);
        const Bytes body = encoded(made, codecs);
        REQUIRE(decoded_code(form, codecs, body) == Errc::kOk);
        uint32_t key_bytes = 0;
        std::memcpy(&key_bytes, body.data(), 4);
        const size_t bitmap_at = 4 + key_bytes;
        for (const size_t at : {bitmap_at, bitmap_at + 7, bitmap_at + 8, bitmap_at + 9}) {
            Bytes wrong = body;
            wrong[at] ^= std::byte{0x40};
            CHECK(decoded_code(form, codecs, wrong) == Errc::kProtocol);
        }
        for (const uint32_t lie :
             {0U, 1U, 63U, key_bytes - 1, key_bytes + 1, 641U, 1U << 20, ~0U}) {
            Bytes wrong = body;
            std::memcpy(wrong.data(), &lie, 4);
            CHECK(decoded_code(form, codecs, wrong) == Errc::kProtocol);
        }
        for (const uint32_t count : {0U, 1U, 63U, 65U, 1U << 31}) {
            BodyForm other = form;
            other.row_count = count;
            CHECK(decoded_code(other, codecs, body) == Errc::kProtocol);
        }
        CHECK(decoded_code({kFloat, 3, 64}, codecs, body) == Errc::kProtocol);
        CHECK(decoded_code({ValueType::kFloat64, 2, 64}, codecs, body) == Errc::kProtocol);
        for (size_t size = 0; size < body.size(); ++size)
            REQUIRE(decoded_code(form, codecs, View(body).first(size)) == Errc::kProtocol);
    }

    TEST_CASE("codecs that no body has together are refused, and those that the rows cannot have") {
        const Bytes body(8);
        const BodyForm form{kFloat, 1, 2};
        REQUIRE(decoded_code(form, 0, body) == Errc::kOk);
        for (const int codecs : {kKept | kFactors, kIntegers | kHalves, kHalves | kHalvesB,
                                 kTablesOwn | kIntegers, kAllCodecs + 1, 0x8000, 0xffff})
            CHECK(decoded_code(form, static_cast<Codecs>(codecs), body) == Errc::kProtocol);
        CHECK(decoded_code(form, kTablesOwn, Bytes(4)) == Errc::kProtocol);
        CHECK(decoded_code({kFloat, 1, 2, &kSame}, kTablesOwn, Bytes(4)) == Errc::kOk);
        CHECK(decoded_code({ValueType::kInt32, 1, 2, &kSame}, kTablesOwn, Bytes(4)) ==
              Errc::kProtocol);
        CHECK(decoded_code({ValueType::kInt32, 1, 2}, kHalves, Bytes(4)) == Errc::kProtocol);
        CHECK(decoded_code({ValueType::kFloat64, 1, 1}, kHalvesB, Bytes(4)) == Errc::kProtocol);
        CHECK(decoded_code({ValueType::kFloat16, 1, 4}, kIntegers, body) == Errc::kProtocol);
        CHECK(decoded_code({ValueType::kInt64, 1, 1}, kFactors, body) == Errc::kProtocol);
        CHECK(decoded_code({ValueType::kBFloat16, 1, 4}, kFactors, body) == Errc::kProtocol);
    }

    TEST_CASE("factors are refused with too much work, without rank, and where rows are shorter") {
        const auto with_rank = [](uint32_t rank, size_t values) {
            Bytes body(4 + 4 * values);
            std::memcpy(body.data(), &rank, 4);
            return body;
        };
        const BodyForm form{kFloat, 100, 100};
        CHECK(decoded_code(form, kFactors, with_rank(50, 10'000)) == Errc::kOk);
        CHECK(decoded_code(form, kFactors, with_rank(51, 10'200)) == Errc::kProtocol);
        CHECK(decoded_code(form, kFactors, with_rank(0, 0)) == Errc::kProtocol);
        CHECK(decoded_code(form, kFactors, with_rank(~0U, 0)) == Errc::kProtocol);
        CHECK(decoded_code(form, kFactors, with_rank(1, 199)) == Errc::kProtocol);
        CHECK(decoded_code(form, kFactors, with_rank(1, 201)) == Errc::kProtocol);
        CHECK(decoded_code(form, kFactors, Bytes(3)) == Errc::kProtocol);
        const BodyForm great{kFloat, 8192, 8193};
        CHECK(decoded_code(great, kFactors, with_rank(1, 16'385)) == Errc::kProtocol);
        CHECK(decoded_code({kFloat, 1, 0}, kFactors, with_rank(1, 1)) == Errc::kProtocol);
        CHECK(may_have_factors(form, 50));
        CHECK_FALSE(may_have_factors(form, 51));
        CHECK_FALSE(may_have_factors({ValueType::kInt32, 100, 100}, 1));
        CHECK_FALSE(may_have_factors({kFloat, ~0U, ~0U}, ~0U));
    }

    TEST_CASE("few bytes that say they are many are refused before there is memory for them") {
        const BodyForm form{kFloat, 64, 1U << 22};  // 1 GiB
        BodyDecoder decoder;
        Bytes bomb(100);
        for (size_t i = 0; i < 4; ++i)
            bomb[i] = std::byte{0xff};
        // As sizes of what is compressed: 1 GiB - 1, and 4 GiB - 1.
        for (const std::byte last : {std::byte{0x03}, std::byte{0x0f}}) {
            bomb[4] = last;
            for (unsigned codecs = 1; codecs <= kAllCodecs; ++codecs) {
                CHECK(decoder.decode(form, static_cast<Codecs>(codecs), bomb).code() ==
                      Errc::kProtocol);
            }
        }
        // Blocks of integers without offsets, and bitmaps without bits, but not enough of either.
        Bytes zeros(100'000);
        for (unsigned codecs = 1; codecs <= kAllCodecs; ++codecs)
            CHECK_FALSE(decoder.decode(form, static_cast<Codecs>(codecs), zeros));
        CHECK(decoder.memory_bytes() < (1U << 20));
    }

    TEST_CASE("what compresses best is accepted all the same") {
        Made made = floats(std::vector<float>(1 << 20, 0.0F));
        BodyEncoder encoder;
        BodyDecoder decoder;
        check_body(made, kCompress, encoder, decoder);
        CHECK(encoder.body().size() * 20 < made.rows.size());
    }

    TEST_CASE("rows of more than 4 GiB have no body, and their sizes do not overflow") {
        const BodyForm most{ValueType::kFloat64, ~0U, ~0U, &kSame};
        CHECK(body_bytes_max(most) > kBodyBytesMax);
        CHECK(decoded_code(most, kIntegers, Bytes(100)) == Errc::kProtocol);
        CHECK(decoded_code(most, kTablesOwn, Bytes(8)) == Errc::kProtocol);
        BodyEncoder encoder;
        CHECK(encoder.encode({.form = most, .rows = {}}, kZeros | kCompress) == 0);
        CHECK(body_bytes_max({kFloat, 1U << 30, 1}) > kBodyBytesMax);
        CHECK(body_bytes_max({kFloat, 1U << 20, 1U << 9}) < kBodyBytesMax);
    }

    TEST_CASE("bytes that are changed at random are refused, or become rows of the right number") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        BodyEncoder encoder;
        BodyDecoder decoder;
        for (int i = 0; i < 20'000; ++i) {
            const auto type = static_cast<ValueType>(random.below(kValueTypeCount));
            const BodyForm form{type, static_cast<uint32_t>(1 + random.below(4)),
                                static_cast<uint32_t>(random.below(100)), &kSame};
            auto wanted = static_cast<Codecs>(random.below(kAllCodecs + 1)) & ~kFactors;
            const Made made = make(random, form, static_cast<Codecs>(wanted),
                                   kAllValues[random.below(5)], random.below(11));
            const Codecs used = encoder.encode(made.source(), static_cast<Codecs>(wanted));
            Bytes body(encoder.body().begin(), encoder.body().end());
            if (body.empty()) continue;
            for (uint64_t k = random.below(3); k < 3; ++k)
                body[random.below(body.size())] ^= static_cast<std::byte>(1 << random.below(8));
            const Result<Body> decoded = decoder.decode(form, used, body);
            if (!decoded) {
                REQUIRE(decoded.code() == Errc::kProtocol);
                continue;
            }
            REQUIRE(decoded->rows.size() == decoded->kept_count * form.row_bytes());
            REQUIRE(decoded->kept_count <= form.row_count);
            REQUIRE(std::ranges::adjacent_find(decoded->keys, std::ranges::greater_equal{}) ==
                    decoded->keys.end());
        }
    }

    TEST_CASE("memory that only a rare body needed is given back, and what is used often is not") {
        BodyMemory memory;
        const auto take = [&memory](size_t bytes) { CHECK(memory.take(bytes).size() == bytes); };
        take(BodyMemory::kKeptBytes * 10);
        for (unsigned i = 1; i < BodyMemory::kRare; ++i)
            take(1000);
        CHECK(memory.capacity_bytes() >= BodyMemory::kKeptBytes * 10);
        take(1000);
        CHECK(memory.capacity_bytes() < 2000);
        take(BodyMemory::kKeptBytes / 2);
        const size_t capacity = memory.capacity_bytes();
        for (unsigned i = 0; i < 10 * BodyMemory::kRare; ++i)
            take(1);
        CHECK(memory.capacity_bytes() == capacity);
        take(BodyMemory::kKeptBytes * 10);
        for (unsigned i = 0; i < 10 * BodyMemory::kRare; ++i)
            take(i % BodyMemory::kRare == 0 ? BodyMemory::kKeptBytes * 5 : 1);
        CHECK(memory.capacity_bytes() >= BodyMemory::kKeptBytes * 10);
    }
}
