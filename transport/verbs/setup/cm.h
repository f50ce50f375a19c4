// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CmAgent: the second way to connect queue pairs, by librdmacm. It resolves routes where a
/// subnet manager or several networks are in between. It is used after both sides have proved
/// themselves on the side channel. The connecting side then shows librdmacm's listener a token
/// that only the two sides know.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "lib/base/result.h"
#include "transport/net/socket_address.h"
#include "transport/transport.h"

namespace weir::transport::verbs {

using CmToken = std::array<std::byte, 16>;

/// One end of the queue pair that is to be connected, and how.
struct CmEnds {
    ibv_qp* qp = nullptr;
    uint8_t read_depth = 0;       ///< READs that we serve at a time
    uint8_t initiator_depth = 0;  ///< READs that we have in flight at a time
    uint8_t retry_count = 7;
    uint8_t retry_timeout = 14;
    uint8_t service_level = 0;       ///< 0: what rdma_cm finds for the route
    uint8_t traffic_class = 0;       ///< 0: likewise
    uint32_t resolve_ms_max = 2000;  ///< for the address, and again for the route
};

struct CmEvent {
    enum class What : uint8_t {
        kRequest,   ///< a peer shows `token` for its `queue_pair`: accept() or reject()
        kAnswered,  ///< `connection` was accepted: finish()
        kFailed,    ///< `connection` was not accepted; `text` says why
    };
    What what = What::kFailed;
    ConnectionId connection = 0;
    uint64_t request = 0;
    CmToken token{};
    uint32_t queue_pair = 0;
    std::string text;
};

/// Thread: the endpoint's.
class CmAgent {
public:
    /// Errors: kUnavailable (this build or machine has no librdmacm)
    [[nodiscard]] static Result<std::unique_ptr<CmAgent>> make(const ibv_device* device);

    ~CmAgent();
    CmAgent(const CmAgent&) = delete;
    CmAgent& operator=(const CmAgent&) = delete;

    /// Readable when poll() has events.
    [[nodiscard]] int fd() const noexcept;
    /// Listens from the first call on; returns the port.
    /// Errors: kIo
    [[nodiscard]] Result<uint16_t> listen();
    /// Resolves the address and the route, then asks the peer. Ends with kAnswered or kFailed.
    /// Errors: kIo
    [[nodiscard]] Status connect(ConnectionId connection, const SocketAddress& to,
                                 const CmToken& token, const CmEnds& ends);
    /// Connecting side, after kAnswered: takes the queue pair to RTS and confirms.
    /// Errors: kIo
    [[nodiscard]] Status finish(ConnectionId connection);
    /// Accepting side: takes the queue pair to RTS and answers the request. Errors: kIo
    [[nodiscard]] Status accept(uint64_t request, ConnectionId connection, const CmEnds& ends);
    void reject(uint64_t request);
    /// Drops what this agent holds for a connection, if anything.
    void forget(ConnectionId connection);
    [[nodiscard]] std::vector<CmEvent> poll();

private:
    struct State;

    explicit CmAgent(std::unique_ptr<State> state);

    std::unique_ptr<State> state_;
};

}  // namespace weir::transport::verbs
