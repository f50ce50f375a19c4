// SPDX-License-Identifier: Apache-2.0
/// \file
/// Messages of several frames: each is handled as if it had come alone, a bad one closes the connection, and
/// replies that are ready leave together.

#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cluster/malformed_frames.h"
#include "tests/cluster/raw_worker_cluster.h"

namespace weir::test {
namespace {

/// Puts frames behind each other, as one message.
std::vector<std::byte> together(const std::vector<std::vector<std::byte>>& frames) {
    std::vector<std::byte> message;
    for (const std::vector<std::byte>& frame : frames) {
        message.resize(wire::aligned(message.size()));
        message.insert(message.end(), frame.begin(), frame.end());
    }
    return message;
}

/// The `time`-th push of one key, of 8 bytes.
std::vector<std::byte> push_frame(uint64_t request, uint64_t value, uint32_t time,
                                  uint32_t predecessor) {
    wire::FrameHeader header = one_key(wire::Kind::kPush, wire::kKeysRange | wire::kValuesInline);
    header.request = request;
    header.time = time;
    header.set_predecessor(predecessor);
    return frame_bytes(header, std::as_bytes(std::span(&value, 1)));
}

std::vector<std::byte> pull_frame(uint64_t request) {
    wire::FrameHeader header = one_key(wire::Kind::kPull, wire::kKeysRange | wire::kValuesInline);
    header.request = request;
    return frame_bytes(header, {});
}

/// A table of uint64_t, and a connection of the worker that the test plays.
struct FramesCluster : RawWorkerCluster {
    FramesCluster() {
        REQUIRE(cluster.make_table(0, dense_table("counts", 8, ValueType::kUInt64)));
        connection = raw.hello(*cluster.shards[0], 1);
        raw.run();
    }

    transport::ConnectionId connection = 0;
};

}  // namespace

TEST_SUITE("several frames") {
    TEST_CASE("pushes and a pull in one message are done in order, and answered in one") {
        FramesCluster cluster;
        const size_t before = cluster.raw.messages();
        cluster.raw.send_bytes(
            cluster.connection,
            together({push_frame(11, 5, 1, 0), push_frame(12, 7, 2, 1), pull_frame(13)}));
        REQUIRE(cluster.raw.run_until([&] { return cluster.raw.answer(13) != nullptr; }, 50));
        CHECK(cluster.raw.messages() == before + 1);
        for (const uint64_t request : {11, 12}) {
            REQUIRE(cluster.raw.answer(request) != nullptr);
            CHECK(cluster.raw.answer(request)->header.status == Errc::kOk);
        }
        uint64_t value = 0;
        REQUIRE(cluster.raw.answer(13)->body.size() == sizeof value);
        std::memcpy(&value, cluster.raw.answer(13)->body.data(), sizeof value);
        CHECK(value == 12);
    }

    TEST_CASE("a bad frame behind a good one closes the connection; the good one counts") {
        const auto closes = [](std::vector<std::byte> second) {
            FramesCluster cluster;
            const LogLines log;
            cluster.raw.send_bytes(cluster.connection,
                                   together({push_frame(11, 5, 1, 0), std::move(second)}));
            REQUIRE(cluster.raw.run_until([&] { return cluster.raw.is_closed(cluster.connection); },
                                          50));
            return log.text();
        };
        std::vector<std::byte> no_magic = pull_frame(12);
        no_magic[0] ^= std::byte{1};
        CHECK(closes(no_magic).find("a malformed frame") != std::string::npos);
        const std::string several = "several frames in one message that are not all pushes";
        CHECK(closes(frame_bytes(wire::header_of(wire::Kind::kStats), {})).find(several) !=
              std::string::npos);
        CHECK(closes(frame_bytes(wire::header_of(wire::Kind::kReply), {})).find(several) !=
              std::string::npos);
    }
}

}  // namespace weir::test
