// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A FilterTraffic as bytes: what shards count of it.

#include "lib/base/byte_codec.h"
#include "lib/wire/filter_traffic.h"

namespace weir {

inline void write(ByteWriter& writer, const FilterTraffic& traffic) {
    for (FilterBytes FilterTraffic::*const of : kFilterBytes)
        writer.number((traffic.*of).before).number((traffic.*of).after);
    writer.number(traffic.rows_pushed).number(traffic.rows_kept);
}

inline void read(ByteReader& reader, FilterTraffic& traffic) {
    for (FilterBytes FilterTraffic::*const of : kFilterBytes) {
        (traffic.*of).before = reader.number<uint64_t>();
        (traffic.*of).after = reader.number<uint64_t>();
    }
    traffic.rows_pushed = reader.number<uint64_t>();
    traffic.rows_kept = reader.number<uint64_t>();
}

}  // namespace weir
