// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// FilterTraffic: what each filter has made of the bytes of a client's pushes and pulls.

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
};

/// A body counts once, however often it is sent.
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

}  // namespace weir
