// SPDX-License-Identifier: Apache-2.0
/// \file
/// Writes the checkpoint of small_checkpoint.h: small_checkpoint FOLDER NUMBER STAMP SHARDS. With a
/// fifth argument, the number of a checkpoint of that stamp, the chunks of its dense table are named
/// again.

#include "tests/checkpoint/small_checkpoint.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
    if (argc != 5 && argc != 6) return 2;
    const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    weir::checkpoint::RealDisk disk;
    const weir::Status written =
        argc == 6 ? weir::testing::write_increment(disk, argv[1], number(2), number(5), number(3))
                  : weir::testing::write_small(disk, argv[1], number(2), number(3), number(4));
    if (!written) std::fprintf(stderr, "%s\n", written.error().message().c_str());
    return written ? 0 : 1;
}
