// SPDX-License-Identifier: Apache-2.0
#include "transport/fault/fault.h"

#include <doctest/doctest.h>

#include "tests/transport/conformance/stage.h"
#include "tests/transport/sim/sim_fabric.h"

TEST_SUITE("fault") {
    using namespace weir;
    using namespace weir::transport;
    using namespace weir::transport::conformance;

    /// Two parties of which the first one's device injects faults.
    struct Scene {
        std::shared_ptr<Faults> faults =
            std::make_shared<Faults>(number_from_environment("WEIR_SEED", 5));
        bool first = true;
        SimFabric fabric{{}, 5, [this](std::unique_ptr<Device> device) {
                             if (!std::exchange(first, false)) return device;
                             return inject_faults(std::move(device), faults);
                         }};
        Stage stage{fabric};
        Party& a = stage.add(0);
        Party& b = stage.add(1);
    };

    TEST_CASE("posts are refused as often as asked for, and lose nothing") {
        Scene scene;
        const Link link = scene.stage.connect(scene.a, scene.b);
        scene.faults->not_now = 0.5;
        for (uint64_t i = 0; i < 200; ++i) {
            scene.stage.send(scene.a, link.near, pattern(i, 20));
        }
        CHECK(scene.faults->not_now_count > 100);
        REQUIRE(scene.stage.until([&] { return scene.b.seen().size() == 201; }));
        scene.faults->not_now = 1;
        CHECK(scene.a.send(link.near, "never") == Post::kNotNow);
    }

    TEST_CASE("late completions keep their order") {
        Scene scene;
        scene.faults->delay_polls_max = 10;
        const Link link = scene.stage.connect(scene.a, scene.b);
        for (uint64_t i = 0; i < 100; ++i) {
            scene.stage.send(scene.b, link.far, pattern(i, 20));
        }
        REQUIRE(scene.stage.until([&] { return scene.a.seen().size() == 101; }));
        for (uint64_t i = 0; i < 100; ++i)
            CHECK(scene.a.seen()[i + 1].message == pattern(i, 20));
    }

    TEST_CASE("a broken connection ends what was posted, and then itself") {
        Scene scene;
        const Registered near(scene.fabric, 0, Access::kLocal);
        const Registered far(scene.fabric, 1, Access::kRemote);
        const Link link = scene.stage.connect(scene.a, scene.b);
        const auto span = scene.b.endpoint().expose(link.far, far.bytes());
        REQUIRE(span.has_value());
        REQUIRE(scene.a.read(link.near, near.bytes(), *span, 1) == Post::kPosted);
        scene.faults->broken = 1;
        CHECK(scene.a.send(link.near, "the last straw") == Post::kClosed);
        CHECK(scene.a.send(link.near, "more") == Post::kClosed);
        CHECK(scene.faults->broken_count == 1);
        CHECK(scene.a.endpoint().expose(link.near, near.bytes()).code() == Errc::kPeerLost);
        REQUIRE(scene.stage.until(
            [&] { return scene.a.closed(link.near) && scene.b.closed(link.far); }));
        CHECK(scene.a.last(Event::kRead, link.near).status == Errc::kPeerLost);
        CHECK(scene.a.last(Event::kClosed, link.near).status == Errc::kPeerLost);
        CHECK(scene.b.count(Event::kReceived, link.far) == 0);
    }

    TEST_CASE("a corrupted message differs in one bit") {
        Scene scene;
        const Link link = scene.stage.connect(scene.a, scene.b);
        scene.faults->corrupted = 1;
        const std::string sent = pattern(3, 100);
        scene.stage.send(scene.b, link.far, sent);
        REQUIRE(scene.stage.until([&] { return scene.a.seen().size() == 2; }));
        const std::string& got = scene.a.seen()[1].message;
        REQUIRE(got.size() == sent.size());
        int bits = 0;
        for (size_t i = 0; i < sent.size(); ++i) {
            bits += __builtin_popcount(static_cast<unsigned char>(sent[i] ^ got[i]));
        }
        CHECK(bits == 1);
        CHECK(scene.faults->corrupted_count == 1);
    }
}
