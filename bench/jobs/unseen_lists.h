// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// UnseenLists: all keys of a table as lists that its server has not seen, again and again.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "bench/jobs/work.h"
#include "lib/base/random.h"

namespace weir::bench {

/// Thread: one
class UnseenLists {
public:
    static constexpr size_t kListKeys = 8192;

    [[nodiscard]] Status make(Client& client, size_t list_count) {
        if (keys_.size() != 0) return {};
        WEIR_ASSIGN(keys_, client.make_buffer<uint64_t>(list_count * kListKeys));
        for (size_t i = 0; i < keys_.size(); ++i)
            keys_[i] = mix64(i + 1);
        shuffle();
        return {};
    }

    [[nodiscard]] size_t key_count() const { return keys_.size(); }

    [[nodiscard]] size_t count() const { return keys_.size() / kListKeys; }

    [[nodiscard]] std::span<const uint64_t> list(size_t i) const {
        return keys_.span().subspan(i * kListKeys, kListKeys);
    }

    /// Puts the same keys into other lists.
    void shuffle() {
        std::ranges::shuffle(keys_.span(), random_);
        for (size_t i = 0; i < count(); ++i)
            std::ranges::sort(keys_.span().subspan(i * kListKeys, kListKeys));
    }

    /// Starts `operation(i)` for every list i and returns the keys per second.
    template <class Operation>
    [[nodiscard]] Result<double> time(Flight& flight, Operation&& operation) const {
        const SteadyClock clock;
        const uint64_t begin_ns = clock.now_ns();
        for (size_t i = 0; i < count(); ++i) {
            WEIR_TRY(flight.room());
            const uint64_t now_ns = clock.now_ns();
            flight.add(operation(i), now_ns);
        }
        WEIR_TRY(flight.finish());
        return static_cast<double>(key_count()) * 1e9 /
               static_cast<double>(clock.now_ns() - begin_ns);
    }

private:
    Buffer<uint64_t> keys_;  // list after list
    Random random_{5};
};

}  // namespace weir::bench
