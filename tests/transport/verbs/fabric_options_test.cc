// SPDX-License-Identifier: Apache-2.0
/// \file
/// Service level, traffic class and partition key: invalid values are refused, queue pairs get
/// valid ones.

#include <cstring>
#include <string>

#include <doctest/doctest.h>

#include "tests/transport/verbs/parties.h"
#include "transport/verbs/queue_pair.h"

namespace {

using namespace weir;
using namespace weir::transport;
using namespace weir::transport::verbs;
using namespace weir::transport::verbs::testing;

ibv_port_attr port_of(uint8_t link_layer, uint16_t partition_keys) {
    ibv_port_attr port{};
    port.link_layer = link_layer;
    port.pkey_tbl_len = partition_keys;
    return port;
}

DeviceOptions lossless() {
    DeviceOptions options;
    options.service_level = 3;
    options.traffic_class = 104;  // DSCP 26, as lossless RoCE fabrics often have it
    return options;
}

}  // namespace

TEST_SUITE("verbs fabric options") {
    TEST_CASE("a port's limits are checked, and the error says what to set") {
        const ibv_port_attr ethernet = port_of(IBV_LINK_LAYER_ETHERNET, 1);
        const ibv_port_attr infiniband = port_of(IBV_LINK_LAYER_INFINIBAND, 128);
        const auto refusal = [](const ibv_port_attr& port, const DeviceOptions& options) {
            const Status checked = check_fabric(port, "mlx5_0 port 1", options);
            if (checked) return std::string("fine");
            CHECK(checked.code() == Errc::kInvalidArgument);
            CHECK(checked.error().text().find("mlx5_0 port 1") != std::string::npos);
            return checked.error().text();
        };
        DeviceOptions options;
        CHECK(refusal(ethernet, options) == "fine");
        CHECK(refusal(infiniband, options) == "fine");
        options.service_level = 7;
        CHECK(refusal(ethernet, options) == "fine");
        options.service_level = 15;
        CHECK(refusal(infiniband, options) == "fine");
        CHECK(refusal(ethernet, options).find("Ethernet has 0 to 7; set WEIR_RDMA_SERVICE_LEVEL") !=
              std::string::npos);
        options.service_level = 0;
        options.pkey_index = 127;
        CHECK(refusal(infiniband, options) == "fine");
        CHECK(refusal(ethernet, options).find("has 1 entries") != std::string::npos);
        CHECK(refusal(ethernet, options).find("WEIR_RDMA_PKEY_INDEX") != std::string::npos);
        options.connect_by = ConnectBy::kRdmaCm;
        CHECK(refusal(infiniband, options).find("rdma_cm") != std::string::npos);
    }

    TEST_CASE("the route to a peer has the service level and the traffic class") {
        Hardware hardware;
        hardware.port_attr = port_of(IBV_LINK_LAYER_ETHERNET, 1);
        hardware.service_level = 3;
        hardware.traffic_class = 104;
        const ibv_ah_attr roce = route_to(hardware, {});
        CHECK(roce.sl == 3);
        CHECK(roce.is_global == 1);
        CHECK(roce.grh.traffic_class == 104);
        hardware.port_attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
        CHECK(route_to(hardware, {}).sl == 3);
        CHECK(route_to(hardware, {}).grh.traffic_class == 104);  // only the GRH has this field
        hardware.traffic_class = 0;
        CHECK(route_to(hardware, {}).is_global == 0);
    }

    TEST_CASE("queue pairs have the options of their device") {
        if (device_or_skip({}) == nullptr) return;
        const auto hardware = open_hardware(lossless());
        REQUIRE_MESSAGE(hardware.has_value(), hardware.error().message());
        const CqPtr cq(ibv_create_cq(hardware->context.get(), 16, nullptr, nullptr, 0));
        REQUIRE(cq != nullptr);
        ibv_srq_init_attr wanted{};
        wanted.attr = {16, 1, 0};
        const SrqPtr srq(ibv_create_srq(hardware->pd.get(), &wanted));
        REQUIRE(srq != nullptr);
        const auto qp = make_queue_pair(*hardware, {nullptr, cq.get(), srq.get(), 16});
        REQUIRE(qp.has_value());
        const Claim own = describe(*hardware, **qp, 1);
        REQUIRE(bring_up(*hardware, qp->get(), own, own, {}));  // connects it to itself
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        REQUIRE(ibv_query_qp(qp->get(), &attr, IBV_QP_AV | IBV_QP_PKEY_INDEX | IBV_QP_RNR_RETRY,
                             &init) == 0);
        CHECK(attr.ah_attr.grh.traffic_class == 104);
        CHECK(attr.pkey_index == 0);
        if (attr.ah_attr.sl == 0) {
            MESSAGE("this device does not say which service level its queue pairs have");
        } else {
            CHECK(attr.ah_attr.sl == 3);
        }
    }

    TEST_CASE("a partition key that the port does not have is refused by name") {
        if (device_or_skip({}) == nullptr) return;
        DeviceOptions options;
        options.pkey_index = 0xffff;
        const auto device = make_device(options);
        REQUIRE_FALSE(device.has_value());
        CHECK(device.error().message().find("partition keys") != std::string::npos);
    }

    TEST_CASE("connections with these options come up, by TCP and by rdma_cm") {
        for (const ConnectBy way : {ConnectBy::kTcp, ConnectBy::kRdmaCm}) {
            DeviceOptions options = lossless();
            options.connect_by = way;
            const auto device = device_or_skip(options);
            if (device == nullptr) return;
            Party a(*device);
            Party b(*device);
            const Link link = connect(a, b);
            const std::span<const std::byte> nothing;
            REQUIRE(a.endpoint->send(link.near, {&nothing, 1}) == Post::kPosted);
            CHECK(until({&a, &b}, [&] { return b.find(Event::kReceived) != nullptr; }));
        }
    }
}
