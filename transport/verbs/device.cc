// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include "lib/base/log.h"
#include "transport/verbs/endpoint.h"

namespace weir::transport::verbs {

namespace {

int access_flags(Access access) {
    // The device may write the data out of order: no thread reads them before a completion says
    // that they are all there.
    unsigned flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
    if (allows(access, Access::kRemoteRead)) flags |= IBV_ACCESS_REMOTE_READ;
    if (allows(access, Access::kRemoteWrite)) flags |= IBV_ACCESS_REMOTE_WRITE;
    return static_cast<int>(flags);
}

}  // namespace

AsyncNote note_of(const ibv_async_event& event, const void*& owner) noexcept {
    using About = AsyncNote::About;
    AsyncNote note;
    note.text = ibv_event_type_str(event.event_type);
    owner = nullptr;
    switch (event.event_type) {
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            note.about = event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED ? About::kLastReceive
                                                                           : About::kQueuePair;
            note.queue_pair = event.element.qp->qp_num;
            owner = event.element.qp->qp_context;
            break;
        case IBV_EVENT_CQ_ERR:
            note.about = About::kEverything;
            owner = event.element.cq->cq_context;
            break;
        case IBV_EVENT_SRQ_ERR:
            note.about = About::kEverything;
            owner = event.element.srq->srq_context;
            break;
        case IBV_EVENT_DEVICE_FATAL: note.about = About::kEverything; break;
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_PORT_ACTIVE: note.about = About::kLink; break;
        default: break;
    }
    return note;
}

DeviceNotes::DeviceNotes() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void DeviceNotes::wake() const noexcept {
    const uint64_t one = 1;
    // It can only fail because the count is at its maximum, and then fd_ is readable already.
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof(one));
}

void DeviceNotes::put(const AsyncNote& note) {
    {
        const std::lock_guard lock(mutex_);
        notes_.push_back(note);
    }
    wake();
}

std::vector<AsyncNote> DeviceNotes::take() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof(count));
    const std::lock_guard lock(mutex_);
    return std::exchange(notes_, {});
}

void DeviceNotes::forget(uint32_t queue_pair) {
    const std::lock_guard lock(mutex_);
    std::erase_if(notes_, [&](const AsyncNote& note) {
        return note.about != AsyncNote::About::kEverything && note.queue_pair == queue_pair;
    });
}

VerbsDevice::VerbsDevice(Hardware hardware, DeviceOptions options)
    : hardware_(std::move(hardware)),
      options_(std::move(options)),
      clock_(options_.clock != nullptr ? options_.clock : &steady_clock_) {
    const int flags = ::fcntl(async_fd(), F_GETFL);
    if (flags >= 0) ::fcntl(async_fd(), F_SETFL, flags | O_NONBLOCK);
}

VerbsDevice::~VerbsDevice() {
    WEIR_CHECK(subscribers_.empty());
}  // endpoints must be destroyed first

Result<RegionId> VerbsDevice::register_memory(const MemoryBlock& block, Access access) {
    if (block.bytes.empty()) {
        return Error(Errc::kInvalidArgument, "cannot register an empty block of memory");
    }
    WEIR_ASSIGN(MrPtr mr, register_pages(hardware_.pd.get(), block.bytes, access_flags(access)));
    Region region;
    region.begin = reinterpret_cast<uint64_t>(block.bytes.data());
    region.end = region.begin + block.bytes.size();
    region.local_key = mr->lkey;
    region.remote_key = mr->rkey;
    region.access = access;
    const std::lock_guard lock(mutex_);
    region.id = ++last_region_;
    registrations_.emplace(region.id, std::move(mr));
    regions_.add(region);
    return region.id;
}

void VerbsDevice::deregister_memory(RegionId region) {
    MrPtr mr;  // destroyed outside of the lock, since that is a system call
    const std::lock_guard lock(mutex_);
    const auto found = registrations_.find(region);
    if (found == registrations_.end()) return;
    regions_.remove(region);
    mr = std::move(found->second);
    registrations_.erase(found);
}

Result<std::unique_ptr<Endpoint>> VerbsDevice::make_endpoint(const EndpointOptions& options) {
    SocketAddress address = hardware_.local;
    const uint32_t number = endpoints_made_.fetch_add(1, std::memory_order_relaxed);  // a number
    const uint32_t port = options_.port == 0 ? 0 : options_.port + number;
    if (port > 0xffff) {
        return Error(Errc::kInvalidArgument,
                     fmt::format("endpoint {} would need TCP port {}: choose a lower first port",
                                 number + 1, port));
    }
    if (!options_.bind_address.empty()) {
        WEIR_ASSIGN(address, SocketAddress::parse_host(options_.bind_address, 0));
    }
    address.set_port(static_cast<uint16_t>(port));
    WEIR_ASSIGN(std::unique_ptr<VerbsEndpoint> made, VerbsEndpoint::make(*this, options, address));
    return std::unique_ptr<Endpoint>(std::move(made));
}

void VerbsDevice::subscribe(const void* owner, DeviceNotes* notes) {
    const std::lock_guard lock(mutex_);
    subscribers_[owner] = notes;
}

void VerbsDevice::unsubscribe(const void* owner) {
    const std::lock_guard lock(mutex_);
    subscribers_.erase(owner);
}

void VerbsDevice::deliver_async_events() {
    const std::lock_guard lock(mutex_);
    ibv_async_event event{};
    while (ibv_get_async_event(hardware_.context.get(), &event) == 0) {
        const void* owner = nullptr;
        const AsyncNote note = note_of(event, owner);
        if (note.about == AsyncNote::About::kLastReceive) {
            reports_last_receives_.store(true, std::memory_order_relaxed);
        }
        const bool concerns_endpoints = note.about >= AsyncNote::About::kLastReceive;
        if (note.about > AsyncNote::About::kLastReceive || note.about == AsyncNote::About::kLink) {
            log(LogLevel::kWarning, "verbs: device {} reports: {}", hardware_.name, note.text);
        }
        for (const auto& [to, notes] : subscribers_) {
            if (concerns_endpoints && (owner == nullptr || owner == to)) notes->put(note);
        }
        // Only now: ibv_destroy_* waits for this, so that after it no further note about the
        // object can come.
        ibv_ack_async_event(&event);
    }
}

Result<std::unique_ptr<Device>> make_device(const DeviceOptions& options) {
    if (!options.bind_address.empty()) {
        WEIR_TRY(SocketAddress::parse_host(options.bind_address, options.port));
    }
    WEIR_ASSIGN(Hardware hardware, open_hardware(options));
    return std::unique_ptr<Device>(std::make_unique<VerbsDevice>(std::move(hardware), options));
}

}  // namespace weir::transport::verbs
