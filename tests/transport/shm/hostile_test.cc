// SPDX-License-Identifier: Apache-2.0
/// \file
/// Peers that know the secret and then break the rules.
#include <cstring>

#include <doctest/doctest.h>
#include <unistd.h>

#include "lib/base/random.h"
#include "tests/transport/shm/helpers.h"
#include "transport/shm/memory/peer_regions.h"
#include "transport/shm/memory/regions.h"

namespace weir::transport::shm {

namespace {

using testing::Actor;
using testing::Forked;
using testing::RawPeer;
using testing::test_device;

/// An endpoint with a well-behaved peer and a bad one.
struct Scene {
    std::unique_ptr<Device> device = test_device();
    std::unique_ptr<Device> other = test_device();
    Actor victim{*device};
    Actor friendly{*other};
    ConnectionId near = friendly.connect(victim.endpoint().address(), &victim);
    ConnectionId far = victim.accept();
    ConnectionId bad_id = 0;

    Scene() { REQUIRE(near != 0); }

    void let_in(RawPeer& bad) {
        victim.happened.clear();
        REQUIRE(bad.connect(victim.endpoint().address(), [&] { victim.poll(); }));
        bad_id = victim.accept();
        REQUIRE(bad_id != 0);
    }

    [[nodiscard]] bool closes() {
        return victim.until([&] { return victim.closed(bad_id).has_value(); });
    }

