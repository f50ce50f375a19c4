// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Hub: connects two endpoints of one device, usually in two threads, without a socket. The
/// connecting endpoint offers a DirectLink to the other and rings its bell.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "transport/shm/channel.h"
#include "transport/shm/doorbell.h"
#include "transport/shm/memory/shared_memory.h"

namespace weir::transport::shm {

/// A connection within one process: the same rings, in ordinary memory.
struct DirectLink {
    /// Set by the side that will not access the other side's memory any more.
    std::atomic<bool> connecting_released{false};
    std::atomic<bool> accepting_released{false};
    Mapping memory;
    ChannelShape shape;
    std::shared_ptr<const Doorbell> connecting_bell;
    std::shared_ptr<const Doorbell> accepting_bell;
};

/// The links that one endpoint is offered. Thread: any.
class LinkOffers {
public:
    LinkOffers(const EndpointOptions& options, std::shared_ptr<const Doorbell> bell)
        : options_(options), bell_(std::move(bell)) {}

    [[nodiscard]] const EndpointOptions& options() const noexcept { return options_; }

    [[nodiscard]] const std::shared_ptr<const Doorbell>& bell() const noexcept { return bell_; }

    /// False: the endpoint is gone.
    [[nodiscard]] bool offer(std::shared_ptr<DirectLink> link);
    /// Returns the links that were offered; for the endpoint that they are for.
    [[nodiscard]] std::vector<std::shared_ptr<DirectLink>> take();
    /// Refuses all later offers. Returns the links that the owner has not taken.
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
    void add(const std::string& name, std::shared_ptr<LinkOffers> offers);
    void remove(const std::string& name);
    /// nullptr: this device has no such endpoint.
    [[nodiscard]] std::shared_ptr<LinkOffers> find(const std::string& name) const;

private:
    mutable std::mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<LinkOffers>> endpoints_;
};

}  // namespace weir::transport::shm
