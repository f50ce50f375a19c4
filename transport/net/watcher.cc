// SPDX-License-Identifier: Apache-2.0
#include "transport/net/watcher.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "lib/base/clock.h"

namespace weir::transport {

Result<Watcher> Watcher::make(uint64_t alarm_name) {
    Watcher watcher;
    watcher.epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
    watcher.timer_ = Descriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    watcher.alarm_name_ = alarm_name;
    if (!watcher.epoll_ || !watcher.timer_) {
        return Error(Errc::kIo, "cannot make the descriptors of an endpoint (see `ulimit -n`)",
                     errno);
    }
    WEIR_TRY(watcher.watch(watcher.timer_.get(), alarm_name, For::kInput));
    return watcher;
}

Status Watcher::watch(int fd, uint64_t name, For what) {
    epoll_event event{};
    if (what != For::kNothing) event.events = EPOLLIN;
    if (what == For::kInputAndOutput) event.events |= EPOLLOUT;
    event.data.u64 = name;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0 &&
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
        return Error(Errc::kIo,
                     "epoll cannot watch a descriptor (see /proc/sys/fs/epoll/max_user_watches)",
                     errno);
    }
    return {};
}

void Watcher::forget(int fd) noexcept {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

size_t Watcher::ready(std::span<uint64_t> names) const noexcept {
    std::array<epoll_event, 32> events;
    const auto most = static_cast<int>(std::min(events.size(), names.size()));
    const int count = ::epoll_wait(epoll_.get(), events.data(), most, 0);
    for (int i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>(i);
        names[at] = events[at].data.u64;
        if (names[at] != alarm_name_) continue;
        uint64_t expirations = 0;
        [[maybe_unused]] const ssize_t got = ::read(timer_.get(), &expirations, sizeof expirations);
    }
    return count < 0 ? 0 : static_cast<size_t>(count);
}

void Watcher::set_alarm(uint64_t in_ns) const noexcept {
    const uint64_t wait_ns = std::max<uint64_t>(in_ns, 1);
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(wait_ns / kSecond);
    when.it_value.tv_nsec = static_cast<long>(wait_ns % kSecond);
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace weir::transport
