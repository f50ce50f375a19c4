// SPDX-License-Identifier: Apache-2.0
#include "lib/filter/select/block_round.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/seed.h"

TEST_SUITE("block_round") {
    using namespace weir;

    namespace {

    constexpr RoundForm kForms[] = {RoundForm::kFixed8, RoundForm::kFixed16, RoundForm::kFixed32,
                                    RoundForm::kBFloat16, RoundForm::kFloat16};

    std::vector<float> rounded(RoundForm form, std::span<const float> values, uint64_t seed) {
        std::vector<float> to(values.size());
        REQUIRE(round_values(form, values, seed, to));
        return to;
    }

    /// Between two of what `form` can say there is at most so much.
    double step_of(RoundForm form, double value, double greatest) {
        if (form == RoundForm::kBFloat16) return std::max(std::abs(value) * 0x1p-7, 0x1p-133);
        if (form == RoundForm::kFloat16) return std::max(std::abs(value) * 0x1p-10, 0x1p-24);
        const int bytes = form == RoundForm::kFixed8 ? 1 : form == RoundForm::kFixed16 ? 2 : 4;
        const double integers = std::ldexp(1, 8 * bytes - 1) - 1;
        return std::max(2 * greatest / integers, 0x1p-126);
    }

    std::vector<float> random_values(Random& random, size_t count, double scale) {
        std::vector<float> values(count);
        for (float& value : values)
            value = static_cast<float>((random.uniform() - 0.5) * scale);
        return values;
    }

    double greatest_of_block(const std::vector<float>& values, size_t i) {
        double greatest = 0;
        const size_t begin = i / kRoundBlock * kRoundBlock;
        for (size_t k = begin; k < std::min(values.size(), begin + kRoundBlock); ++k)
            greatest = std::max(greatest, std::abs(static_cast<double>(values[k])));
        return greatest;
    }

    }  // namespace

    TEST_CASE("values stay within a step, in any number, and the same seed draws the same") {
        WEIR_TEST_SEED(seed, 1);
        Random random(seed);
        for (const RoundForm form : kForms) {
            for (const double scale : {1e-38, 1e-3, 1.0, 3e4}) {
                for (const size_t count : {0, 1, 63, 64, 65, 128, 1000}) {
                    const auto values = random_values(random, count, scale);
                    const auto back = rounded(form, values, seed);
                    CHECK(rounded(form, values, seed) == back);
                    for (size_t i = 0; i < count; ++i) {
                        const auto value = static_cast<double>(values[i]);
                        const double error = std::abs(static_cast<double>(back[i]) - value);
                        REQUIRE(error <= step_of(form, value, greatest_of_block(values, i)));
                    }
                }
            }
        }
    }

    TEST_CASE("the mean over the draws is the value") {
        WEIR_TEST_SEED(seed, 1);
        constexpr int kSeeds = 4'000;
        Random random(seed);
        for (const RoundForm form : kForms) {
            std::vector<float> values = random_values(random, 100, 2);
            values[0] = 1.0F / 3;
            values[1] = 1e-5F;
            values[2] = -1e-5F;
            std::vector<double> sums(values.size());
            std::vector<double> squares(values.size());
            for (int s = 0; s < kSeeds; ++s) {
                const auto back = rounded(form, values, random());
                for (size_t i = 0; i < values.size(); ++i) {
                    const double error =
                        static_cast<double>(back[i]) - static_cast<double>(values[i]);
                    sums[i] += error;
                    squares[i] += error * error;
                }
            }
            double all = 0;
            double all_squares = 0;
            for (size_t i = 0; i < values.size(); ++i) {
                // Rare draws may be missing in the sample: then its sum says how far they are
                // expected.
                const double step = step_of(form, static_cast<double>(values[i]), 1);
                const double error = std::sqrt(std::max(squares[i], std::abs(sums[i]) * step));
                CHECK(std::abs(sums[i]) <= 4 * error);
                all += sums[i];
                all_squares += squares[i];
            }
            CHECK(std::abs(all) <= 4 * std::sqrt(all_squares));
        }
    }

    TEST_CASE("draws of neighbours, of blocks and of seeds are independent") {
        // The sum of many errors varies as much as the errors do. The last block is a short one.
        WEIR_TEST_SEED(seed, 1);
        for (const size_t count : {size_t{127}, size_t{4'096}}) {
            const std::vector<float> values(count, 0.7F + 0x1p-9F);
            double of_sums = 0;
            double of_values = 0;
            constexpr int kSeeds = 400;
            for (int s = 0; s < kSeeds; ++s) {
                double sum = 0;
                for (const float back :
                     rounded(RoundForm::kFixed8, values, seed + static_cast<uint64_t>(s))) {
                    const double error = static_cast<double>(back) - static_cast<double>(values[0]);
                    sum += error;
                    of_values += error * error;
                }
                of_sums += sum * sum;
            }
            CAPTURE(count);
            CHECK(of_sums / of_values > 1 - 4 * std::sqrt(2.0 / kSeeds));
            CHECK(of_sums / of_values < 1 + 4 * std::sqrt(2.0 / kSeeds));
        }
    }

    TEST_CASE("what a form can say stays as it is") {
        std::vector<float> values;
        for (int i = -127; i <= 127; ++i)
            values.push_back(static_cast<float>(i) * 0x1p-5F);
        for (size_t i = 0; i < values.size(); i += kRoundBlock)
            values[i] = 127 * 0x1p-5F;  // blocks have a scale of their own
        for (const RoundForm form : kForms)
            CHECK(rounded(form, values, 3) == values);
        const std::vector<float> zeros(100, 0.0F);
        for (const RoundForm form : kForms)
            CHECK(rounded(form, zeros, 3) == zeros);
        // 4 bytes are enough for floats that are not much smaller than the greatest one.
        const std::vector<float> wide{1.0F, 0.3F, -0.01F, 1.0F / 129};
        CHECK(rounded(RoundForm::kFixed32, wide, 3) == wide);
    }

    TEST_CASE("the greatest values that are taken stay finite, and greater ones are refused") {
        for (const RoundForm form : kForms) {
            const float most =
                form == RoundForm::kFloat16 ? 65504 : std::nextafter(kRoundedMax, 0.0F);
            std::vector<float> values(70, 1.0F);
            values[66] = -most;
            values[3] = most;
            for (uint64_t seed = 0; seed < 20; ++seed) {
                for (const float back : rounded(form, values, seed))
                    CHECK(std::isfinite(back));
            }
            std::vector<float> to(values.size());
            for (const float bad : {std::nextafter(most, std::numeric_limits<float>::infinity()),
                                    std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()}) {
                for (const size_t at : {size_t{0}, size_t{69}}) {
                    std::vector<float> wrong(70, 1.0F);
                    wrong[at] = -bad;
                    CHECK_FALSE(round_values(form, wrong, 1, to));
                }
            }
        }
    }

    TEST_CASE("zeros have no sign, and scales are no smaller than a normal number") {
        std::vector<float> values(64, -0.0F);
        values[1] = 0x1p-149F;
        values[2] = -0x1p-140F;
        for (const RoundForm form :
             {RoundForm::kFixed8, RoundForm::kFixed16, RoundForm::kFixed32}) {
            for (uint64_t seed = 0; seed < 20; ++seed) {
                for (const float value : rounded(form, values, seed)) {
                    CHECK((value == 0 || std::abs(value) == 0x1p-126F));
                    CHECK((value != 0 || !std::signbit(value)));
                }
            }
        }
    }
}
