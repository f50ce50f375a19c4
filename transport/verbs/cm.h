// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CmAgent: the second way to bring queue pairs up, by librdmacm, which resolves routes where a
/// subnet manager or several networks are in the way. It comes after the side channel: both sides
/// are proven, and the connecting one shows a token there that only the two of them know.

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

/// What is at both ends of the queue pair that is to be brought up.
struct CmEnds {
    ibv_qp* qp = nullptr;
    uint8_t read_depth = 0;       ///< READs that we serve at once
    uint8_t initiator_depth = 0;  ///< READs that we have in flight at once
    uint8_t retry_count = 7;
    uint8_t retry_timeout = 14;
    uint8_t service_level = 0;       ///< 0: what rdma_cm finds for the route
    uint8_t traffic_class = 0;       ///< 0: likewise
    uint32_t resolve_ms_max = 2000;  ///< for the address, and again for the route
};

struct CmEvent {
    enum class What : uint8_t {
        kRequest,  ///< somebody shows `token` for its queue pair `queue_pair`: accept() or reject()
        kAnswered,  ///< `connection` was accepted: finish()
        kFailed,    ///< `connection` was not, `text` says why
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

    /// Readable when there are events.
    [[nodiscard]] int fd() const noexcept;
    /// The port where others find us; listens from the first call on.
    /// Errors: kIo
    [[nodiscard]] Result<uint16_t> listen();
    /// Resolves address and route, and asks; ends with kAnswered or kFailed.
    /// Errors: kIo
    [[nodiscard]] Status connect(ConnectionId connection, const SocketAddress& to,
                                 const CmToken& token, const CmEnds& ends);
    /// Errors: kIo
    [[nodiscard]] Status finish(ConnectionId connection);
    [[nodiscard]] Status accept(uint64_t request, ConnectionId connection, const CmEnds& ends);
    void reject(uint64_t request);
    /// Ends what is there for a connection, if anything.
    void forget(ConnectionId connection);
    [[nodiscard]] std::vector<CmEvent> poll();

private:
    struct State;

    explicit CmAgent(std::unique_ptr<State> state);

    std::unique_ptr<State> state_;
};

}  // namespace weir::transport::verbs