    void check_the_others() {
        REQUIRE(friendly.send(near, "still there?") == Post::kPosted);
        friendly.endpoint().flush();
        CHECK(victim.receive(far) == "still there?");
        CHECK_FALSE(victim.closed(far).has_value());
    }
};

void scribble(std::span<std::byte> memory, Random& random) {
    const uint64_t words = memory.size() / 8;
    for (uint64_t i = 1 + random.below(20); i > 0; --i) {
        // Mostly control words and the first records, which are read most often.
        const uint64_t at = random.below(3) == 0   ? random.below(64)
                            : random.below(2) == 0 ? kRingsAt / 8 + random.below(64)
                                                   : random.below(words);
        const uint64_t word = random.below(2) == 0
                                  ? random()
                                  : encode_header(static_cast<RecordKind>(random.below(7)),
                                                  static_cast<uint32_t>(random.below(9000)),
                                                  static_cast<uint32_t>(random.below(4)));
        std::atomic_ref<uint64_t>(reinterpret_cast<uint64_t*>(memory.data())[at])
            .store(word, std::memory_order_relaxed);
    }
}

}  // namespace

TEST_SUITE("hostile") {
    TEST_CASE("garbage in the ring closes that connection only") {
        Scene scene;
        for (const uint64_t header :
             {~uint64_t{0}, encode_header(RecordKind::kMessage, 8193, 1),
              encode_header(RecordKind::kMessage, 8), encode_header(RecordKind::kWrap, 0, 1),
              encode_header(RecordKind::kAccept, 0, 1)}) {
            RawPeer bad;
            scene.let_in(bad);
            const uint64_t refused = scene.victim.endpoint().counters().refused;
            std::memcpy(bad.agreement().memory.bytes().data() + kRingsAt, &header, 8);
            REQUIRE(scene.closes());
            CHECK(scene.victim.closed(scene.bad_id) == Errc::kProtocol);
            CHECK(scene.victim.endpoint().counters().refused == refused + 1);
            // The peer learns that it is the connection that ends, and not the process.
            Record last;
            REQUIRE(bad.agreement().channel.in.take(last) == Take::kRecord);
            CHECK(last.kind == RecordKind::kClose);
            CHECK(last.value == static_cast<uint32_t>(Errc::kProtocol));
            scene.check_the_others();
        }
    }

    TEST_CASE("a lie about what was consumed closes that connection only") {
        Scene scene;
        RawPeer bad;
        scene.let_in(bad);
        // The victim's outgoing ring is the second one; its reader is the bad peer.
        auto* const control =
            reinterpret_cast<RingControl*>(bad.agreement().memory.bytes().data()) + 1;
        control->consumed_bytes = uint64_t{1} << 50;
        Post answer = Post::kPosted;
        for (int i = 0; i < 10'000 && answer == Post::kPosted; ++i)
            answer = scene.victim.send(scene.bad_id, std::string(1000, 'x'));
        CHECK(answer == Post::kClosed);
        REQUIRE(scene.closes());
        CHECK(scene.victim.closed(scene.bad_id) == Errc::kProtocol);
        scene.check_the_others();
    }

    TEST_CASE("random words in the shared memory do no harm") {
        Random random(testing::seed_for("hostile scribbling"));
        Scene scene;
        for (int round = 0; round < 60; ++round) {
            RawPeer bad;
            scene.let_in(bad);
            for (int turn = 0; turn < 300 && !scene.victim.closed(scene.bad_id); ++turn) {
                scribble(bad.agreement().memory.bytes(), random);
                static_cast<void>(scene.victim.send(scene.bad_id, std::string(500, 'y')));
                scene.victim.poll();
                if (turn % 50 == 0) scene.check_the_others();
            }
            bad.hang_up();
            scene.check_the_others();
            if (!scene.victim.closed(scene.bad_id)) scene.victim.endpoint().close(scene.bad_id);
            REQUIRE(scene.closes());
        }
    }

    TEST_CASE("a process that scribbles all the time does no harm") {
        Random random(testing::seed_for("hostile process"));
        for (int round = 0; round < 5; ++round) {
            const uint64_t seed = random();
            Forked child([&](Forked& self) {
                RawPeer bad;
                if (!bad.connect(self.hear(), [] { usleep(10); })) return 1;
                Random own(seed);
                for (;;)
                    scribble(bad.agreement().memory.bytes(), own);
            });
            Scene scene;
            child.tell(scene.victim.endpoint().address());
            scene.victim.happened.clear();
            scene.bad_id = scene.victim.accept();
            REQUIRE(scene.bad_id != 0);
            for (int turn = 0; turn < 20'000 && !scene.victim.closed(scene.bad_id); ++turn) {
                static_cast<void>(scene.victim.send(scene.bad_id, "to the bad one"));
                scene.victim.poll();
                scene.victim.happened.clear();
            }
            child.kill();
            child.join();
            scene.check_the_others();
        }
    }

    TEST_CASE("garbage on the socket of an open connection closes that one only") {
        Scene scene;
        const Descriptor null(dup(STDERR_FILENO));
        RegionNote bad_note;
        bad_note.key = make_key(kRegionsMax, 1);
        bad_note.length_bytes = 4096;
        bad_note.access = 3;
        RegionNote fd_note = bad_note;
        fd_note.key = make_key(1, 1);
        fd_note.has_fd = 1;
        const uint64_t wake = kWakeMagic;

        struct Packet {
            std::vector<std::byte> bytes;
            std::vector<int> fds;
        };

        const auto bytes_of = [](const auto& value) {
            const auto bytes = std::as_bytes(std::span(&value, 1));
            return std::vector<std::byte>(bytes.begin(), bytes.end());
        };
        for (const Packet& packet :
             {Packet{{std::byte{1}}, {}}, Packet{bytes_of(wake), {null.get()}},
              Packet{bytes_of(bad_note), {}}, Packet{bytes_of(fd_note), {null.get()}},
              Packet{bytes_of(fd_note), {null.get(), null.get(), null.get(), null.get()}},
              Packet{std::vector<std::byte>(256), {}}}) {
            RawPeer bad;
            scene.let_in(bad);
            const size_t files = testing::open_files();
            REQUIRE(send_packet(bad.socket(), packet.bytes, packet.fds).has_value());
            REQUIRE(scene.closes());
            CHECK(scene.victim.closed(scene.bad_id) == Errc::kProtocol);
            // Its socket is closed, and nothing of the packet is left. The pidfd stays: other
            // connections with this process use it, too.
            CHECK(testing::open_files() == files - 1);
            scene.check_the_others();
        }
    }

    TEST_CASE("a flood of wake-ups keeps nobody from the others") {
        Scene scene;
        RawPeer bad;
        scene.let_in(bad);
        const uint64_t wake = kWakeMagic;
        for (int round = 0; round < 20; ++round) {
            for (int i = 0; i < 1000; ++i) {
                static_cast<void>(
                    send_packet(bad.socket(), std::as_bytes(std::span(&wake, 1)), {}));
            }
            scene.check_the_others();
        }
        CHECK_FALSE(scene.victim.closed(scene.bad_id).has_value());
    }

    TEST_CASE("a peer that never reads its socket gets an error from expose, not a stop") {
        Scene scene;
        RawPeer bad;
        scene.let_in(bad);
        std::vector<std::byte> memory(4096);
        Errc code = Errc::kOk;
        for (int i = 0; i < 10'000 && code == Errc::kOk; ++i) {
            const auto region = scene.device->register_memory({memory}, Access::kRemoteRead);
            REQUIRE(region.has_value());
            code = scene.victim.endpoint().expose(scene.bad_id, memory).code();
            scene.device->deregister_memory(*region);
        }
        CHECK(code == Errc::kBusy);
        scene.check_the_others();
    }
}

}  // namespace weir::transport::shm
