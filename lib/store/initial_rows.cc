// SPDX-License-Identifier: Apache-2.0
#include "lib/store/initial_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lib/base/random.h"
#include "lib/key/narrow_values.h"

namespace weir {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
/// What kQuantiles counts 1 as.
constexpr int kQuantileBits = 30;

/// Where each 256th of the absolute values of the normal distribution ends, which is
/// cut at two standard deviations.
constexpr std::array<int64_t, 257> kQuantiles = {
    0,          5017614,    10035337,   15053280,   20071551,   25090261,   30109519,   35129435,
    40150119,   45171681,   50194231,   55217880,   60242738,   65268915,   70296523,   75325673,
    80356475,   85389043,   90423486,   95459919,   100498452,  105539200,  110582274,  115627789,
    120675859,  125726597,  130780118,  135836538,  140895973,  145958537,  151024349,  156093524,
    161166180,  166242437,  171322411,  176406223,  181493993,  186585841,  191681889,  196782257,
    201887070,  206996450,  212110522,  217229409,  222353239,  227482137,  232616230,  237755648,
    242900518,  248050971,  253207137,  258369149,  263537140,  268711243,  273891592,  279078326,
    284271579,  289471491,  294678200,  299891848,  305112576,  310340527,  315575846,  320818677,
    326069169,  331327469,  336593727,  341868094,  347150723,  352441768,  357741386,  363049732,
    368366967,  373693250,  379028745,  384373615,  389728026,  395092147,  400466146,  405850195,
    411244468,  416649140,  422064389,  427490395,  432927340,  438375407,  443834784,  449305659,
    454788223,  460282670,  465789196,  471308000,  476839282,  482383248,  487940103,  493510057,
    499093324,  504690118,  510300658,  515925165,  521563864,  527216984,  532884756,  538567415,
    544265199,  549978350,  555707114,  561451741,  567212483,  572989599,  578783350,  584594002,
    590421824,  596267092,  602130084,  608011083,  613910380,  619828266,  625765040,  631721007,
    637696474,  643691756,  649707174,  655743053,  661799724,  667877526,  673976803,  680097905,
    686241189,  692407019,  698595767,  704807809,  711043533,  717303330,  723587603,  729896760,
    736231218,  742591403,  748977751,  755390706,  761830720,  768298256,  774793788,  781317799,
    787870782,  794453243,  801065696,  807708671,  814382707,  821088355,  827826181,  834596763,
    841400693,  848238577,  855111035,  862018704,  868962235,  875942296,  882959571,  890014762,
    897108589,  904241790,  911415124,  918629369,  925885323,  933183806,  940525662,  947911756,
    955342978,  962820244,  970344495,  977916699,  985537853,  993208983,  1000931146, 1008705429,
    1016532954, 1024414878, 1032352393, 1040346727, 1048399151, 1056510974, 1064683549, 1072918273,
    1081216591, 1089579996, 1098010033, 1106508300, 1115076451, 1123716201, 1132429325, 1141217663,
    1150083125, 1159027691, 1168053418, 1177162442, 1186356982, 1195639346, 1205011937, 1214477252,
    1224037896, 1233696583, 1243456141, 1253319524, 1263289814, 1273370234, 1283564152, 1293875094,
    1304306750, 1314862988, 1325547867, 1336365643, 1347320792, 1358418017, 1369662269, 1381058763,
    1392612998, 1404330778, 1416218235, 1428281857, 1440528513, 1452965485, 1465600505, 1478441791,
    1491498086, 1504778711, 1518293616, 1532053432, 1546069547, 1560354169, 1574920418, 1589782413,
    1604955381, 1620455776, 1636301419, 1652511652, 1669107523, 1686111992, 1703550173, 1721449619,
    1739840648, 1758756737, 1778234977, 1798316622, 1819047745, 1840480029, 1862671727, 1885688844,
    1909606591, 1934511208, 1960502256, 1987695551, 2016226955, 2046257351, 2077979277, 2111625929,
    2147483648,
};

/// How many bits a value has that is made for the type.
constexpr int digits_of(ValueType type) noexcept {
    return computed_type(type) == ValueType::kFloat32 ? std::numeric_limits<float>::digits
                                                      : std::numeric_limits<double>::digits;
}

}  // namespace

InitialRows::InitialRows(const InitialValue& initial, ValueType type, uint32_t width)
    : initial_(initial), type_(type), width_(width) {
    if (!initial.is_random()) return;
    stream_ = mix64(initial.seed + kGolden * initial.generator);
    const int exponent = initial.exponent();
    if (initial.kind == InitialValue::Kind::kUniform) {
        const int shift = digits_of(type) - exponent;
        base_ = static_cast<int64_t>(std::ceil(std::ldexp(initial.first, shift)));
        const auto last = static_cast<int64_t>(std::floor(std::ldexp(initial.second, shift)));
        span_ = static_cast<uint64_t>(std::max(last, base_) - base_) + 1;
        unit_ = std::ldexp(1.0, -shift);
    } else {  // finer, until the last step
        const int shift = digits_of(ValueType::kFloat64) - exponent;
        base_ = static_cast<int64_t>(std::floor(std::ldexp(initial.first, shift)));
        span_ = static_cast<uint64_t>(std::floor(std::ldexp(initial.second, shift)));
        unit_ = std::ldexp(1.0, exponent - digits_of(type));
    }
}

/// `row`: drawn for the key. `values`: from column `first` on.
template <class T>
void InitialRows::fill_values(uint64_t row, uint32_t first, std::span<T> values) const noexcept {
    constexpr int kCoarser = std::numeric_limits<double>::digits - std::numeric_limits<T>::digits;
    const T unit = static_cast<T>(unit_);
    for (size_t i = 0; i < values.size(); ++i) {
        const uint64_t bits = mix64(row + kGolden * (first + i + 1));
        int64_t units = 0;
        if (initial_.kind == InitialValue::Kind::kUniform) {
            units = base_ + static_cast<int64_t>(uint128{bits} * span_ >> 64);
        } else {  // sign, 8 bits of the quantile, and 31 bits of the way to the next one
            const size_t at = bits >> 55 & 0xff;
            const uint64_t way = bits >> 24 & 0x7fff'ffff;
            const auto step = static_cast<uint64_t>(kQuantiles[at + 1] - kQuantiles[at]);
            const uint64_t quantile = static_cast<uint64_t>(kQuantiles[at]) + (step * way >> 31);
            const auto off = static_cast<int64_t>(uint128{span_} * quantile >> kQuantileBits);
            units = (base_ + (bits >> 63 != 0 ? -off : off)) >> kCoarser;
        }
        values[i] = static_cast<T>(units) * unit;  // both are exact
    }
}

void InitialRows::fill_narrow(uint64_t row, std::byte* values) const noexcept {
    constexpr uint32_t kSome = 64;
    float some[kSome];
    for (uint32_t first = 0; first < width_; first += kSome) {
        const std::span columns(some, std::min(kSome, width_ - first));
        fill_values<float>(row, first, columns);
        narrow_to_nearest(type_, columns, values + first * size_of(type_));
    }
}

void InitialRows::fill(uint64_t key, std::byte* values) const noexcept {
    const uint64_t row = mix64(stream_ + mix64(key + kGolden));
    if (is_narrow(type_)) {
        fill_narrow(row, values);
    } else if (type_ == ValueType::kFloat32) {
        fill_values<float>(row, 0, {reinterpret_cast<float*>(values), width_});
    } else {
        fill_values<double>(row, 0, {reinterpret_cast<double*>(values), width_});
    }
}

}  // namespace weir
