// SPDX-License-Identifier: Apache-2.0
#include "lib/data/feature_matrix.h"

#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "lib/base/random.h"
#include "tests/data/scratch.h"
#include "tests/seed.h"

namespace {

using namespace weir;
using namespace weir::data;

using Cells = std::map<std::pair<uint64_t, uint32_t>, float>;  // (key, row) -> value

/// Random rows in several chunks, and the cells that they hold.
Examples random_examples(Random& random, bool ones, Cells& cells) {
    Examples examples;
    for (int i = 0; i < 500; ++i)
        examples.keys.push_back(random() >> random.below(60));
    std::sort(examples.keys.begin(), examples.keys.end());
    examples.keys.erase(std::unique(examples.keys.begin(), examples.keys.end()),
                        examples.keys.end());
    for (size_t i = examples.keys.size(); i > 1; --i) {
        std::swap(examples.keys[i - 1], examples.keys[random.below(i)]);
    }
    uint32_t row = 0;
    for (int c = 0; c < 5; ++c) {
        RowChunk chunk;
        for (uint64_t r = random.below(200); r > 0; --r, ++row) {
            chunk.labels.push_back(random.below(2) == 0 ? 1 : -1);
            std::set<uint32_t> features;
            for (uint64_t k = random.below(30); k > 0; --k) {
                features.insert(static_cast<uint32_t>(random.below(examples.keys.size())));
            }
            chunk.lengths.push_back(static_cast<uint32_t>(features.size()));
            for (const uint32_t feature : features) {
                const float value =
                    ones || c == 2 ? 1.0F : static_cast<float>(random.uniform() + 1);
                chunk.features.push_back(feature);
                if (!ones && c != 2) chunk.values.push_back(value);
                cells[{examples.keys[feature], row}] = value;
            }
        }
        examples.chunks.push_back(std::move(chunk));
    }
    return examples;
}

}  // namespace

TEST_SUITE("feature_matrix") {
    TEST_CASE("every non-zero of the rows is in its column, rows rising, groups together") {
        WEIR_TEST_SEED(seed, 23);
        Random random(seed);
        for (const bool ones : {true, false}) {
            Cells cells;
            Examples examples = random_examples(random, ones, cells);
            const FeatureGroups groups = {
                6, [](uint64_t key) { return static_cast<uint32_t>(mix64(key) % 6); }};
            const FeatureMatrix matrix = make_feature_matrix(std::move(examples), groups);
            CHECK(matrix.values.empty() == ones);
            CHECK(matrix.group_count() == 6);
            CHECK(matrix.group_begin.back() == matrix.column_count());
            Cells found;
            for (uint32_t group = 0; group < 6; ++group) {
                for (uint64_t c = matrix.group_begin[group]; c < matrix.group_begin[group + 1];
                     ++c) {
                    CHECK(groups.of(matrix.keys[c]) == group);
                    if (c > matrix.group_begin[group]) CHECK(matrix.keys[c - 1] < matrix.keys[c]);
                    for (uint64_t i = matrix.offsets[c]; i < matrix.offsets[c + 1]; ++i) {
                        if (i > matrix.offsets[c]) CHECK(matrix.rows[i - 1] < matrix.rows[i]);
                        found[{matrix.keys[c], matrix.rows[i]}] = ones ? 1.0F : matrix.values[i];
                    }
                }
            }
            CHECK(found == cells);
            CHECK(matrix.rows.size() == cells.size());
        }
    }

    TEST_CASE("a click log takes four bytes per non-zero, and no examples take next to nothing") {
        WEIR_TEST_SEED(seed, 29);
        Random random(seed);
        Cells cells;
        const FeatureMatrix matrix = make_feature_matrix(random_examples(random, true, cells));
        CHECK(matrix.data_bytes() ==
              4 * cells.size() + 16 * matrix.column_count() + 8 + matrix.row_count() + 16);
        const FeatureMatrix empty = make_feature_matrix({});
        CHECK(empty.row_count() == 0);
        CHECK(empty.column_count() == 0);
        CHECK(empty.offsets == std::vector<uint64_t>{0});
    }
}
