// SPDX-License-Identifier: Apache-2.0
/// \file
/// Writes the checkpoint of small_checkpoint.h: small_checkpoint FOLDER NUMBER STAMP SHARDS. With a
/// fifth argument, the number of a checkpoint of that stamp, the chunks of its dense table are named
/// again; if it is "state", the second table is a dense one with state; if it is "narrow", both are,
/// of narrow values.

#include "tests/checkpoint/small_checkpoint.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
    if (argc != 5 && argc != 6) return 2;
    const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    weir::checkpoint::RealDisk disk;
    const std::string_view what = argc == 6 ? argv[5] : "";
    if (what == "state" || what == "narrow") {
        const auto tables = what == "narrow" ? weir::testing::narrow_tables()
                                             : std::vector{weir::testing::dense_table(),
                                                           weir::testing::dense_state_table()};
        return weir::testing::write_tables(disk, argv[1], number(2), number(3), number(4), tables)
                   ? 0
                   : 1;
    }
    const weir::Status written =
        argc == 6 ? weir::testing::write_increment(disk, argv[1], number(2), number(5), number(3))
                  : weir::testing::write_small(disk, argv[1], number(2), number(3), number(4));
    if (!written) std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return written ? 0 : 1;
}
