// SPDX-License-Identifier: Apache-2.0
/// \file
/// Writes the checkpoint of small_checkpoint.h: small_checkpoint FOLDER NUMBER STAMP SHARDS. With a
/// fifth argument, the number of a checkpoint of that stamp, the chunks of its dense table are named
/// again; if it is "state", the second table is a dense one with state.

#include "tests/checkpoint/small_checkpoint.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
    if (argc != 5 && argc != 6) return 2;
    const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    weir::checkpoint::RealDisk disk;
    if (argc == 6 && std::string_view(argv[5]) == "state") {
        return weir::testing::write_tables(
                   disk, argv[1], number(2), number(3), number(4),
                   {weir::testing::dense_table(), weir::testing::dense_state_table()})
                   ? 0
                   : 1;
    }
    const weir::Status written =
        argc == 6 ? weir::testing::write_increment(disk, argv[1], number(2), number(5), number(3))
                  : weir::testing::write_small(disk, argv[1], number(2), number(3), number(4));
    if (!written) std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return written ? 0 : 1;
}
