// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/handshake.h"

#include <array>
#include <cstring>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/random.h"
#include "tests/transport/shm/helpers.h"
#include "transport/shm/memory/regions.h"

namespace weir::transport::shm {

namespace {

/// Two sides on one socket pair.
struct Table {
    SharedBlock live_page = testing::sealed_memory(kLivePageBytes);
    Self near{testing::test_secret(), {1000, 10, 1}, live_page.fd.get()};
    Self far{testing::test_secret(), {8192, 4, 1}, live_page.fd.get()};
    Descriptor near_socket;
    Descriptor far_socket;

    Table() {
        int ends[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
        near_socket = Descriptor(ends[0]);
        far_socket = Descriptor(ends[1]);
    }
};

/// An intercepted packet, to be passed on as it is or changed.
Packet catch_packet(int socket) {
    Packet packet;
    REQUIRE(receive_packet(socket, packet) == Receive::kPacket);
    return packet;
}

void pass_on(int socket, const Packet& packet, size_t length_bytes,
             const std::vector<int>& extra_fds = {}) {
    std::vector<int> fds;
    for (const Descriptor& fd : packet.fds)
        fds.push_back(fd.get());
    fds.insert(fds.end(), extra_fds.begin(), extra_fds.end());
    REQUIRE(send_packet(socket, std::span(packet.buffer).first(length_bytes), fds).has_value());
}

/// Runs a handshake in which packet `number` is changed on the way. Returns both sides' codes.
std::pair<Errc, Errc> run_changed(int number, const std::function<void(Packet&)>& change) {
    Table a;  // connecting side <-> eavesdropper
    Table b;  // eavesdropper <-> accepting side
    ChannelHandshake connecting(a.near, Side::kConnecting);
    ChannelHandshake accepting(b.far, Side::kAccepting);
    REQUIRE(connecting.begin(a.near_socket.get()).has_value());
    for (int packet_number = 0; packet_number < 6; ++packet_number) {
        const bool to_acceptor = packet_number % 2 == 0;
        Packet packet = catch_packet((to_acceptor ? a.far_socket : b.near_socket).get());
        if (packet_number == number) change(packet);
        pass_on((to_acceptor ? b.near_socket : a.far_socket).get(), packet, packet.length_bytes);
        auto done = to_acceptor ? accepting.advance(b.far_socket.get())
                                : connecting.advance(a.near_socket.get());
        if (done) continue;
        return to_acceptor ? std::pair{Errc::kOk, done.code()} : std::pair{done.code(), Errc::kOk};
    }
    return {Errc::kOk, Errc::kOk};
}

}  // namespace

TEST_SUITE("shm handshake") {
    TEST_CASE("two sides with one secret agree, and their rings are connected") {
        Table table;
        ChannelHandshake connecting(table.near, Side::kConnecting);
        ChannelHandshake accepting(table.far, Side::kAccepting);
        REQUIRE(connecting.begin(table.near_socket.get()).has_value());
        Progress near_done = Progress::kWaiting;
        Progress far_done = Progress::kWaiting;
        for (int i = 0; i < 4; ++i) {
            auto far = accepting.advance(table.far_socket.get());
            auto near = connecting.advance(table.near_socket.get());
            REQUIRE(far.has_value());
            REQUIRE(near.has_value());
            far_done = *far;
            near_done = *near;
        }
        REQUIRE(near_done == Progress::kDone);
        REQUIRE(far_done == Progress::kDone);
        Agreement near = connecting.take_agreement();
        Agreement far = accepting.take_agreement();
        CHECK(near.asymmetric);
        CHECK(near.shape.message_bytes_max == 8192);
        CHECK(near.shape.ring_bytes == far.shape.ring_bytes);
        CHECK(near.shape.ring_bytes >= 10 * 8192);
        CHECK(near.memory.bytes().data() != far.memory.bytes().data());
        Record record;
        REQUIRE(near.channel.out.put(RecordKind::kImmediate, 3));
        near.channel.out.publish();
        REQUIRE(far.channel.in.take(record) == Take::kRecord);
        CHECK(record.value == 3);
        REQUIRE(far.channel.out.put(RecordKind::kImmediate, 4));
        far.channel.out.publish();
        REQUIRE(near.channel.in.take(record) == Take::kRecord);
        CHECK(record.value == 4);
    }

    TEST_CASE("another secret is found out before anybody makes or maps memory") {
        Table table;
        table.far.secret = random_bytes();
        ChannelHandshake connecting(table.near, Side::kConnecting);
        ChannelHandshake accepting(table.far, Side::kAccepting);
        REQUIRE(connecting.begin(table.near_socket.get()).has_value());
        REQUIRE(accepting.advance(table.far_socket.get()).has_value());
        REQUIRE(connecting.advance(table.near_socket.get()).has_value());
        const size_t before = testing::open_files();
        CHECK(accepting.advance(table.far_socket.get()).code() == Errc::kRefused);
        const auto done = connecting.advance(table.near_socket.get());
        CHECK(done.code() == Errc::kRefused);
        CHECK(done.error().text().find("wrong secret") != std::string::npos);
        CHECK(testing::open_files() == before);
    }

    TEST_CASE("an unchanged handshake passes through the eavesdropper") {
        CHECK(run_changed(-1, [](Packet&) {}) == std::pair{Errc::kOk, Errc::kOk});
    }

    TEST_CASE("every changed byte of every packet is refused") {
        const std::array<size_t, 6> lengths = {40, 40, 52, 52, 8, 8};
        for (int number = 0; number < 6; ++number) {
            for (size_t at = 0; at < lengths[static_cast<size_t>(number)]; ++at) {
                const auto [near, far] = run_changed(number, [&](Packet& packet) {
                    REQUIRE(packet.length_bytes == lengths[static_cast<size_t>(number)]);
                    packet.buffer[at] ^= std::byte{1};
                });
                CAPTURE(number);
                CAPTURE(at);
                CHECK((near != Errc::kOk || far != Errc::kOk));
            }
        }
    }

    TEST_CASE("packets of a wrong length or with wrong descriptors are refused") {
        for (int number = 0; number < 6; ++number) {
            CAPTURE(number);
            for (const int by : {-1, 1, 100}) {
                const auto [near, far] = run_changed(number, [&](Packet& packet) {
                    packet.length_bytes =
                        static_cast<size_t>(static_cast<int>(packet.length_bytes) + by);
                });
                CHECK((near == Errc::kProtocol || far == Errc::kProtocol));
            }
            const auto [near, far] = run_changed(
                number, [&](Packet& packet) { packet.fds.emplace_back(dup(STDERR_FILENO)); });
            CHECK((near == Errc::kProtocol || far == Errc::kProtocol));
        }
        for (const int number : {4, 5}) {
            const auto [near, far] =
                run_changed(number, [&](Packet& packet) { packet.fds.pop_back(); });
            CHECK((near == Errc::kProtocol || far == Errc::kProtocol));
        }
    }

    TEST_CASE("memory that could shrink, is too short or is no memory is refused") {
        const auto with_fd = [&](int number, size_t which, int fd) {
            return run_changed(number,
                               [&](Packet& packet) { packet.fds[which] = Descriptor(dup(fd)); });
        };
        const Descriptor loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        REQUIRE(ftruncate(loose.get(), 1 << 20) == 0);
        const SharedBlock brief = testing::sealed_memory(4096);
        for (const int fd : {loose.get(), brief.fd.get(), STDERR_FILENO}) {
            CHECK(with_fd(4, 0, fd).second == Errc::kProtocol);
            CHECK(with_fd(4, 1, fd).second == Errc::kProtocol);
            CHECK(with_fd(5, 0, fd).first == Errc::kProtocol);
        }
    }

    TEST_CASE("terms out of bounds are refused even under a good proof") {
        for (const Terms& terms :
             {Terms{0, 10, 1}, Terms{~0U, 10, 1}, Terms{1000, 0, 1}, Terms{1000, ~0U, 1},
              Terms{1000, 10, 2}, Terms{kMessageBytesCap, 1000, 1}}) {
            for (const bool connects : {true, false}) {
                Table table;
                (connects ? table.near : table.far).terms = terms;
                ChannelHandshake connecting(table.near, Side::kConnecting);
                ChannelHandshake accepting(table.far, Side::kAccepting);
                REQUIRE(connecting.begin(table.near_socket.get()).has_value());
                REQUIRE(accepting.advance(table.far_socket.get()).has_value());
                REQUIRE(connecting.advance(table.near_socket.get()).has_value());
                const auto heard = accepting.advance(table.far_socket.get());
                CHECK(heard.has_value() != connects);
                if (connects) CHECK(heard.code() == Errc::kProtocol);
                if (connects) continue;
                CHECK(connecting.advance(table.near_socket.get()).code() == Errc::kProtocol);
            }
        }
    }

    TEST_CASE("random packets are refused in every state") {
        Random random(testing::seed_for("handshake garbage"));
        for (int round = 0; round < 2000; ++round) {
            Table table;
            const bool connects = random.below(2) == 0;
            ChannelHandshake one(table.near, connects ? Side::kConnecting : Side::kAccepting);
            std::array<std::byte, kPacketBytesMax> garbage;
            for (std::byte& byte : garbage)
                byte = static_cast<std::byte>(random());
            REQUIRE(send_packet(table.far_socket.get(),
                                std::span(garbage).first(1 + random.below(kPacketBytesMax)), {})
                        .has_value());
            CHECK(one.advance(table.near_socket.get()).code() == Errc::kProtocol);
        }
    }

    TEST_CASE("who is sent away is told so, however far it is") {
        enum class Stage { kBeforeHello, kHelloUnread, kAnswerUnread, kReadyUnread };
        for (const Stage stage : {Stage::kBeforeHello, Stage::kHelloUnread, Stage::kAnswerUnread,
                                  Stage::kReadyUnread}) {
            CAPTURE(static_cast<int>(stage));
            Table table;
            ChannelHandshake connecting(table.near, Side::kConnecting);
            ChannelHandshake accepting(table.far, Side::kAccepting);
            if (stage != Stage::kBeforeHello) {
                REQUIRE(connecting.begin(table.near_socket.get()).has_value());
            }
            const int turns = stage == Stage::kAnswerUnread  ? 1
                              : stage == Stage::kReadyUnread ? 2
                                                             : 0;
            for (int i = 0; i < turns; ++i) {
                REQUIRE(accepting.advance(table.far_socket.get()).has_value());
                if (stage != Stage::kReadyUnread) continue;
                REQUIRE(connecting.advance(table.near_socket.get()).has_value());
            }
            accepting.refuse_for_now(table.far_socket.get());
            table.far_socket.reset();
            if (stage == Stage::kBeforeHello) {
                REQUIRE(connecting.begin(table.near_socket.get()).has_value());
            }
            const auto done = connecting.advance(table.near_socket.get());
            REQUIRE(done.has_value());
            CHECK(*done == Progress::kLater);
        }
    }

    TEST_CASE("nobody sends the accepting side away") {
        Table table;
        ChannelHandshake accepting(table.far, Side::kAccepting);
        ChannelHandshake other(table.near, Side::kAccepting);
        other.refuse_for_now(table.near_socket.get());
        CHECK_FALSE(accepting.advance(table.far_socket.get()).has_value());
    }

    TEST_CASE("a side that leaves ends the handshake") {
        Table table;
        ChannelHandshake accepting(table.far, Side::kAccepting);
        auto waiting = accepting.advance(table.far_socket.get());
        REQUIRE(waiting.has_value());
        CHECK(*waiting == Progress::kWaiting);
        table.near_socket.reset();
        CHECK(accepting.advance(table.far_socket.get()).code() == Errc::kPeerLost);
    }
}

}  // namespace weir::transport::shm
