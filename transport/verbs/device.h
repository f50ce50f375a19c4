// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// VerbsDevice: an opened device, its registered memory, and its asynchronous events.

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "transport/regions.h"
#include "transport/verbs/hardware.h"
#include "transport/verbs/verbs.h"

namespace weir::transport::verbs {

/// What one asynchronous event of the device means for endpoints.
struct AsyncNote {
    enum class About : uint8_t {
        kNothing,
        kLink,         ///< the port's link went down or up: the queue pairs' retries decide
        kLastReceive,  ///< `queue_pair`, in ERR, takes no more from the shared receive queue
        kQueuePair,    ///< `queue_pair` is broken
        kEverything,   ///< all queue pairs are broken
    };
    About about = About::kNothing;
    uint32_t queue_pair = 0;
    const char* text = "";
};

/// What `event` means for connections. `owner` becomes the endpoint that it concerns; nullptr:
/// all.
[[nodiscard]] AsyncNote note_of(const ibv_async_event& event, const void*& owner) noexcept;

/// Passes notes from the device to one endpoint.
class DeviceNotes {
public:
    /// Thread: any. Wakes the endpoint.
    void put(const AsyncNote& note);
    /// Thread: the endpoint's.
    [[nodiscard]] std::vector<AsyncNote> take();
    /// Drops the notes about a queue pair that was destroyed, because its number may be used
    /// again.
    /// Thread: the endpoint's.
    void forget(uint32_t queue_pair);

    /// Readable when there are notes, or after wake().
    [[nodiscard]] int fd() const noexcept { return fd_.get(); }

    void wake() const noexcept;
    DeviceNotes();

private:
    Descriptor fd_;
    std::mutex mutex_;
    std::vector<AsyncNote> notes_;
};

/// Thread: any.
class VerbsDevice final : public Device {
public:
    VerbsDevice(Hardware hardware, DeviceOptions options);
    VerbsDevice(const VerbsDevice&) = delete;
    VerbsDevice& operator=(const VerbsDevice&) = delete;
    ~VerbsDevice() override;

    [[nodiscard]] std::string_view name() const noexcept override { return "verbs"; }

    [[nodiscard]] bool pins_memory() const noexcept override { return true; }

    [[nodiscard]] Result<RegionId> register_memory(const MemoryBlock& block,
                                                   Access access) override;
    void deregister_memory(RegionId region) override;
    [[nodiscard]] Result<std::unique_ptr<Endpoint>> make_endpoint(
        const EndpointOptions& options) override;

    [[nodiscard]] const Hardware& hardware() const noexcept { return hardware_; }

    [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }

    [[nodiscard]] const Clock& clock() const noexcept { return *clock_; }

    [[nodiscard]] const RegionTable& regions() const noexcept { return regions_; }

    /// Notes for queue pairs whose context is `owner` go to `notes`.
    void subscribe(const void* owner, DeviceNotes* notes);
    void unsubscribe(const void* owner);

    /// Whether the device has ever reported that a queue pair takes no more receives. If so, it
    /// reports that for every queue pair, and waiting for the report is safe.
    [[nodiscard]] bool reports_last_receives() const noexcept {
        // relaxed: a fact about the device, which orders nothing
        return reports_last_receives_.load(std::memory_order_relaxed);
    }

    /// Readable when the device has events: then call deliver_async_events().
    [[nodiscard]] int async_fd() const noexcept { return hardware_.context->async_fd; }

    /// Takes the device's events and passes them to the endpoints that they concern.
    void deliver_async_events();

private:
    Hardware hardware_;
    DeviceOptions options_;
    SteadyClock steady_clock_;
    const Clock* clock_;
    RegionTable regions_;
    std::atomic<uint32_t> endpoints_made_{0};
    std::atomic<bool> reports_last_receives_{false};

    std::mutex mutex_;  ///< guards all members below
    RegionId last_region_ = 0;
    std::unordered_map<RegionId, MrPtr> registrations_;
    std::unordered_map<const void*, DeviceNotes*> subscribers_;
};

}  // namespace weir::transport::verbs
