// SPDX-License-Identifier: Apache-2.0
/// \file
/// Fuzz target: bytes that a peer sends as the times of a range are refused, or encode to the same
/// bytes again. A shard that holds the range takes over exactly these times. A shard that does not
/// hold it changes nothing.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/byte_codec.h"
#include "lib/base/check.h"
#include "lib/vclock/clock_table.h"

namespace {

using namespace weir;

/// The entries of every clock begin at position 0 and ascend, and neighbours have different times.
void check(const ClockTable& table, const ClockTimes& times) {
    for (const WorkerTimes& one : times.workers) {
        const RangeClock* const clock = table.find(one.worker);
        WEIR_CHECK(clock != nullptr && clock->entries().front().from == 0);
        for (size_t i = 1; i < clock->entries().size(); ++i) {
            WEIR_CHECK(clock->entries()[i - 1].from < clock->entries()[i].from);
            WEIR_CHECK(clock->entries()[i - 1].time != clock->entries()[i].time);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    ByteReader reader(bytes);
    const auto times = ClockTimes::decode(reader);
    if (!times) return 0;
    const size_t left = reader.rest().size();
    ByteWriter again;
    times->encode(again);
    WEIR_CHECK(std::ranges::equal(again.bytes(), bytes.first(size - left)));

    static const SegmentList whole(1, {PositionRange{}});
    ClockTable table;
    WEIR_CHECK(table.take(whole, *times));
    check(table, *times);
    WEIR_CHECK(table.part(whole, times->range) == *times);

    // A shard that holds parts of the ring and has times of its own already.
    static const SegmentList parts(2, {{0, 99}, {200, 299}, {300, ~uint64_t{0} >> 1}});
    ClockTable other;
    for (uint32_t worker = 0; worker < 4; ++worker)
        other.of(worker)->raise(parts, {worker % 3, 3}, worker + 1);
    if (other.take(parts, *times)) {
        check(other, *times);
        WEIR_CHECK(other.part(parts, times->range) == *times);
        other.adopt(parts, whole);
        other.adopt(whole, parts);
        WEIR_CHECK(other.part(parts, times->range) == *times);
    } else {
        WEIR_CHECK(other.count() == 4);
    }
    return 0;
}
