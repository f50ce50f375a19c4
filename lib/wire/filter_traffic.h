// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FilterTraffic: what each filter has made of the bytes of pushes and pulls.

#include <array>
#include <cstdint>

namespace weir {

/// What came into a filter, and what came out of it: of values that it was to make fewer bytes of.
struct FilterBytes {
    uint64_t before = 0;
    uint64_t after = 0;

    void add(uint64_t its_before, uint64_t its_after) noexcept {
        before += its_before;
        after += its_after;
    }

    friend bool operator==(const FilterBytes&, const FilterBytes&) = default;
};

/// As a client counts its own, or a shard those that it has seen. At a client a body counts once, however often
/// it is sent. A shard knows of no rows that are held back, of no lists that it was not sent, and of factors only
/// what they are multiplied out.
struct FilterTraffic {
    // Of pushes and pulls: keys of lists.
    FilterBytes key_cache;  ///< a list that the server knows travels as its hash
    // Of values that are pushed, in the order of filters.
    FilterBytes selectors;  ///< rows, without the bits that say which ones are kept
    FilterBytes factors;    ///< matrices in the place of their product
    FilterBytes zeros;
    FilterBytes integers;  ///< also halves, and the table's own codec
    FilterBytes compress;  ///< with keys, as differences
    // Of values that are pulled.
    FilterBytes pulled_zeros;
    FilterBytes pulled_integers;
    FilterBytes pulled_compress;
    uint64_t rows_pushed = 0;  ///< by calls that went through selectors
    uint64_t rows_kept = 0;    ///< of these
    uint64_t rows_held = 0;    ///< back, now

    friend bool operator==(const FilterTraffic&, const FilterTraffic&) = default;

    /// `sizes`: of a body of values that are pushed (BodySizes). `key_bytes`: of those of its keys, as they are.
    void note_push(const auto& sizes, uint64_t key_bytes) noexcept {
        zeros.add(sizes.rows, sizes.zeros);
        integers.add(sizes.zeros, sizes.values());
        compress.add(sizes.inner - sizes.keys + key_bytes, sizes.body);
    }

    void note_pull(const auto& sizes) noexcept {
        pulled_zeros.add(sizes.rows, sizes.zeros);
        pulled_integers.add(sizes.zeros, sizes.inner);
        pulled_compress.add(sizes.inner, sizes.body);
    }

    /// What came through selectors, of one push.
    void note_selected(uint64_t row_count, uint64_t kept_count, uint64_t row_bytes) noexcept {
        rows_pushed += row_count;
        rows_kept += kept_count;
        selectors.add(row_count * row_bytes, kept_count * row_bytes);
    }

    /// Adds all that a shard has counted.
    void add(const FilterTraffic& other) noexcept;

    /// No codec made these values fewer bytes.
    void note_plain_push(uint64_t bytes) noexcept {
        for (FilterBytes* const of : {&zeros, &integers, &compress})
            of->add(bytes, bytes);
    }

    void note_plain_pull(uint64_t bytes) noexcept {
        for (FilterBytes* const of : {&pulled_zeros, &pulled_integers, &pulled_compress})
            of->add(bytes, bytes);
    }
};

/// Those of pulls, and of pushes of rows.
inline constexpr std::array<FilterBytes FilterTraffic::*, 8> kFilterBytes = {
    &FilterTraffic::key_cache,       &FilterTraffic::selectors,       &FilterTraffic::zeros,
    &FilterTraffic::integers,        &FilterTraffic::compress,        &FilterTraffic::pulled_zeros,
    &FilterTraffic::pulled_integers, &FilterTraffic::pulled_compress,
};

inline void FilterTraffic::add(const FilterTraffic& other) noexcept {
    for (FilterBytes FilterTraffic::*const of : kFilterBytes)
        (this->*of).add((other.*of).before, (other.*of).after);
    rows_pushed += other.rows_pushed;
    rows_kept += other.rows_kept;
}

}  // namespace weir
