// SPDX-License-Identifier: Apache-2.0
/// \file
/// CmAgent in a build without librdmacm: every call reports that it is missing.

#include "transport/verbs/setup/cm.h"

namespace weir::transport::verbs {

struct CmAgent::State {};

namespace {

Error none() {
    return {Errc::kUnavailable,
            "this build has no librdmacm: connect by TCP, or build with librdmacm-dev installed"};
}

}  // namespace

Result<std::unique_ptr<CmAgent>> CmAgent::make(const ibv_device* /*device*/) {
    return none();
}

CmAgent::CmAgent(std::unique_ptr<State> state) : state_(std::move(state)) {}

CmAgent::~CmAgent() = default;

int CmAgent::fd() const noexcept {
    return -1;
}

Result<uint16_t> CmAgent::listen() {
    return none();
}

Status CmAgent::connect(ConnectionId /*connection*/, const SocketAddress& /*to*/,
                        const CmToken& /*token*/, const CmEnds& /*ends*/) {
    return none();
}

Status CmAgent::finish(ConnectionId /*connection*/) {
    return none();
}

Status CmAgent::accept(uint64_t /*request*/, ConnectionId /*connection*/, const CmEnds& /*ends*/) {
    return none();
}

void CmAgent::reject(uint64_t /*request*/) {}

void CmAgent::forget(ConnectionId /*connection*/) {}

std::vector<CmEvent> CmAgent::poll() {
    return {};
}

}  // namespace weir::transport::verbs
