// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// CmWay: how an endpoint's connections use librdmacm. The connecting side makes a token, sends
/// it in its claim, and shows it again to the peer's librdmacm.

#include <memory>
#include <vector>

#include "transport/net/watcher.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/device.h"
#include "transport/verbs/setup/cm.h"

namespace weir::transport::verbs {

/// Thread: the endpoint's.
class CmWay {
public:
    /// `name` is the watcher's name for the agent's events. `device` and `watcher` outlive it.
    CmWay(const VerbsDevice& device, Watcher& watcher, uint64_t name) noexcept
        : device_(device), watcher_(watcher), name_(name) {}

    /// Connecting side: makes the token that the peer is to expect. Errors: kUnavailable, kIo
    [[nodiscard]] Status prepare(VerbsConnection& c);
    /// Accepting side: puts the port of its librdmacm into its claim. Errors: kUnavailable, kIo
    [[nodiscard]] Status offer(VerbsConnection& c);
    /// Connecting side: begins; ends with kAnswered or kFailed. Errors: kUnavailable, kIo
    [[nodiscard]] Status begin(const VerbsConnection& c);

    /// Connecting side, after kAnswered: brings the queue pair up. Errors: kIo
    [[nodiscard]] Status finish(const VerbsConnection& c) { return agent_->finish(c.id); }

    /// Accepting side: brings the queue pair up. Errors: kIo
    [[nodiscard]] Status accept(const CmEvent& request, const VerbsConnection& c);

    void reject(const CmEvent& request) { agent_->reject(request.request); }

    void forget(const VerbsConnection& c) {
        if (agent_ != nullptr) agent_->forget(c.id);
    }

    [[nodiscard]] std::vector<CmEvent> poll() { return agent_->poll(); }

    /// Whether `c` waits for this request.
    [[nodiscard]] static bool is_meant(const VerbsConnection& c, const CmEvent& request) noexcept;

private:
    Status need_agent();
    [[nodiscard]] CmEnds ends_of(const VerbsConnection& c) const;

    const VerbsDevice& device_;
    Watcher& watcher_;
    uint64_t name_;
    std::unique_ptr<CmAgent> agent_;  ///< made for the first connection that needs it
};

}  // namespace weir::transport::verbs
