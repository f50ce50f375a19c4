// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Hub: how two endpoints of one device, usually in two threads, connect without a socket: the
/// connecting one leaves a DirectLink in the other's Mailbox and rings its bell.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/shm/channel.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/shared_memory.h"

namespace weir::transport::shm {

/// A connection inside of one process: the same rings, in ordinary memory.
struct DirectLink {
    /// Set by a side that will not reach the other's memory any more.
    std::atomic<bool> connecting_let_go{false};
    std::atomic<bool> accepting_let_go{false};
    Mapping memory;
    ChannelShape shape;
    std::shared_ptr<const Doorbell> connecting_bell;
    std::shared_ptr<const Doorbell> accepting_bell;
};

/// What one endpoint is offered. Thread: any.
class Mailbox {
public:
    Mailbox(const EndpointOptions& options, std::shared_ptr<const Doorbell> bell)
        : options_(options), bell_(std::move(bell)) {}

    [[nodiscard]] const EndpointOptions& options() const noexcept { return options_; }

    [[nodiscard]] const std::shared_ptr<const Doorbell>& bell() const noexcept { return bell_; }

    /// False: the endpoint is gone.
    [[nodiscard]] bool offer(std::shared_ptr<DirectLink> link);
    /// The owner takes what was offered.
    [[nodiscard]] std::vector<std::shared_ptr<DirectLink>> take();
    /// From now on nothing is taken; returns what nobody took.
    [[nodiscard]] std::vector<std::shared_ptr<DirectLink>> close();

private:
    const EndpointOptions options_;
    const std::shared_ptr<const Doorbell> bell_;
    std::mutex mutex_;
    bool closed_ = false;
    std::vector<std::shared_ptr<DirectLink>> offered_;
};

/// The endpoints of a device by name. Thread: any.
class Hub {
public:
    void add(const std::string& name, std::shared_ptr<Mailbox> mailbox);
    void remove(const std::string& name);
    /// nullptr: no endpoint of this device.
    [[nodiscard]] std::shared_ptr<Mailbox> find(const std::string& name) const;

private:
    mutable std::mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<Mailbox>> mailboxes_;
};

}  // namespace weir::transport::shm
