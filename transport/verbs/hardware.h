// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Hardware: an opened RDMA device with the port and address (GID) that connections use.

#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "lib/base/result.h"
#include "transport/net/socket_address.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/verbs.h"

namespace weir::transport::verbs {

/// The devices that libibverbs lists, valid as long as this object lives.
class DeviceList {
public:
    /// Errors: kUnavailable if there are none
    [[nodiscard]] static Result<DeviceList> get();

    [[nodiscard]] std::span<ibv_device* const> devices() const noexcept {
        return {list_.get(), static_cast<size_t>(count_)};
    }

private:
    struct Free {
        void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
    };

    std::unique_ptr<ibv_device*[], Free> list_;
    int count_ = 0;
};

struct Hardware {
    std::string name;
    ContextPtr context;
    PdPtr pd;
    ibv_device_attr limits{};
    uint8_t port = 0;
    ibv_port_attr port_attr{};
    ibv_gid_entry gid{};
    uint32_t inline_bytes_max = 0;
    uint8_t service_level = 0;
    uint8_t traffic_class = 0;
    uint16_t pkey_index = 0;
    SocketAddress local;  ///< IP address of the interface behind the GID; port 0

    [[nodiscard]] bool is_ethernet() const noexcept {
        return port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    }
};

/// Errors: as make_device
[[nodiscard]] Result<Hardware> open_hardware(const DeviceOptions& options);

/// Errors: kUnavailable
[[nodiscard]] Result<ContextPtr> open_context(ibv_device* device);
[[nodiscard]] std::vector<ibv_gid_entry> gids_of(ibv_context* context, uint8_t port);
/// A GID written as an IPv6 address.
[[nodiscard]] std::string text_of(const ibv_gid& gid);
/// Whether the GID is ::ffff:a.b.c.d, an IPv4 address.
[[nodiscard]] bool is_ipv4(const ibv_gid& gid) noexcept;
/// Whether the port has what `options` ask of the fabric. `place` names the port in the error.
/// Errors: kInvalidArgument
[[nodiscard]] Status check_fabric(const ibv_port_attr& port, std::string_view place,
                                  const DeviceOptions& options);
/// Why a device cannot be used, if it cannot.
[[nodiscard]] Status check_usable(const ibv_device_attr& limits, ibv_device* device);

}  // namespace weir::transport::verbs
